// Consistent hashing (Karger et al., 1997) with virtual nodes: each node stands at many places of a
// ring of hashes, so that a node that joins takes only its own share, a little from everybody.

#include <algorithm>

#include "slots/assert.h"
#include "slots/placement/hash.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

// A weight that is a slip of the pen (1e9) must not eat the memory of the machine.
constexpr double kPositionsPerNodeMax = 1'000'000;

struct Position {
  std::uint64_t hash = 0;
  NodeIndex node = 0;

  // Two nodes at one hash: the earlier node stands first, on every machine.
  friend auto operator<=>(const Position&, const Position&) = default;
};

std::vector<Position> ring_of(const std::vector<Node>& nodes, std::size_t vnodes) {
  std::vector<Position> ring;
  for (const NodeIndex node : weighted_nodes(nodes)) {
    const std::string prefix = nodes[node].name + '#';
    const double wanted = static_cast<double>(vnodes) * nodes[node].weight;
    const auto count = static_cast<std::size_t>(std::clamp(wanted, 1.0, kPositionsPerNodeMax));
    for (std::size_t i = 0; i < count; ++i) {
      ring.push_back({hash64(prefix + std::to_string(i)), node});
    }
  }
  std::ranges::sort(ring);
  return ring;
}

class RingPlacer final : public Placement::KeyPlacer {
 public:
  RingPlacer(const std::vector<Node>& nodes, std::size_t vnodes)
      : ring_(ring_of(nodes, vnodes)), node_count_(weighted_nodes(nodes).size()) {}

  void owners_of(std::string_view key, std::size_t replicas,
                 std::vector<NodeIndex>& out) const override {
    out.clear();
    const std::size_t wanted = std::min(replicas, node_count_);
    auto at = std::ranges::upper_bound(ring_, hash64(key), {}, &Position::hash);
    // Ends: every node with a weight stands on the ring at least once.
    while (out.size() < wanted) {
      if (at == ring_.end()) at = ring_.begin();
      if (std::ranges::find(out, at->node) == out.end()) out.push_back(at->node);
      ++at;
    }
  }

 private:
  std::vector<Position> ring_;
  std::size_t node_count_;
};

class Ring final : public Placement {
 public:
  explicit Ring(std::size_t vnodes) : vnodes_(vnodes) { SP_ASSERT(vnodes > 0); }

  SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                              const SlotMap::Owners* /*current*/) const override {
    return place_slots_as_keys(RingPlacer(nodes, vnodes_));
  }
  std::unique_ptr<KeyPlacer> place_keys(const std::vector<Node>& nodes,
                                        const SlotMap::Owners* /*current*/) const override {
    return std::make_unique<RingPlacer>(nodes, vnodes_);
  }

 private:
  std::size_t vnodes_;
};

}  // namespace

std::unique_ptr<Placement> make_ring(std::size_t vnodes) { return std::make_unique<Ring>(vnodes); }

}  // namespace slots
