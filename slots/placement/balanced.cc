// Each node's share by the method of largest remainders (Hamilton), reached with the fewest moves
// from the map of now.
//
// A move is a slot whose owner changes. A node above its share gives up exactly the excess, its
// highest slots first; a node at or below its share gives up nothing; so no map with these shares
// needs fewer moves. What is free is dealt in slot order to the nodes in their order: without a map
// of now every node gets one contiguous range.

#include <algorithm>
#include <cmath>

#include "slots/assert.h"
#include "slots/key_slot.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

using Counts = std::vector<std::size_t>;  // Slots by NodeIndex.

Counts count_slots(const SlotMap::Owners& owners, std::size_t node_count) {
  Counts counts(node_count, 0);
  for (const NodeIndex owner : owners) {
    if (owner < node_count) ++counts[owner];
  }
  return counts;
}

// How many slots each node should own. Between equal remainders the node that owns more of what it
// would lose keeps it (that saves a move), then the earlier node.
Counts shares_of(const std::vector<Node>& nodes, const Counts& owned) {
  std::vector<NodeIndex> order = weighted_nodes(nodes);
  double largest = 0;
  for (const Node& node : nodes) largest = std::max(largest, node.weight);
  double total = 0;  // In units of the largest weight: the sum of huge weights would overflow.
  for (const Node& node : nodes) total += node.weight / largest;

  Counts shares(nodes.size(), 0);
  std::vector<double> remainders(nodes.size(), 0);
  std::size_t left = kSlotCount;
  for (const NodeIndex node : order) {
    const double exact = nodes[node].weight / largest / total * static_cast<double>(kSlotCount);
    shares[node] = static_cast<std::size_t>(exact);
    remainders[node] = exact - std::floor(exact);
    left -= shares[node];
  }
  SP_ASSERT(left <= order.size());
  std::ranges::stable_sort(order, [&](NodeIndex a, NodeIndex b) {
    if (remainders[a] != remainders[b]) return remainders[a] > remainders[b];
    return (owned[a] > shares[a]) > (owned[b] > shares[b]);
  });
  for (std::size_t i = 0; i < left; ++i) ++shares[order[i]];
  return shares;
}

class Balanced final : public Placement {
 public:
  SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                              const SlotMap::Owners* current) const override {
    SlotMap::Owners owners;
    if (current != nullptr) {
      owners = *current;
    } else {
      owners.fill(kNoNode);
    }
    Counts owned = count_slots(owners, nodes.size());
    const Counts shares = shares_of(nodes, owned);
    release_excess(owners, owned, shares);
    deal_free(owners, owned, shares);
    return owners;
  }

  std::unique_ptr<KeyPlacer> place_keys(const std::vector<Node>& nodes,
                                        const SlotMap::Owners* current) const override {
    return std::make_unique<SlotPlacer>(place_slots(nodes, current));
  }

 private:
  class SlotPlacer final : public KeyPlacer {
   public:
    explicit SlotPlacer(const SlotMap::Owners& owners) : owners_(owners) {}
    void owners_of(std::string_view key, std::size_t /*replicas*/,
                   std::vector<NodeIndex>& out) const override {
      out.assign(1, owners_[slot_of_key(key)]);
    }

   private:
    SlotMap::Owners owners_;
  };

  static void release_excess(SlotMap::Owners& owners, Counts& owned, const Counts& shares) {
    for (std::size_t slot = kSlotCount; slot-- > 0;) {
      NodeIndex& owner = owners[slot];
      if (owner >= owned.size()) {
        owner = kNoNode;
      } else if (owned[owner] > shares[owner]) {
        --owned[owner];
        owner = kNoNode;
      }
    }
  }

  static void deal_free(SlotMap::Owners& owners, Counts& owned, const Counts& shares) {
    std::size_t taker = 0;
    for (NodeIndex& owner : owners) {
      if (owner != kNoNode) continue;
      while (owned[taker] == shares[taker]) ++taker;
      owner = static_cast<NodeIndex>(taker);
      ++owned[taker];
    }
  }
};

}  // namespace

std::unique_ptr<Placement> make_balanced() { return std::make_unique<Balanced>(); }

}  // namespace slots
