#include "slots/simulation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace slots {
namespace {

using Counts = std::vector<std::uint64_t>;

std::string quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double deviation_percent_of(const Counts& counts, std::uint64_t total) {
  if (total == 0) return 0;
  const double mean = static_cast<double>(total) / static_cast<double>(counts.size());
  double squares = 0;
  for (const std::uint64_t count : counts) {
    const double distance = static_cast<double>(count) - mean;
    squares += distance * distance;
  }
  return 100.0 * std::sqrt(squares / static_cast<double>(counts.size())) / mean;
}

double spread_of(const std::vector<Node>& nodes, const Counts& counts, std::uint64_t total) {
  if (total == 0) return 0;
  double weight_sum = 0;
  for (const Node& node : nodes) weight_sum += node.weight;
  double largest = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].weight == 0) continue;
    const double fair = static_cast<double>(total) * nodes[i].weight / weight_sum;
    largest = std::max(largest, static_cast<double>(counts[i]) / fair);
  }
  return largest;
}

Distribution distribution_of(const std::vector<Node>& nodes, const Counts& counts,
                             std::uint64_t total) {
  Distribution distribution;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    distribution.per_node.push_back({nodes[i].name, counts[i]});
  }
  distribution.deviation_percent = deviation_percent_of(counts, total);
  distribution.spread = spread_of(nodes, counts, total);
  return distribution;
}

// For each node before the change, its index after it; kNoNode for one that is removed.
std::vector<NodeIndex> renumbering(const std::vector<Node>& before,
                                   const std::vector<Node>& after) {
  std::vector<NodeIndex> indexes;
  for (const Node& node : before) {
    const auto found = std::ranges::find(after, node.name, &Node::name);
    indexes.push_back(found == after.end() ? kNoNode
                                           : static_cast<NodeIndex>(found - after.begin()));
  }
  return indexes;
}

Status check_nodes(const std::vector<Node>& nodes) {
  if (nodes.size() > kNodesMax) {
    return fail(Errc::LimitExceeded,
                "at most " + std::to_string(kNodesMax) + " nodes can be placed");
  }
  std::set<std::string_view> names;
  for (const Node& node : nodes) {
    if (Status status = check_node(node); !status) return status;
    if (!names.insert(node.name).second) {
      return fail(Errc::AlreadyExists, "two nodes have the name " + quoted(node.name));
    }
  }
  if (std::ranges::none_of(nodes, [](const Node& node) { return node.weight > 0; })) {
    return fail(Errc::InvalidArgument, "no node is left with a weight above 0 to own anything");
  }
  return {};
}

Status check_ring_size(const std::vector<Node>& nodes, std::size_t vnodes) {
  double positions = 0;
  for (const Node& node : nodes)
    positions += std::max(1.0, static_cast<double>(vnodes) * node.weight);
  if (positions <= static_cast<double>(Simulation::kRingPositionsMax)) return {};
  return fail(Errc::LimitExceeded, "the ring would have more than " +
                                       std::to_string(Simulation::kRingPositionsMax) +
                                       " positions; use fewer virtual nodes or smaller weights");
}

// Counts things as they pass, each with its owners on both sides of the change.
class Tally {
 public:
  Tally(std::size_t before_count, std::size_t after_count)
      : before_(before_count, 0), after_(after_count, 0) {}

  // `before` in the numbers of after the change, except for the count of its own side. Both are
  // sorted in place.
  void add(std::vector<NodeIndex>& before, std::vector<NodeIndex>& after,
           const std::vector<NodeIndex>& renumbered) {
    ++total_;
    ++before_[before.front()];
    ++after_[after.front()];
    for (NodeIndex& node : before) node = renumbered[node];
    if (before.front() != after.front()) ++moved_;
    std::ranges::sort(before);
    std::ranges::sort(after);
    if (before != after) ++sets_changed_;
  }

  [[nodiscard]] Comparison compare(const Scenario& scenario,
                                   const std::vector<NodeIndex>& renumbered,
                                   bool ranks_replicas) const {
    Counts held(after_.size(), 0);  // Before the change, by the nodes of after it.
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (renumbered[i] != kNoNode) held[renumbered[i]] = before_[i];
    }
    std::uint64_t gained = 0;
    for (std::size_t i = 0; i < after_.size(); ++i)
      gained += after_[i] - std::min(after_[i], held[i]);

    Comparison comparison;
    comparison.before = distribution_of(scenario.before, before_, total_);
    comparison.after = distribution_of(scenario.after, after_, total_);
    comparison.total = total_;
    comparison.moved_percent = percent(moved_, total_);
    comparison.least_percent = percent(gained, total_);
    if (scenario.replicas > 1 && ranks_replicas) {
      comparison.replica_sets_changed_percent = percent(sets_changed_, total_);
    }
    return comparison;
  }

 private:
  Counts before_;
  Counts after_;
  std::uint64_t total_ = 0;
  std::uint64_t moved_ = 0;
  std::uint64_t sets_changed_ = 0;
};

}  // namespace

Result<std::vector<Node>> apply_changes(std::vector<Node> nodes, const NodeChanges& changes) {
  for (const std::string& name : changes.remove) {
    if (std::erase_if(nodes, [&](const Node& node) { return node.name == name; }) == 0) {
      return fail(Errc::NotFound, "can't remove " + quoted(name) + ": no node has that name");
    }
  }
  for (const Node& change : changes.reweight) {
    const auto found = std::ranges::find(nodes, change.name, &Node::name);
    if (found == nodes.end()) {
      return fail(Errc::NotFound, "can't weigh " + quoted(change.name) + ": no node has that name");
    }
    found->weight = change.weight;
  }
  for (const Node& node : changes.add) {
    if (std::ranges::find(nodes, node.name, &Node::name) != nodes.end()) {
      return fail(Errc::AlreadyExists, "can't add " + quoted(node.name) + ": it is there already");
    }
    nodes.push_back(node);
  }
  for (const Node& node : nodes) {
    if (const Status status = check_node(node); !status) return std::unexpected(status.error());
  }
  return nodes;
}

struct Simulation::State {
  PlacementKind kind;
  Scenario scenario;
  std::vector<NodeIndex> renumbered;
  SlotMap::Owners slots_before;
  SlotMap::Owners slots_after;
  std::unique_ptr<Placement::KeyPlacer> keys_before;
  std::unique_ptr<Placement::KeyPlacer> keys_after;
  Tally keys;
  // Kept between keys, so that a key costs no allocation.
  std::vector<NodeIndex> owners_before;
  std::vector<NodeIndex> owners_after;

  State(PlacementKind placement_kind, Scenario played)
      : kind(placement_kind),
        scenario(std::move(played)),
        renumbered(renumbering(scenario.before, scenario.after)),
        keys(scenario.before.size(), scenario.after.size()) {
    const auto placement = make_placement(kind, scenario.vnodes);
    slots_before = placement->place_slots(scenario.before, nullptr);
    SlotMap::Owners current;
    std::ranges::transform(slots_before, current.begin(),
                           [&](NodeIndex owner) { return renumbered[owner]; });
    slots_after = placement->place_slots(scenario.after, &current);
    keys_before = placement->place_keys(scenario.before, nullptr);
    keys_after = placement->place_keys(scenario.after, &current);
  }

  [[nodiscard]] bool ranks_replicas() const { return kind != PlacementKind::Balanced; }
};

Simulation::Simulation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Simulation::~Simulation() = default;
Simulation::Simulation(Simulation&&) noexcept = default;
Simulation& Simulation::operator=(Simulation&&) noexcept = default;

Result<Simulation> Simulation::create(PlacementKind kind, Scenario scenario) {
  if (scenario.vnodes == 0)
    return fail(Errc::InvalidArgument, "a ring needs at least 1 virtual node");
  if (scenario.replicas == 0 || scenario.replicas > kReplicasMax) {
    return fail(Errc::InvalidArgument, "replicas must be 1 to " + std::to_string(kReplicasMax));
  }
  for (const auto* nodes : {&scenario.before, &scenario.after}) {
    if (const Status status = check_nodes(*nodes); !status) return std::unexpected(status.error());
    if (kind != PlacementKind::Ring) continue;
    if (const Status status = check_ring_size(*nodes, scenario.vnodes); !status) {
      return std::unexpected(status.error());
    }
  }
  return Simulation(std::make_unique<State>(kind, std::move(scenario)));
}

void Simulation::add_key(std::string_view key) {
  State& state = *state_;
  state.keys_before->owners_of(key, state.scenario.replicas, state.owners_before);
  state.keys_after->owners_of(key, state.scenario.replicas, state.owners_after);
  state.keys.add(state.owners_before, state.owners_after, state.renumbered);
}

Comparison Simulation::keys() const {
  return state_->keys.compare(state_->scenario, state_->renumbered, state_->ranks_replicas());
}

Comparison Simulation::slots() const {
  const State& state = *state_;
  Tally tally(state.scenario.before.size(), state.scenario.after.size());
  std::vector<NodeIndex> before;
  std::vector<NodeIndex> after;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    before.assign(1, state.slots_before[slot]);
    after.assign(1, state.slots_after[slot]);
    tally.add(before, after, state.renumbered);
  }
  return tally.compare(state.scenario, state.renumbered, false);
}

}  // namespace slots
