// Shares: how many slots each node should own, and how to get there with the fewest moves. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "slots/slot_map.h"

namespace slots {

using Counts = std::vector<std::size_t>;  // Slots by NodeIndex.

[[nodiscard]] std::vector<double> weights_of(const std::vector<Node>& nodes);
// Slots without an owner count for nobody.
[[nodiscard]] Counts count_slots(const SlotMap::Owners& owners, std::size_t node_count);

// `total` slots by the method of largest remainders (Hamilton). Between equal remainders the node
// that owns more of what it would lose keeps it (that saves a move), then the earlier node.
// Requires a weight above 0.
[[nodiscard]] Counts shares_of(const std::vector<double>& weights, const Counts& owned,
                               std::size_t total);

// Changes owners until every node owns its share. A node above it gives up exactly the excess, its
// highest slots first; a node at or below it gives up nothing; so no owners with these shares are
// reached with fewer moves. What is free, unowned slots included, is dealt in slot order to the
// nodes in their order. `fixed` slots stay. Requires that the shares add up to all slots, and that
// no node's fixed slots exceed its share.
void reach_shares(SlotMap::Owners& owners, const Counts& shares, const SlotSet& fixed);

}  // namespace slots
