#include "proxy/plan_step.h"

namespace proxy {

using mover::Wish;
using slots::PlanState;

PlanNeeds needs_of(const control::PlanRecord& plan, const PlanNodes& nodes) {
  if (plan.plan.state == PlanState::Approved) return {PlanStep::Start, Wish::Run};
  if (plan.is_aborting) return {PlanStep::None, Wish::Abort};
  if (plan.plan.state == PlanState::Running) {
    if (nodes.problem.empty()) return {PlanStep::None, Wish::Run};
    return {PlanStep::Pause, Wish::Pause};
  }
  const bool goes_on = plan.plan.paused_by_system && nodes.problem.empty() && nodes.are_up;
  return {goes_on ? PlanStep::Resume : PlanStep::None, Wish::Pause};
}

}  // namespace proxy
