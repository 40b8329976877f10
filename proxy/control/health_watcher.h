// HealthWatcher: which nodes are up, and are the servers that they should be.
//
// Thread:  the control loop. Callbacks run on it, never from inside a call to the HealthWatcher,
//          and may call anything of it, even destroy it; changes of one turn of the loop are told
//          as one.
// Owns:    a NodeWatch with a connection per node. The loop has to be run on after destruction
//          until it is empty.
// Limits:  a node's Down is told timeouts.node_silent after its first unanswered PING at the
//          latest, about min(1 s, node_silent / 3) after it fell silent.
#pragma once

#include <uv.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/node_watch.h"
#include "proxy/net/loop_timer.h"

namespace proxy::control {

struct HealthCallbacks {
  // State, reason or incarnation of a node have changed, or whether it is busy. INFO's figures
  // alone are no change.
  std::function<void(const std::string& node, const NodeStatus& status)> on_change;
  // The node has this identity from now on, given or found; to be recorded and passed in
  // WatchedNode later.
  std::function<void(const std::string& node, const std::string& identity)> on_identity;
  // Something an operator should read about a node that is usable nevertheless; follows the node's
  // name.
  std::function<void(const std::string& node, const std::string& text)> on_warning;
  // Once: every node of the first set_nodes() has been found up, refused, failing or loading.
  std::function<void()> first_round_done;
};

class HealthWatcher final : private NodeWatch::Listener {
 public:
  HealthWatcher(uv_loop_t* loop, HealthOptions options, HealthCallbacks callbacks);
  ~HealthWatcher() override;
  HealthWatcher(const HealthWatcher&) = delete;
  HealthWatcher& operator=(const HealthWatcher&) = delete;

  // These nodes are watched from now on: new ones are connected, changed ones anew, missing ones
  // forgotten. An empty expected_identity keeps the one that a known node was given.
  void set_nodes(const std::vector<WatchedNode>& nodes);
  void set_timeouts(conf::Milliseconds connect, conf::Milliseconds node_silent);

  // Unverified with the reason "unknown node" for a name that is not watched.
  [[nodiscard]] NodeStatus status(const std::string& node) const;
  // What the node answered to COMMAND, as RESP2 bytes; null until it was verified once. Equal
  // answers are shared.
  [[nodiscard]] std::shared_ptr<const std::string> command_reply(const std::string& node) const;
  [[nodiscard]] bool is_first_round_done() const { return first_round_told_; }

 private:
  struct Event {
    enum class Kind : std::uint8_t { Change, Identity, Warning, FirstRound };
    Kind kind = Kind::Change;
    std::string node;
    std::string text;
  };

  std::optional<std::string> claim_run_id(const std::string& node,
                                          const std::string& run_id) override;
  void release_run_id(const std::string& node) override;
  void on_status(const std::string& node) override;
  void on_settled(const std::string& node) override;
  void on_identity(const std::string& node, const std::string& identity) override;
  void on_warning(const std::string& node, const std::string& text) override;
  std::shared_ptr<const std::string> shared(std::string commands) override;

  void post(Event event);
  void tell();
  void tell(const Event& event);
  void end_first_round();

  uv_loop_t* loop_;
  HealthOptions options_;
  HealthCallbacks callbacks_;
  std::map<std::string, std::string> holders_;  // run_id -> node that was verified with it last.
  std::set<std::string> unsettled_;             // Nodes that the first round waits for.
  bool first_round_begun_ = false;
  bool first_round_told_ = false;
  std::vector<Event> events_;
  net::LoopTimer event_timer_;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
  std::map<std::string, std::unique_ptr<NodeWatch>> nodes_;  // Last: they call back while they end.
};

}  // namespace proxy::control
