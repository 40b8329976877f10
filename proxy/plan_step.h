// PlanStep: what the open plan needs next, by its record and its nodes' health. Pure.
//
// An operator's pause waits for a resume; one of the system's ends when all nodes are up again.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/control/plan_record.h"
#include "proxy/mover/transfer.h"

namespace proxy {

enum class PlanStep : std::uint8_t {
  None,
  Start,   // Approved: start_plan().
  Pause,   // By the system.
  Resume,  // By the system.
};

struct PlanNeeds {
  PlanStep step = PlanStep::None;
  mover::Wish wish = mover::Wish::Run;  // Of its movers, before the step.
};

struct PlanNodes {
  std::string problem;  // Of one of them, in words; empty: none is known to have any.
  bool are_up = false;  // All of them.
};

// `plan` is not proposed and has not ended.
[[nodiscard]] PlanNeeds needs_of(const control::PlanRecord& plan, const PlanNodes& nodes);

}  // namespace proxy
