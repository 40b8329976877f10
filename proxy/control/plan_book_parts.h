// Parts of the plan book that its steps share. Pure; only its own files use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/control/plan_book.h"

namespace proxy::control::plan_book {

// Null when there is no such plan.
[[nodiscard]] const PlanRecord* find(const ClusterState& state, slots::PlanId plan);
[[nodiscard]] std::unexpected<slots::Error> no_such(slots::PlanId plan);
[[nodiscard]] std::unexpected<slots::Error> conflict(std::string message);

// A copy of `now` in which the plan gets another state; its record, through `plan`.
[[nodiscard]] slots::Result<ClusterState> with_state(const ClusterState& now, slots::PlanId id,
                                                     slots::PlanState to, std::string_view doing,
                                                     PlanRecord*& plan);
// Of the plan's record in the journal.
[[nodiscard]] std::size_t bytes_of(const PlanRecord& plan);
// Those that ended longest ago, beyond the limits.
void forget_ended(ClusterState& state);
// The map with one more change, and what that makes stale.
[[nodiscard]] slots::Status change_map(ClusterState& state,
                                       const std::vector<slots::SlotMapEdit>& edits,
                                       slots::PlanId plan, std::uint64_t now_ms);

}  // namespace proxy::control::plan_book
