#include <fmt/format.h>

#include <utility>

#include "conf/units.h"
#include "proxy/control/plan_book_parts.h"

namespace proxy::control {

namespace {

using plan_book::conflict;
using plan_book::find;
using plan_book::forget_ended;
using plan_book::no_such;
using plan_book::with_state;
using slots::Errc;
using slots::PlanId;
using slots::PlanState;

}  // namespace

// Names prove nothing, credentials do. What the system proposed of its own accord needs one person.
slots::Status check_approver(const ClusterState& now, PlanId id, conf::Approval approval,
                             const Act& act) {
  if (approval != conf::Approval::TwoPerson) return {};
  const PlanRecord* plan = find(now, id);
  if (plan == nullptr) return no_such(id);
  if (plan->proposed_credential.empty() || plan->proposed_credential != act.credential) return {};
  return conflict(
      fmt::format("plan {} was proposed by {} too, and approval: two_person wants somebody else: "
                  "approve it as another user at the admin socket, or over TCP with another "
                  "password of listen.admin_users",
                  id, act.credential));
}

ChangeResult approve_plan(const ClusterState& now, PlanId id, const std::string& digest,
                          const slots::NodePlaces& places, const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Approved, "approved", plan);
  if (!next) {
    const PlanRecord* before = find(now, id);
    if (before == nullptr || before->plan.state != PlanState::Stale)
      return std::unexpected(next.error());
    return conflict(fmt::format("plan {} is stale: {}. Make it anew: slotctl plan retry {}", id,
                                before->plan.reason, id));
  }
  const std::string expected = slots::digest_of(plan->plan.content);
  if (digest != expected) {
    return conflict(
        fmt::format("plan {} has another digest than {}: see what it is now with "
                    "slotctl plan show {}, and approve that",
                    id, digest, id));
  }
  if (const slots::Status fits = slots::check_still_fits(plan->plan.content, now.map, places);
      !fits) {
    plan->plan.state = PlanState::Stale;
    plan->plan.reason = fits.error().message;
    plan->plan.ended_at_ms = act.now_ms;
    return PlanChange{
        *std::move(next), id, "found stale",
        slots::Error{Errc::Conflict, fmt::format("plan {} is stale: {}. Make it anew: slotctl plan "
                                                 "retry {}",
                                                 id, fits.error().message, id)}};
  }
  if (const PlanRecord* other = open_plan(now)) {
    return conflict(fmt::format(
        "plan {} is {}, and one plan runs at a time: wait until it has "
        "ended (slotctl plan wait {}), then propose this one anew",
        other->plan.content.id, slots::to_string(other->plan.state), other->plan.content.id));
  }
  plan->plan.approved_by = act.by;
  plan->plan.approval_reason = act.reason;
  return PlanChange{*std::move(next), id, "approved"};
}

ChangeResult reject_plan(const ClusterState& now, PlanId id, const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Rejected, "rejected", plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.reason = act.reason;
  plan->plan.ended_at_ms = act.now_ms;
  forget_ended(*next);
  return PlanChange{*std::move(next), id, "rejected"};
}

ChangeResult pause_plan(const ClusterState& now, PlanId id, bool by_system, const Act& act) {
  const PlanRecord* before = find(now, id);
  if (before != nullptr && before->plan.state == PlanState::Paused &&
      before->plan.paused_by_system && !by_system) {
    // It would go on by itself, which its operator does not want.
    ClusterState next = now;
    slots::Plan& paused = next.plans.at(id).plan;
    paused.paused_by_system = false;
    paused.reason = act.reason;
    return PlanChange{std::move(next), id, "paused"};
  }
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Paused, "paused", plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.paused_by_system = by_system;
  plan->plan.reason = act.reason;
  return PlanChange{*std::move(next), id, "paused"};
}

ChangeResult resume_plan(const ClusterState& now, PlanId id, const Act&) {
  PlanRecord* plan = nullptr;
  const PlanRecord* before = find(now, id);
  const bool is_paused = before != nullptr && before->plan.state == PlanState::Paused;
  auto next = with_state(now, id, PlanState::Running, "resumed", plan);
  if (is_paused && before->is_aborting)
    return conflict(fmt::format("plan {} is being aborted; wait until it has ended", id));
  if (next && !is_paused)
    return conflict(fmt::format("plan {} is {}, not paused; see plan show", id,
                                slots::to_string(before->plan.state)));
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.paused_by_system = false;
  plan->plan.reason.clear();
  return PlanChange{*std::move(next), id, "resumed"};
}

ChangeResult abort_plan(const ClusterState& now, PlanId id, const Act& act) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  const std::string reason = act.by + " aborted it" + (act.reason.empty() ? "" : ": " + act.reason);
  if (before->plan.started_at_ms == 0 || slots::is_ended(before->plan.state)) {
    PlanRecord* plan = nullptr;
    auto next = with_state(now, id, PlanState::Aborted, "aborted", plan);
    if (!next) return std::unexpected(std::move(next).error());
    plan->plan.reason = reason;
    plan->plan.ended_at_ms = act.now_ms;
    return PlanChange{*std::move(next), id, "aborted"};
  }
  ClusterState next = now;
  PlanRecord& plan = next.plans.at(id);
  plan.is_aborting = true;
  plan.plan.reason = reason;
  return PlanChange{std::move(next), id, "told to abort"};
}

ChangeResult throttle_plan(const ClusterState& now, PlanId id, conf::ByteCount rate, const Act&) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  if (slots::is_ended(before->plan.state)) {
    return conflict(fmt::format("plan {} is {}: there is nothing to throttle", id,
                                slots::to_string(before->plan.state)));
  }
  ClusterState next = now;
  next.plans.at(id).limit = rate;
  return PlanChange{std::move(next), id, "throttled to " + conf::print_rate(rate)};
}

}  // namespace proxy::control
