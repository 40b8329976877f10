#include "slots/leveling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "slots/placement/shares.h"

namespace slots {
namespace {

Counts count_fixed(const Leveling& leveling) {
  Counts counts(leveling.weights.size(), 0);
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    if (leveling.fixed.contains(static_cast<SlotId>(slot))) ++counts[leveling.owners[slot]];
  }
  return counts;
}

// Shares by weight, except that a node never gets fewer than its fixed slots.
Counts fitting_shares(const Leveling& leveling, const Counts& owned) {
  const Counts fixed = count_fixed(leveling);
  std::vector<double> weights = leveling.weights;
  std::vector<bool> is_settled(weights.size(), false);
  std::size_t total = kSlotCount;
  Counts shares;
  for (bool is_done = false; !is_done;) {
    is_done = true;
    if (std::ranges::max(weights) > 0) {
      shares = shares_of(weights, owned, total);
    } else {
      shares.assign(weights.size(), 0);
    }
    for (std::size_t node = 0; node < weights.size(); ++node) {
      if (is_settled[node] || fixed[node] <= shares[node]) continue;
      is_settled[node] = true;
      weights[node] = 0;
      total -= fixed[node];
      is_done = false;
    }
  }
  for (std::size_t node = 0; node < weights.size(); ++node) {
    if (is_settled[node]) shares[node] = fixed[node];
  }
  return shares;
}

// Slots for each unit of weight: who has most gives first, who has least takes first.
double fullness(std::size_t slots, double weight) {
  return weight > 0 ? static_cast<double>(slots) / weight : std::numeric_limits<double>::infinity();
}

// The counts to reach: `shares` for exact nodes; the others move towards theirs as far as needed.
Counts wanted_counts(const Leveling& leveling, const std::vector<bool>& exact,
                     const Counts& shares) {
  Counts counts = count_slots(leveling.owners, leveling.weights.size());
  for (std::size_t node = 0; node < counts.size(); ++node) {
    if (exact[node]) counts[node] = shares[node];
  }
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const bool is_giving = sum > kSlotCount;
  for (std::size_t left = is_giving ? sum - kSlotCount : kSlotCount - sum; left > 0; --left) {
    std::size_t next = counts.size();
    for (std::size_t node = 0; node < counts.size(); ++node) {
      if (is_giving ? counts[node] <= shares[node] : counts[node] >= shares[node]) continue;
      const double full = fullness(counts[node], leveling.weights[node]);
      const double best =
          next == counts.size() ? 0 : fullness(counts[next], leveling.weights[next]);
      if (next == counts.size() || (is_giving ? full > best : full < best)) next = node;
    }
    counts[next] += is_giving ? std::size_t{0} - 1 : 1;
  }
  return counts;
}

// As far from `owned` to `wanted` as `moves` allow, everybody in proportion.
Counts part_of_the_way(const Counts& owned, const Counts& wanted, std::size_t moves) {
  std::vector<double> gives(owned.size(), 0);
  std::vector<double> gets(owned.size(), 0);
  double all = 0;
  for (std::size_t node = 0; node < owned.size(); ++node) {
    if (owned[node] > wanted[node]) gives[node] = static_cast<double>(owned[node] - wanted[node]);
    if (owned[node] < wanted[node]) gets[node] = static_cast<double>(wanted[node] - owned[node]);
    all += gives[node];
  }
  if (all <= static_cast<double>(moves)) return wanted;
  const Counts given = shares_of(gives, owned, moves);
  const Counts got = shares_of(gets, owned, moves);
  Counts counts = owned;
  for (std::size_t node = 0; node < owned.size(); ++node) counts[node] += got[node] - given[node];
  return counts;
}

constexpr double kNearEnough = 0.01;  // Of a node's share.

class LoadLeveler {
 public:
  LoadLeveler(Leveling& leveling, const SlotLoads& loads, std::optional<NodeIndex> giver)
      : leveling_(leveling),
        giver_(giver),
        node_count_(static_cast<NodeIndex>(leveling.weights.size())) {
    // Slots of no load still count a little, so that they are spread like the others.
    const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
    const double least = sum / kSlotCount / 1000;
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) loads_[slot] = loads[slot] + least;
    // In units of the largest weight: the sum of huge weights would overflow.
    const double largest = std::ranges::max(leveling.weights);
    double weight = 0;
    for (const double one : leveling.weights) weight += one / largest;
    above_.resize(node_count_);
    slots_.resize(node_count_);
    is_stuck_.resize(node_count_, false);
    for (std::size_t node = 0; node < node_count_; ++node) {
      shares_.push_back((sum + least * kSlotCount) * (leveling.weights[node] / largest / weight));
      above_[node] = -shares_[node];
    }
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const NodeIndex owner = leveling.owners[slot];
      above_[owner] += loads_[slot];
      const bool is_heavy = loads[slot] > sum / kSlotCount;
      if (!leveling.fixed.contains(static_cast<SlotId>(slot)) && (!giver || is_heavy)) {
        slots_[owner].push_back(static_cast<SlotId>(slot));
      }
    }
    const auto is_lighter = [this](SlotId a, SlotId b) {
      return loads_[a] != loads_[b] ? loads_[a] < loads_[b] : a > b;
    };
    for (std::vector<SlotId>& slots : slots_) std::ranges::sort(slots, is_lighter);
  }

  void run() {
    while (leveling_.moves_left > 0) {
      const std::optional<NodeIndex> from = next_giver();
      if (!from) return;
      const NodeIndex to = next_taker();
      if (is_near(*from) && (giver_ || is_near(to))) return;
      if (!move_one(*from, to)) is_stuck_[*from] = true;
    }
  }

 private:
  [[nodiscard]] bool is_emptied(NodeIndex node) const { return leveling_.weights[node] == 0; }

  [[nodiscard]] bool is_near(NodeIndex node) const {
    return !is_emptied(node) && std::abs(above_[node]) <= kNearEnough * shares_[node];
  }

  // A node that shall be emptied first, then the one furthest above its share.
  [[nodiscard]] std::optional<NodeIndex> next_giver() const {
    std::optional<NodeIndex> best;
    for (NodeIndex node = 0; node < node_count_; ++node) {
      if (giver_ && node != *giver_) continue;
      if (is_stuck_[node] || slots_[node].empty()) continue;
      if (is_emptied(node)) return node;
      if (above_[node] <= 0) continue;
      if (!best || above_[node] > above_[*best]) best = node;
    }
    return best;
  }

  [[nodiscard]] NodeIndex next_taker() const {
    NodeIndex best = 0;
    for (NodeIndex node = 1; node < node_count_; ++node) {
      if (is_emptied(node)) continue;
      if (is_emptied(best) || above_[node] < above_[best]) best = node;
    }
    return best;
  }

  // The heaviest slot that neither leaves `from` below its share nor lifts `to` above its. Where
  // that is a light one, which would change next to nothing, or there is none: the next heavier
  // one, if that brings both nearer.
  bool move_one(NodeIndex from, NodeIndex to) {
    std::vector<SlotId>& slots = slots_[from];
    const double room = std::min(above_[from], -above_[to]);
    auto chosen =
        std::ranges::partition_point(slots, [&](SlotId slot) { return loads_[slot] <= room; });
    const bool is_any_fitting = chosen != slots.begin();
    if (is_emptied(from)) {
      chosen = slots.end() - 1;
    } else if (is_any_fitting && (loads_[*(chosen - 1)] * 2 >= room || chosen == slots.end() ||
                                  !brings_nearer(*chosen, from, to))) {
      --chosen;
    } else if (!is_any_fitting && !brings_nearer(*chosen, from, to)) {
      return false;
    }
    leveling_.owners[*chosen] = to;
    --leveling_.moves_left;
    above_[from] -= loads_[*chosen];
    above_[to] += loads_[*chosen];
    slots.erase(chosen);
    return true;
  }

  [[nodiscard]] bool brings_nearer(SlotId slot, NodeIndex from, NodeIndex to) const {
    const double load = loads_[slot];
    const double now = std::max(above_[from], -above_[to]);
    return std::max(std::abs(above_[from] - load), std::abs(above_[to] + load)) < now;
  }

  Leveling& leveling_;
  std::optional<NodeIndex> giver_;
  NodeIndex node_count_;
  SlotLoads loads_{};
  std::vector<double> shares_;
  std::vector<double> above_;               // Load minus share, by node.
  std::vector<std::vector<SlotId>> slots_;  // What each node can give, lightest first.
  std::vector<bool> is_stuck_;
};

}  // namespace

std::vector<double> sums_by_node(const SlotMap::Owners& owners, const SlotLoads& loads,
                                 std::size_t nodes) {
  std::vector<double> sums(nodes, 0);
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) sums[owners[slot]] += loads[slot];
  return sums;
}

void level_counts(Leveling& leveling, const std::vector<bool>& exact) {
  const Counts owned = count_slots(leveling.owners, leveling.weights.size());
  const Counts wanted = wanted_counts(leveling, exact, fitting_shares(leveling, owned));
  const Counts reached = part_of_the_way(owned, wanted, leveling.moves_left);
  for (std::size_t node = 0; node < owned.size(); ++node) {
    if (owned[node] > reached[node]) leveling.moves_left -= owned[node] - reached[node];
  }
  reach_shares(leveling.owners, reached, leveling.fixed);
}

void level_loads(Leveling& leveling, const SlotLoads& loads, std::optional<NodeIndex> giver) {
  LoadLeveler(leveling, loads, giver).run();
}

}  // namespace slots
