// The checks of a plan: what the nodes said of themselves, judged. Pure.
//
// "fail" blocks the approval: the plan could not be carried out, or would lose something. "warn" is
// what an operator should know before. Every check but a "pass" says what to do.
#pragma once

#include <vector>

#include "admin/plan_api.h"
#include "proxy/control/node_finding.h"
#include "proxy/control/plan_record.h"

namespace proxy::control {

// What each node has to do with the plan.
[[nodiscard]] std::map<std::string, PlanRole> roles_in(const slots::PlanContent& plan);

// Those that fail first.
[[nodiscard]] std::vector<admin::PlanCheck> judge(const PlanRecord& plan, const Findings& findings);

}  // namespace proxy::control
