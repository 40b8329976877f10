// Planner: from what should become true to the moves that make it so. Pure and deterministic: the
// same input gives the same moves, as few as possible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "slots/plan.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace slots {

enum class Measure : std::uint8_t { Slots, Keys, Bytes, Operations };

// What each slot weighs; for Measure::Slots all are 1.
using SlotLoads = std::array<double, kSlotCount>;

struct BalanceGoal {  // Every node's share follows its weight.
  Measure measure = Measure::Slots;
};
struct AddGoal {  // A node that is not in the map joins it with its share.
  Node node;
};
struct DrainGoal {  // A node gives all it owns away.
  std::string node;
  bool leaves = false;  // And leaves the map afterwards.
};
struct WeightGoal {
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
// Applied together, in order: "--add a --weight b=2".
using Goal =
    std::variant<BalanceGoal, AddGoal, DrainGoal, WeightGoal, MoveGoal, OwnershipGoal, RelieveGoal>;

struct PlanLimits {
  std::optional<std::size_t> slots;  // Move no more than these.
};

struct Proposal {
  std::vector<SlotMapEdit> edits_before;
  std::vector<Move> moves;  // Ascending by slot; maximal ranges.
  std::vector<SlotMapEdit> edits_after;
  std::size_t slots_moved = 0;
  std::size_t least_possible = 0;  // Slots that any way to the same shares has to move.
  // Largest over fair share, of the measure, before and after; 1 is perfect.
  double spread_before = 1;
  double spread_after = 1;
};

// Errors: InvalidArgument or NotFound, naming the node or slot that does not fit; AlreadyExists
// when all is as wanted already.
[[nodiscard]] Result<Proposal> propose(const SlotMap& map, const std::vector<Goal>& goals,
                                       const SlotLoads& loads, const PlanLimits& limits);

}  // namespace slots
