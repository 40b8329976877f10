#include "proxy/plan_step.h"

#include <doctest/doctest.h>

using namespace proxy;
using mover::Wish;
using slots::PlanState;

namespace {

const PlanNodes kUp{.problem = "", .are_up = true};
const PlanNodes kNotLookedAt{.problem = "", .are_up = false};
const PlanNodes kDown{.problem = "node a is down: connection refused", .are_up = false};

control::PlanRecord plan_in(PlanState state) {
  control::PlanRecord plan;
  plan.plan.state = state;
  return plan;
}

}  // namespace

TEST_CASE("an approved plan is started") {
  CHECK(needs_of(plan_in(PlanState::Approved), kUp).step == PlanStep::Start);
}

TEST_CASE("a running plan runs until one of its nodes has a problem") {
  const control::PlanRecord plan = plan_in(PlanState::Running);
  CHECK(needs_of(plan, kUp).step == PlanStep::None);
  CHECK(needs_of(plan, kUp).wish == Wish::Run);
  CHECK(needs_of(plan, kNotLookedAt).step == PlanStep::None);
  CHECK(needs_of(plan, kDown).step == PlanStep::Pause);
  CHECK(needs_of(plan, kDown).wish == Wish::Pause);
}

TEST_CASE("what the system has paused it resumes once all nodes are up") {
  control::PlanRecord plan = plan_in(PlanState::Paused);
  plan.plan.paused_by_system = true;
  CHECK(needs_of(plan, kDown).step == PlanStep::None);
  CHECK(needs_of(plan, kNotLookedAt).step == PlanStep::None);
  CHECK(needs_of(plan, kUp).step == PlanStep::Resume);
  CHECK(needs_of(plan, kUp).wish == Wish::Pause);
}

TEST_CASE("what an operator has paused waits for the operator") {
  const control::PlanRecord plan = plan_in(PlanState::Paused);
  CHECK(needs_of(plan, kUp).step == PlanStep::None);
  CHECK(needs_of(plan, kUp).wish == Wish::Pause);
}

TEST_CASE("an abort comes before everything else") {
  for (const PlanState state : {PlanState::Running, PlanState::Paused}) {
    control::PlanRecord plan = plan_in(state);
    plan.is_aborting = true;
    plan.plan.paused_by_system = true;
    for (const PlanNodes& nodes : {kUp, kNotLookedAt, kDown}) {
      CHECK(needs_of(plan, nodes).step == PlanStep::None);
      CHECK(needs_of(plan, nodes).wish == Wish::Abort);
    }
  }
}
