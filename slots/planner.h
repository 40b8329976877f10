// Planner: from what should become true to the moves that make it so. Pure and deterministic: the
// same input gives the same moves, as few as possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "slots/leveling.h"
#include "slots/measure.h"
#include "slots/plan.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace slots {

struct BalanceGoal {  // Every node's share follows its weight.
  Measure measure = Measure::Slots;
};
struct AddGoal {  // A node that is not in the map joins it with its share.
  Node node;
};
struct DrainGoal {  // A node gives all it owns away. Its weight becomes 0, so that it stays empty.
  std::string node;
  bool leaves = false;  // And leaves the map afterwards, in place of the weight of 0.
};
struct WeightGoal {  // The node gets the share of that weight.
  std::string node;
  double weight = 1.0;
};
struct MoveGoal {  // These slots to that node, whoever owns them.
  SlotSet slots;
  std::string to;
};
struct OwnershipGoal {  // The ownership that the configuration says, node set and weights included.
  std::vector<Node> nodes;
  // Per slot the place in `nodes`; empty: the configuration lists no slots, so shares by weight.
  std::optional<SlotMap::Owners> owners;
};
struct RelieveGoal {  // The heaviest slots of the busiest node to the idlest, until it is near its
                      // share.
  Measure measure = Measure::Operations;
};
// Applied together: "--add a --weight b=2". Without a BalanceGoal nodes that are not named give or
// take only what the named ones need; with one its measure counts for all. Of two goals for one
// slot or weight the later counts. Slots of a MoveGoal stay where it wants them.
using Goal =
    std::variant<BalanceGoal, AddGoal, DrainGoal, WeightGoal, MoveGoal, OwnershipGoal, RelieveGoal>;

// "add inv-tar, weight of inv-bcn: 2".
[[nodiscard]] std::string purpose_of(const std::vector<Goal>& goals);

struct PlanLimits {
  std::optional<std::size_t> slots;  // Move no more than these; a part of the way then.
};

struct Proposal {
  std::vector<SlotMapEdit> edits_before;
  std::vector<Move> moves;  // Ascending by slot; maximal ranges.
  std::vector<SlotMapEdit> edits_after;
  std::size_t slots_moved = 0;
  std::size_t least_possible = 0;  // Slots that any way to the same shares has to move.
  // Largest over fair share, of the measure (slots, or that of a BalanceGoal or RelieveGoal),
  // before and after, both with the weights of after; 1 is perfect.
  double spread_before = 1;
  double spread_after = 1;
};

// `loads`: what each slot weighs in that measure; not looked at for Measure::Slots.
// Errors: InvalidArgument or NotFound, naming the node or slot that does not fit; AlreadyExists
// when all is as wanted already, or a node to add is in the map.
[[nodiscard]] Result<Proposal> propose(const SlotMap& map, const std::vector<Goal>& goals,
                                       const SlotLoads& loads, const PlanLimits& limits);

}  // namespace slots
