// PlanRequest: the words of the PLAN verb, understood. Pure.
//
// admin/plan_api.h lists the words. Errors: InvalidArgument or NotFound; their messages end with
// what to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/planner.h"
#include "slots/result.h"

namespace proxy::control {

// What PROPOSE asks for.
struct ProposeRequest {
  std::vector<slots::Goal> goals;
  bool collects_strays = false;  // In place of goals.
  slots::PlanLimits limits;
  std::optional<conf::ByteCount> bytes_per_second;  // 0: unlimited.
  std::optional<conf::Milliseconds> pause;
};

struct PlanRequest {
  std::string verb;          // Upper case, as in admin::kPlanVerbs.
  slots::PlanId plan = 0;    // 0: none named.
  ProposeRequest propose;    // PROPOSE.
  std::string digest;        // APPROVE.
  conf::ByteCount rate = 0;  // THROTTLE; 0: unlimited.
  std::string by;            // As given; may be empty.
  std::string reason;
};

// `words` begin with PLAN. Nodes to add, and what --to-config means, are the configuration's.
[[nodiscard]] slots::Result<PlanRequest> parse_plan_request(const std::vector<std::string>& words,
                                                            const conf::Config& config);

// The node set, the weights and (when it lists slots) the ownership that a configuration wants.
[[nodiscard]] slots::OwnershipGoal ownership_of(const conf::Config& config);

}  // namespace proxy::control
