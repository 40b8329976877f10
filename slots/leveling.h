// Leveling: which slots change hands so that what nodes own follows their weights. Pure and
// deterministic. The planner's tool; everyone else asks propose().
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "slots/slot_map.h"

namespace slots {

using SlotLoads = std::array<double, kSlotCount>;  // What each slot weighs, 0 or more.

// What the slots of each node weigh together.
[[nodiscard]] std::vector<double> sums_by_node(const SlotMap::Owners& owners,
                                               const SlotLoads& loads, std::size_t nodes);

// Owners on their way from the map of now to what is wanted.
struct Leveling {
  SlotMap::Owners owners;
  std::vector<double> weights;  // By NodeIndex; a node of weight 0 should own nothing.
  SlotSet fixed;                // These stay where they are.
  std::size_t moves_left = kSlotCount;
};

// By number of slots, with the fewest moves. The nodes of `exact` reach their share by weight; the
// others only give or take what that needs, the one furthest from its share first.
void level_counts(Leveling& leveling, const std::vector<bool>& exact);

// By load, until every node is within a few percent of its share or no move brings it nearer. Moves
// few slots by moving heavy ones. `giver`: only this node gives, and only slots that are heavier
// than the average, until it is near its share. Requires a load above 0.
void level_loads(Leveling& leveling, const SlotLoads& loads,
                 std::optional<NodeIndex> giver = std::nullopt);

}  // namespace slots
