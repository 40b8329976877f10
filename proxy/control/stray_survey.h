// StraySurvey: counts the keys that lie on nodes that do not own them, by the node that does, and
// notes which of them their owners have as well: what a plan that collects strays is made of.
//
// Thread:  the control loop. Destroying it ends the survey without a completion. One use.
// Owns:    a connection per node.
// Limits:  every node is scanned to the end, paced so that at most a third of its time goes into
//          it; it does not tell more than kDistinctMax strays of a node from repeated ones.
// Errors:  those of the NodeClient, naming the node; one node that can't be asked ends it.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proxy/control/node_client.h"
#include "proxy/control/preflight.h"
#include "proxy/net/loop_timer.h"
#include "slots/plan.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace proxy::control {

// A node of the map, and slots whose keys on it are no strays, whoever owns them.
struct SurveyedNode {
  AskedNode asked;
  slots::SlotSet kept = {};
};

class StraySurvey {
 public:
  using Done = std::function<void(slots::Result<std::vector<slots::StrayMove>>)>;

  // `nodes`: all of the map, in its order. `done` is called once, maybe from inside a completion of
  // one of the nodes (so not the place to destroy this), never from inside the constructor.
  StraySurvey(uv_loop_t* loop, const slots::SlotMap& map, std::vector<SurveyedNode> nodes,
              std::string client_name, conf::Milliseconds connect, conf::Milliseconds answer,
              Done done);

 private:
  static constexpr std::size_t kDistinctMax = 4'000'000;

  struct Node {
    SurveyedNode surveyed;
    std::unique_ptr<NodeClient> client;
    std::unique_ptr<net::LoopTimer> pause;
    std::string cursor = "0";
    std::uint64_t asked_at_ms = 0;
    std::size_t waiting = 0;                      // Answers about the page's keys.
    std::unordered_set<std::uint64_t> seen = {};  // SCAN may show a key twice.
    std::set<std::string> given = {};             // resp::noted_name() of what others gave it.
  };
  struct Tally {
    std::map<slots::SlotId, slots::StrayMove::InSlot> slots = {};
    std::uint64_t measured_keys = 0;
    std::uint64_t measured_bytes = 0;  // Of the server's memory.
    std::vector<std::uint64_t> conflicts = {};
    std::vector<std::string> conflict_names = {};
  };

  void start(std::size_t index);
  void scan(std::size_t index);
  void on_page(std::size_t index, const Reply& reply);
  void look_at(std::size_t index, const std::string& key);
  [[nodiscard]] bool is_given_elsewhere(const std::string& note, slots::NodeIndex owner) const;
  static void count(Tally& tally, const std::string& key, bool is_conflict);
  // Asks node `at` in the name of node `index`, whose page is over when all is answered.
  void ask(std::size_t index, std::size_t at, const Command& command,
           std::function<void(const Reply&)> take);
  void on_counted(std::size_t index);
  [[nodiscard]] std::vector<slots::StrayMove> result();
  void end(std::size_t index, const slots::Error& error);

  uv_loop_t* loop_;
  slots::SlotMap map_;
  std::string client_name_;
  conf::Milliseconds connect_;
  conf::Milliseconds answer_;
  Done done_;
  std::vector<Node> nodes_;
  std::size_t starting_;
  std::size_t scanning_;
  bool has_ended_ = false;
  std::map<std::pair<std::size_t, slots::NodeIndex>, Tally> tallies_;  // By place and owner.
};

}  // namespace proxy::control
