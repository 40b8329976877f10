#include "proxy/control/plan_book_parts.h"

#include <fmt/format.h>

#include <utility>

namespace proxy::control::plan_book {

using slots::Errc;
using slots::fail;
using slots::PlanId;
using slots::PlanState;
using slots::Result;

namespace {

std::string_view advice_for(PlanState state) {
  if (state == PlanState::Proposed) return "approve or reject it";
  if (state == PlanState::Approved) return "it starts within moments; then pause or abort it";
  if (state == PlanState::Paused) return "resume or abort it";
  if (slots::is_ended(state)) return "propose a new one, or retry or revert it";
  return "see plan show";
}

// The map has changed: what was proposed for another epoch can't be approved any more.
void note_stale(ClusterState& state, const std::string& why, std::uint64_t now_ms) {
  for (auto& [id, record] : state.plans) {
    slots::Plan& plan = record.plan;
    if (plan.state != PlanState::Proposed || plan.content.base_epoch == state.map.epoch()) continue;
    plan.state = PlanState::Stale;
    plan.reason = fmt::format("it was made for epoch {}, the map is at epoch {} ({})",
                              plan.content.base_epoch, state.map.epoch(), why);
    plan.ended_at_ms = now_ms;
  }
}

}  // namespace

const PlanRecord* find(const ClusterState& state, PlanId plan) {
  const auto found = state.plans.find(plan);
  return found == state.plans.end() ? nullptr : &found->second;
}

std::unexpected<slots::Error> no_such(PlanId plan) {
  return fail(Errc::NotFound, fmt::format("there is no plan {}; PLAN LIST shows them", plan));
}

std::unexpected<slots::Error> conflict(std::string message) {
  return fail(Errc::Conflict, std::move(message));
}

Result<ClusterState> with_state(const ClusterState& now, PlanId id, PlanState to,
                                std::string_view doing, PlanRecord*& plan) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  const PlanState from = before->plan.state;
  if (!slots::may_become(from, to)) {
    return conflict(fmt::format("plan {} is {}: it can't be {}; {}", id, slots::to_string(from),
                                doing, advice_for(from)));
  }
  ClusterState next = now;
  plan = &next.plans.at(id);
  plan->plan.state = to;
  return next;
}

std::size_t bytes_of(const PlanRecord& plan) {
  std::string bytes;
  put_plan(bytes, plan);
  return bytes.size();
}

void forget_ended(ClusterState& state) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::vector<PlanId> forgotten;
  for (auto it = state.plans.rbegin(); it != state.plans.rend(); ++it) {
    if (!slots::is_ended(it->second.plan.state)) continue;
    bytes += bytes_of(it->second);
    if (++count > kEndedPlansMax || (bytes > kEndedPlansBytesMax && count > 1))
      forgotten.push_back(it->first);
  }
  for (const PlanId plan : forgotten) state.plans.erase(plan);
}

slots::Status change_map(ClusterState& state, const std::vector<slots::SlotMapEdit>& edits,
                         PlanId plan, std::uint64_t now_ms) {
  if (edits.empty()) return {};
  Result<slots::SlotMap> map = state.map.with(edits);
  if (!map) return std::unexpected(std::move(map).error());
  state.map = *std::move(map);
  // A node that comes back under its name may be another server.
  std::erase_if(state.identities, [&](const auto& known) { return !state.map.find(known.first); });
  note_stale(state, fmt::format("plan {}", plan), now_ms);
  return {};
}

}  // namespace proxy::control::plan_book
