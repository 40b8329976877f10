// The plan book: how plans come to be and change, as steps from one ClusterState to the next. Pure:
// no I/O, no clock, no thread. Whoever calls these commits the state that they return, and only
// then acts on it.
//
//   proposed -> approved -> running <-> paused -> done | aborted | failed
//   proposed -> rejected | stale; approved -> aborted | stale
//
// Nothing moves without an approved plan, and one plan runs at a time.
//
// Files:  plan_book_proposals.cc, plan_book_steps.cc (what people do to plans), plan_book_moves.cc
//         (what carrying one out does); plan_book_parts.h is what these share.
// Errors: NotFound for a plan that is not there; Conflict when its state does not allow the step;
//         messages end with what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/control/plan_request.h"
#include "proxy/control/state_record.h"
#include "slots/plan.h"
#include "slots/planner.h"
#include "slots/result.h"
#include "slots/slot_census.h"

namespace proxy::control {

inline constexpr std::size_t kEndedPlansMax = 100;
// Of the plans' records: those that ended are forgotten first, and too many that wait are refused.
inline constexpr std::size_t kEndedPlansBytesMax = std::size_t{64} << 10;
inline constexpr std::size_t kWaitingPlansBytesMax = std::size_t{1} << 20;
// Of a plan that collects strays: all of them are remembered, so that none of them is moved.
inline constexpr std::size_t kStrayConflictsMax = 10'000;

struct PlanChange {
  ClusterState state;
  slots::PlanId plan = 0;
  std::string what;  // For the audit log: "approved".
  // What was asked for is refused, although something has changed: the plan is known to be stale.
  std::optional<slots::Error> refusal = {};
};
using ChangeResult = slots::Result<PlanChange>;

// Who does something, and when.
struct Act {
  std::string by;      // "system" or a name.
  std::string reason;  // May be empty.
  std::uint64_t now_ms = 0;
  std::string credential = {};  // AdminPeer::credential(); empty: the system, of its own accord.
};

// What a proposal is made from, beside the request and the map.
struct Surroundings {
  slots::NodePlaces places;  // Of all nodes that the map or the configuration has.
  slots::SlotLoads loads{};  // In the measure of the request's goals.
  std::map<std::string, SlotLoad> expected = {};         // By node.
  std::shared_ptr<const slots::SlotCensus> census = {};  // Null: keys were not counted.
  conf::Rebalance defaults;
};

// The measure that the goals weigh slots by.
[[nodiscard]] slots::Measure measure_of(const std::vector<slots::Goal>& goals);

[[nodiscard]] ChangeResult propose_plan(const ClusterState& now, const ProposeRequest& request,
                                        const Surroundings& around, const Act& act);
// `strays`: by the nodes that have and own them.
[[nodiscard]] ChangeResult propose_strays(const ClusterState& now, const ProposeRequest& request,
                                          std::vector<slots::StrayMove> strays,
                                          const Surroundings& around, const Act& act);
// Of an ended plan: what it left undone, and the way back.
[[nodiscard]] ChangeResult propose_rest(const ClusterState& now, slots::PlanId plan,
                                        const Surroundings& around, const Act& act);
[[nodiscard]] ChangeResult propose_reverse(const ClusterState& now, slots::PlanId plan,
                                           const Surroundings& around, const Act& act);

// Conflict when this person may not approve the plan, since they have proposed it.
[[nodiscard]] slots::Status check_approver(const ClusterState& now, slots::PlanId plan,
                                           conf::Approval approval, const Act& act);
[[nodiscard]] ChangeResult approve_plan(const ClusterState& now, slots::PlanId plan,
                                        const std::string& digest, const slots::NodePlaces& places,
                                        const Act& act);
[[nodiscard]] ChangeResult reject_plan(const ClusterState& now, slots::PlanId plan, const Act& act);
[[nodiscard]] ChangeResult pause_plan(const ClusterState& now, slots::PlanId plan, bool by_system,
                                      const Act& act);
[[nodiscard]] ChangeResult resume_plan(const ClusterState& now, slots::PlanId plan, const Act& act);
// One that is at work is marked, and ends when it has let go of what it holds.
[[nodiscard]] ChangeResult abort_plan(const ClusterState& now, slots::PlanId plan, const Act& act);
[[nodiscard]] ChangeResult throttle_plan(const ClusterState& now, slots::PlanId plan,
                                         conf::ByteCount rate, const Act& act);

// The approved plan begins: the map gets its edits_before.
[[nodiscard]] ChangeResult start_plan(const ClusterState& now, slots::PlanId plan, const Act& act);
// It ends, with what it has achieved: Done (the map gets its edits_after), Aborted or Failed.
[[nodiscard]] ChangeResult end_plan(const ClusterState& now, slots::PlanId plan,
                                    slots::PlanState how, const PlanOutcome& outcome,
                                    const Act& act);

// One group of slots, from the source to the target of the running plan. Conflict when the source
// does not own them all.
[[nodiscard]] slots::Result<ClusterState> commit_slots(const ClusterState& now, slots::PlanId plan,
                                                       const slots::SlotSet& slots,
                                                       const std::string& source,
                                                       const std::string& target,
                                                       std::uint64_t marker, std::uint64_t now_ms);
// The way back of commit_slots(): the target has lost them. Conflict when it does not own them all,
// or when clients have flushed it since.
[[nodiscard]] slots::Result<ClusterState> give_slots_back(
    const ClusterState& now, slots::PlanId plan, const slots::SlotSet& slots,
    const std::string& source, const std::string& target, std::uint64_t now_ms);
// Clients have flushed: what sources keep is not the newest any more.
[[nodiscard]] ClusterState note_flush(const ClusterState& now, slots::PlanId plan);
[[nodiscard]] ClusterState note_collected(const ClusterState& now, slots::PlanId plan,
                                          const slots::SlotSet& slots, const std::string& source);

// Takes what the census found of the moves, and nothing of those with slots that it did not reach.
void take_census(PlanForecast& forecast, const slots::PlanContent& content,
                 const slots::SlotCensus& census);

// The plan that is approved, running or paused; null when there is none.
[[nodiscard]] const PlanRecord* open_plan(const ClusterState& state);

// What is left of a plan between two nodes.
struct PairWork {
  std::string source;
  std::string target;
  slots::SlotSet to_move;       // Still the source's.
  std::vector<KeptSlots> kept;  // Committed, the source's copies not collected.
  std::size_t slots_total = 0;  // Of the plan, between these two.
};
[[nodiscard]] std::vector<PairWork> work_of(const ClusterState& state, slots::PlanId plan);
// Of which `node` may hold copies of plans that have ended without collecting them: no strays, for
// what clients have deleted since is among them.
[[nodiscard]] slots::SlotSet slots_copied_to(const ClusterState& state, const std::string& node);
// Slots of the plan that their targets own.
[[nodiscard]] std::size_t slots_committed(const ClusterState& state, slots::PlanId plan);

}  // namespace proxy::control
