#include "slots/planner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "slots/placement/shares.h"
#include "slots/spread.h"

namespace slots {
namespace {

std::string quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

std::unexpected<Error> unfit(std::string message) {
  return fail(Errc::InvalidArgument, std::move(message));
}

// What the goals come to. Nodes are those of the map, in its order, then those that join it.
struct Wanted {
  std::vector<Node> nodes;
  std::size_t known = 0;         // So many of them are in the map.
  std::vector<bool> is_named;    // Its share is to be reached.
  std::vector<bool> is_drained;  // Owns nothing afterwards; its weight here is 0.
  std::vector<bool> leaves;
  SlotMap::Owners moved{};  // By a MoveGoal or by the configuration; else kNoNode.
  std::optional<Measure> balance;
  std::optional<Measure> relief;

  [[nodiscard]] Measure measure() const {
    if (balance) return *balance;
    return relief.value_or(Measure::Slots);
  }
};

// Takes the goals in, one by one.
class GoalReader {
 public:
  explicit GoalReader(const SlotMap& map) {
    wanted_.nodes = map.nodes();
    wanted_.known = map.nodes().size();
    wanted_.moved.fill(kNoNode);
    resize();
  }

  Status operator()(const BalanceGoal& goal) {
    if (wanted_.balance.value_or(goal.measure) != goal.measure) {
      return unfit("a plan balances one measure; name slots, keys, bytes or ops once");
    }
    wanted_.balance = goal.measure;
    return {};
  }

  Status operator()(const AddGoal& goal) {
    if (find(goal.node.name)) {
      return fail(Errc::AlreadyExists, "node " + quoted(goal.node.name) +
                                           " is in the map already; its share follows its weight "
                                           "after a plan to balance");
    }
    return add(goal.node, /*is_named=*/true);
  }

  Status operator()(const DrainGoal& goal) {
    const Result<NodeIndex> node = known(goal.node);
    if (!node) return std::unexpected(node.error());
    return drain(*node, goal.leaves);
  }

  Status operator()(const WeightGoal& goal) {
    const Result<NodeIndex> node = known(goal.node);
    if (!node) return std::unexpected(node.error());
    if (wanted_.is_drained[*node]) {
      return unfit("node " + quoted(goal.node) + " can't be drained and have a weight in one plan");
    }
    if (Status status = check_node({goal.node, goal.weight}); !status) return status;
    wanted_.nodes[*node].weight = goal.weight;
    wanted_.is_named[*node] = true;
    return {};
  }

  Status operator()(const MoveGoal& goal) {
    const Result<NodeIndex> node = known(goal.to);
    if (!node) return std::unexpected(node.error());
    if (goal.slots.empty()) return unfit("no slots are named to move to node " + quoted(goal.to));
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      if (goal.slots.contains(static_cast<SlotId>(slot))) wanted_.moved[slot] = *node;
    }
    return {};
  }

  Status operator()(const OwnershipGoal& goal) {
    std::vector<NodeIndex> places;  // In wanted_.nodes, of each node of the goal.
    std::set<std::string_view> names;
    for (const Node& node : goal.nodes) {
      if (!names.insert(node.name).second) return unfit("node " + quoted(node.name) + " is twice");
      if (const std::optional<NodeIndex> place = find(node.name)) {
        if (Status status = check_node(node); !status) return status;
        wanted_.nodes[*place].weight = node.weight;
        places.push_back(*place);
        continue;
      }
      if (Status status = add(node, /*is_named=*/false); !status) return status;
      places.push_back(static_cast<NodeIndex>(wanted_.nodes.size() - 1));
    }
    const auto count = static_cast<NodeIndex>(wanted_.nodes.size());
    for (NodeIndex node = 0; node < count; ++node) {
      if (names.contains(wanted_.nodes[node].name)) continue;
      if (Status status = drain(node, /*leaves=*/true); !status) return status;
    }
    if (!goal.owners) return (*this)(BalanceGoal{wanted_.balance.value_or(Measure::Slots)});
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const NodeIndex owner = (*goal.owners)[slot];
      if (owner >= places.size()) return unfit("slot " + std::to_string(slot) + " has no owner");
      wanted_.moved[slot] = places[owner];
    }
    return {};
  }

  Status operator()(const RelieveGoal& goal) {
    wanted_.relief = goal.measure;
    return {};
  }

  // All goals are in: do they fit together?
  Result<Wanted> take() {
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const NodeIndex owner = wanted_.moved[slot];
      if (owner == kNoNode || !wanted_.is_drained[owner]) continue;
      return unfit("slot " + std::to_string(slot) + " can't go to node " +
                   quoted(wanted_.nodes[owner].name) + ", which gives all its slots away");
    }
    if (std::ranges::none_of(wanted_.nodes, [](const Node& node) { return node.weight > 0; })) {
      return unfit("no node would be left that may own slots; leave one with a weight above 0");
    }
    if (wanted_.relief && wanted_.balance && *wanted_.relief != *wanted_.balance) {
      return unfit("a plan balances one measure; relieve and balance by the same");
    }
    return std::move(wanted_);
  }

 private:
  void resize() {
    wanted_.is_named.resize(wanted_.nodes.size(), false);
    wanted_.is_drained.resize(wanted_.nodes.size(), false);
    wanted_.leaves.resize(wanted_.nodes.size(), false);
  }

  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const {
    const auto found = std::ranges::find(wanted_.nodes, name, &Node::name);
    if (found == wanted_.nodes.end()) return std::nullopt;
    return static_cast<NodeIndex>(found - wanted_.nodes.begin());
  }

  [[nodiscard]] Result<NodeIndex> known(std::string_view name) const {
    if (const std::optional<NodeIndex> node = find(name)) return *node;
    return fail(Errc::NotFound, "node " + quoted(name) + " is not in the map");
  }

  Status add(const Node& node, bool is_named) {
    if (Status status = check_node(node); !status) return status;
    if (wanted_.nodes.size() == kNodesMax) {
      return fail(Errc::LimitExceeded,
                  "a slot map has at most " + std::to_string(kNodesMax) + " nodes");
    }
    wanted_.nodes.push_back(node);
    resize();
    wanted_.is_named.back() = is_named;
    return {};
  }

  Status drain(NodeIndex node, bool leaves) {
    const std::string& name = wanted_.nodes[node].name;
    if (node >= wanted_.known) return unfit("node " + quoted(name) + " can't join and be drained");
    if (wanted_.is_named[node] && !wanted_.is_drained[node]) {
      return unfit("node " + quoted(name) + " can't be drained and have a weight in one plan");
    }
    wanted_.nodes[node].weight = 0;
    wanted_.is_named[node] = true;
    wanted_.is_drained[node] = true;
    wanted_.leaves[node] = wanted_.leaves[node] || leaves;
    return {};
  }

  Wanted wanted_;
};

double spread(const SlotMap::Owners& owners, const SlotLoads& loads,
              const std::vector<double>& weights) {
  return spread_of(sums_by_node(owners, loads, weights.size()), weights);
}

// Whether every node owns its exact share of slots, rounded up or down.
bool is_balanced(const SlotMap::Owners& owners, const std::vector<double>& weights) {
  SlotLoads ones;
  ones.fill(1);
  const std::vector<double> counts = sums_by_node(owners, ones, weights.size());
  const std::vector<double> shares = fair_shares(weights, kSlotCount);
  for (std::size_t node = 0; node < weights.size(); ++node) {
    if (std::abs(counts[node] - shares[node]) >= 1) return false;
  }
  return true;
}

NodeIndex busiest_of(const Leveling& leveling, const SlotLoads& loads) {
  const std::vector<double> sums = sums_by_node(leveling.owners, loads, leveling.weights.size());
  const auto fullness = [&](std::size_t node) {
    if (sums[node] == 0) return 0.0;
    return leveling.weights[node] > 0 ? sums[node] / leveling.weights[node]
                                      : std::numeric_limits<double>::infinity();
  };
  std::size_t busiest = 0;
  for (std::size_t node = 1; node < sums.size(); ++node) {
    if (fullness(node) > fullness(busiest)) busiest = node;
  }
  return static_cast<NodeIndex>(busiest);
}

class Planner {
 public:
  Planner(const SlotMap& map, Wanted wanted, const SlotLoads& loads, const PlanLimits& limits)
      : map_(map), wanted_(std::move(wanted)), measure_(wanted_.measure()), loads_(loads) {
    // An empty cluster is balanced by slots, whatever the measure.
    if (std::ranges::max(loads) <= 0) measure_ = Measure::Slots;
    if (measure_ == Measure::Slots) loads_.fill(1);
    leveling_ = {.owners = map.owners(),
                 .weights = weights_of(wanted_.nodes),
                 .fixed = {},
                 .moves_left = limits.slots.value_or(kSlotCount)};
  }

  Proposal make() {
    move_named_slots();
    after_named_ = leveling_.owners;
    level();
    if (wanted_.relief) level_loads(leveling_, loads_, busiest_of(leveling_, loads_));
    Proposal proposal;
    proposal.moves = moves();
    for (const Move& move : proposal.moves) proposal.slots_moved += move.slots.size();
    proposal.least_possible = named_moves_ + least_possible();
    proposal.spread_before = spread(map_.owners(), loads_, leveling_.weights);
    proposal.spread_after = spread(leveling_.owners, loads_, leveling_.weights);
    add_edits(proposal);
    return proposal;
  }

 private:
  void move_named_slots() {
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const NodeIndex to = wanted_.moved[slot];
      if (to == kNoNode) continue;
      if (leveling_.owners[slot] != to) {
        if (leveling_.moves_left == 0) continue;
        --leveling_.moves_left;
        ++named_moves_;
        leveling_.owners[slot] = to;
      }
      leveling_.fixed.add(static_cast<SlotId>(slot));
    }
  }

  void level() {
    const bool is_any_named = std::ranges::find(wanted_.is_named, true) != wanted_.is_named.end();
    if (!wanted_.balance) {
      if (is_any_named) level_counts(leveling_, wanted_.is_named);
    } else if (measure_ != Measure::Slots) {
      level_loads(leveling_, loads_);
    } else if (!is_balanced(leveling_.owners, leveling_.weights)) {
      level_counts(leveling_, std::vector<bool>(wanted_.nodes.size(), true));
    }
  }

  [[nodiscard]] std::vector<Move> moves() const {
    std::vector<Move> moves;
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const NodeIndex from = map_.owner(static_cast<SlotId>(slot));
      const NodeIndex to = leveling_.owners[slot];
      if (from == to) continue;
      const bool goes_on = slot > 0 && map_.owner(static_cast<SlotId>(slot - 1)) == from &&
                           leveling_.owners[slot - 1] == to;
      if (goes_on) {
        moves.back().slots.last = static_cast<SlotId>(slot);
        continue;
      }
      const auto id = static_cast<SlotId>(slot);
      moves.push_back({{id, id}, wanted_.nodes[from].name, wanted_.nodes[to].name});
    }
    return moves;
  }

  // Of the moves after those that were named: a node whose load falls can't do with fewer than its
  // heaviest slots that make up the difference.
  [[nodiscard]] std::size_t least_possible() const {
    const std::size_t nodes = wanted_.nodes.size();
    const std::vector<double> before = sums_by_node(after_named_, loads_, nodes);
    const std::vector<double> after = sums_by_node(leveling_.owners, loads_, nodes);
    std::vector<std::vector<double>> by_node(nodes);
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      if (leveling_.fixed.contains(static_cast<SlotId>(slot))) continue;
      by_node[after_named_[slot]].push_back(loads_[slot]);
    }
    std::size_t least = 0;
    for (std::size_t node = 0; node < nodes; ++node) {
      std::ranges::sort(by_node[node], std::greater<>());
      // Sums in another order differ in their last digits.
      const double rounding = before[node] * 1e-9;
      double left = before[node] - after[node] - rounding;
      for (const double load : by_node[node]) {
        if (left <= 0) break;
        left -= load;
        ++least;
      }
    }
    return least;
  }

  void add_edits(Proposal& proposal) const {
    const Counts counts = count_slots(leveling_.owners, wanted_.nodes.size());
    for (std::size_t i = 0; i < wanted_.nodes.size(); ++i) {
      const Node& node = wanted_.nodes[i];
      if (i >= wanted_.known) {
        proposal.edits_before.emplace_back(AddNode{node});
      } else if (wanted_.leaves[i] && counts[i] == 0) {
        proposal.edits_after.emplace_back(RemoveNode{node.name});
      } else if (node.weight != map_.nodes()[i].weight) {
        proposal.edits_before.emplace_back(SetWeight{node.name, node.weight});
      }
    }
  }

  const SlotMap& map_;
  Wanted wanted_;
  Measure measure_;
  SlotLoads loads_;
  Leveling leveling_;
  SlotMap::Owners after_named_{};
  std::size_t named_moves_ = 0;
};

std::string_view noun_of(Measure measure) {
  switch (measure) {
    case Measure::Slots:
      return "slots";
    case Measure::Keys:
      return "keys";
    case Measure::Bytes:
      return "bytes";
    case Measure::Operations:
      return "operations";
  }
  return "";
}

std::string number_text(double number) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

struct PurposeText {
  std::string operator()(const BalanceGoal& goal) const {
    return "balance " + std::string(noun_of(goal.measure));
  }
  std::string operator()(const AddGoal& goal) const { return "add " + goal.node.name; }
  std::string operator()(const DrainGoal& goal) const {
    return (goal.leaves ? "remove " : "drain ") + goal.node;
  }
  std::string operator()(const WeightGoal& goal) const {
    return "weight of " + goal.node + ": " + number_text(goal.weight);
  }
  std::string operator()(const MoveGoal& goal) const {
    return "slots " + to_string(goal.slots) + " to " + goal.to;
  }
  std::string operator()(const OwnershipGoal&) const { return "as the configuration says"; }
  std::string operator()(const RelieveGoal& goal) const {
    return "relieve the node with most " + std::string(noun_of(goal.measure));
  }
};

}  // namespace

std::string purpose_of(const std::vector<Goal>& goals) {
  std::string text;
  for (const Goal& goal : goals) {
    text += (text.empty() ? "" : ", ") + std::visit(PurposeText(), goal);
  }
  return text;
}

Result<Proposal> propose(const SlotMap& map, const std::vector<Goal>& goals, const SlotLoads& loads,
                         const PlanLimits& limits) {
  if (goals.empty()) return unfit("no goal is named: what should become true?");
  if (limits.slots == std::size_t{0}) return unfit("with a limit of 0 slots nothing can move");
  GoalReader reader(map);
  for (const Goal& goal : goals) {
    if (Status status = std::visit(reader, goal); !status) return std::unexpected(status.error());
  }
  Result<Wanted> wanted = reader.take();
  if (!wanted) return std::unexpected(wanted.error());
  if (wanted->relief.value_or(Measure::Slots) != Measure::Slots && std::ranges::max(loads) <= 0) {
    return fail(Errc::AlreadyExists,
                "no node has any " + std::string(noun_of(*wanted->relief)) + " to be relieved of");
  }
  Proposal proposal = Planner(map, *std::move(wanted), loads, limits).make();
  if (proposal.moves.empty() && proposal.edits_before.empty() && proposal.edits_after.empty()) {
    return fail(Errc::AlreadyExists, "nothing has to move: all is as wanted already");
  }
  return proposal;
}

}  // namespace slots
