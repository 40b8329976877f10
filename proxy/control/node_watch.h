// NodeWatch: one node's health: connect, verify, then ask for a sign of life again and again.
//
// Thread:  the control loop. Its connection is its own, so that a node busy with data is not taken
//          for a silent one and a scan never delays a PING.
// Owns:    its connection and timer; after destruction nothing is called.
// Phases:  Connecting -> Verifying -> Watching; Verifying -> AskingAgain (LOADING, BUSY) ->
//          Verifying; each of them -> Waiting (back-off, or refused) -> Connecting.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "conf/config.h"
#include "proxy/control/node_client.h"
#include "proxy/control/node_verifier.h"
#include "proxy/net/loop_timer.h"
#include "proxy/routing_table.h"

namespace proxy::control {

struct WatchedNode {
  std::string name;
  conf::Address address;
  std::string username;
  std::string password;
  std::string expected_identity;  // As recorded; empty: none yet, the node is given one.

  friend bool operator==(const WatchedNode&, const WatchedNode&) = default;
};

struct NodeStatus {
  NodeState state = NodeState::Unverified;
  std::string reason;    // Why it is not Up, in words ("connection refused"); empty when Up.
  bool is_busy = false;  // Up, but a script runs for so long that it answers BUSY to everything.
  std::string version;   // Of the server last verified; empty before.
  std::string run_id;    // Likewise.
  std::uint64_t incarnation =
      0;  // Grows whenever the node comes Up with another run_id; 0: never Up.
  std::chrono::steady_clock::time_point since;  // When `state` became what it is.
  NodeFacts facts;                              // The last INFO, at most some seconds old while Up.
};

struct HealthOptions {
  std::string cluster;
  std::string client_name_prefix;  // "slotproxy:<cluster>:<state id>:"; connections carry it and
                                   // the incarnation.
  std::string incarnation;         // This process's; connections with another one are ended.
  conf::Milliseconds connect{1000};
  conf::Milliseconds node_silent{3000};
  // The rest is no configuration; tests shorten it.
  conf::Milliseconds refused_delay{1000};  // Until a refused node is looked at again.
  conf::Milliseconds facts_age{2000};      // Until INFO is asked for again.
  // A connection that lived shorter earns no instant reconnection: a server that hangs up on us
  // would be hammered.
  conf::Milliseconds established{1000};
};

class NodeWatch {
 public:
  // Who is told. None of these may destroy the NodeWatch.
  class Listener {
   public:
    virtual ~Listener() = default;
    // Which other node holds this run_id; otherwise it is `node`'s now, instead of what it held
    // before.
    virtual std::optional<std::string> claim_run_id(const std::string& node,
                                                    const std::string& run_id) = 0;
    virtual void release_run_id(const std::string& node) = 0;
    virtual void on_status(const std::string& node) = 0;
    virtual void on_settled(const std::string& node) = 0;  // After each outcome of an attempt.
    virtual void on_identity(const std::string& node, const std::string& identity) = 0;
    virtual void on_warning(const std::string& node, const std::string& text) = 0;
    virtual std::shared_ptr<const std::string> shared(std::string commands) = 0;
  };

  // `options` must outlive the NodeWatch and may change under it.
  NodeWatch(uv_loop_t* loop, const HealthOptions& options, WatchedNode node, Listener& listener);
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  // A new address or other credentials: connects and verifies anew. A new address is Unverified
  // until then.
  void change(WatchedNode node);

  [[nodiscard]] const NodeStatus& status() const { return status_; }
  [[nodiscard]] std::shared_ptr<const std::string> commands() const {
    return commands_;
  }  // Null: none yet.

 private:
  enum class Phase : std::uint8_t { Connecting, Verifying, AskingAgain, Watching, Waiting };

  void attempt();
  void on_lost(const slots::Error& error);
  void fail(std::string reason);
  void refuse(std::string reason);
  void wait(conf::Milliseconds delay);

  void verify();
  void send(const Command& command);
  void on_step(NodeVerifier::Step step);
  void on_verdict(Verdict verdict);
  void on_verified();
  void on_alive(std::string reason);

  void beat();
  void refresh();
  void on_info(const Reply& reply);

  void note_busy(const Reply& reply);
  void set_state(NodeState state, std::string reason);
  void settle() { listener_.on_settled(node_.name); }
  [[nodiscard]] VerifyOptions verify_options();
  [[nodiscard]] conf::Milliseconds answer_timeout() const;
  [[nodiscard]] conf::Milliseconds beat_interval() const;
  [[nodiscard]] conf::Milliseconds next_delay();
  [[nodiscard]] std::string silent_reason() const;

  using Clock = std::chrono::steady_clock;

  const HealthOptions& options_;
  WatchedNode node_;
  Listener& listener_;
  NodeClient client_;
  net::LoopTimer timer_;
  Phase phase_ = Phase::Waiting;
  NodeStatus status_;
  std::optional<NodeVerifier> verifier_;
  std::shared_ptr<const std::string> commands_;
  int commands_failures_ = 0;  // How often the connection broke over COMMAND.
  bool predecessors_ended_ = false;
  std::string asked_;  // Name of the command that the verification waits for.
  conf::Milliseconds retry_delay_;
  Clock::time_point watching_since_;
  Clock::time_point facts_at_;
  Clock::time_point lost_at_;  // While Up without a connection: when it broke.
  std::minstd_rand random_;
};

}  // namespace proxy::control
