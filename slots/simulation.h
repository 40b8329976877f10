// Simulation: what a placement does to keys and slots, and what a change of the nodes would move.
//
// Keys are placed directly, as the literature does it; slots as the proxy does. Nothing runs: no
// proxy, no node.
//
// Words, for keys and slots alike ("things"):
//   moved      things whose owner, by name, is another one after the change.
//   least      what no strategy could save that ends at the same counts per node: the sum over all
//   nodes of what
//              their count grows by. When nodes are added that is what the added nodes get; when
//              nodes are removed, what they held; with new weights, what the heavier ones gain.
//   deviation  the population standard deviation of the counts over their mean. Every node counts,
//   those of weight 0
//              too, and weights are not looked at.
//   spread     the largest count over its fair share by weight: 1 is perfect, 1.33 a third too
//   much.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slots/placement/placement.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace slots {

// What would change about the nodes. Added ones go to the end, in this order.
struct NodeChanges {
  std::vector<Node> add = {};
  std::vector<std::string> remove = {};
  std::vector<Node> reweight = {};  // The name, with its new weight.

  [[nodiscard]] bool empty() const { return add.empty() && remove.empty() && reweight.empty(); }
};

// Errors: InvalidArgument, NotFound or AlreadyExists, naming the node.
[[nodiscard]] Result<std::vector<Node>> apply_changes(std::vector<Node> nodes,
                                                      const NodeChanges& changes);

struct Scenario {
  std::vector<Node> before;
  std::vector<Node> after;   // The same as `before` when nothing changes.
  std::size_t replicas = 1;  // Owners per key, the primary included.
  std::size_t vnodes = 150;  // Ring positions per unit of weight.
};

struct NodeCount {
  std::string node;
  std::uint64_t count = 0;

  friend bool operator==(const NodeCount&, const NodeCount&) = default;
};

// The nodes of one side of the change, in their order.
struct Distribution {
  std::vector<NodeCount> per_node;
  double deviation_percent = 0;
  double spread = 0;
};

struct Comparison {
  Distribution before;
  Distribution after;
  std::uint64_t total = 0;
  double moved_percent = 0;
  double least_percent = 0;
  // Things whose set of `replicas` owners changes; absent with one replica, and where no replicas
  // are ranked.
  std::optional<double> replica_sets_changed_percent;
};

// Not thread-safe; use one per thread.
class Simulation {
 public:
  static constexpr std::size_t kRingPositionsMax = 4'000'000;
  static constexpr std::size_t kReplicasMax = kNodesMax;

  // Errors: InvalidArgument or LimitExceeded: nodes that break a rule, none with a weight above 0,
  // no or too many virtual nodes or replicas.
  [[nodiscard]] static Result<Simulation> create(PlacementKind kind, Scenario scenario);
  ~Simulation();
  Simulation(Simulation&&) noexcept;
  Simulation& operator=(Simulation&&) noexcept;

  void add_key(std::string_view key);

  [[nodiscard]] Comparison keys() const;  // Of the keys added so far.
  [[nodiscard]] Comparison slots() const;

 private:
  struct State;
  explicit Simulation(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace slots
