// Reports about plans, as the admin port answers them. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/key_sampler.h"
#include "proxy/control/node_verifier.h"
#include "proxy/control/plan_record.h"
#include "proxy/control/state_record.h"

namespace proxy::control {

// `facts`: of the nodes that are known. `progress`: of the plan while it runs.
[[nodiscard]] admin::PlanReport plan_report(const ClusterState& state, const PlanRecord& plan,
                                            const std::map<std::string, NodeFacts>& facts,
                                            std::vector<admin::PlanCheck> checks,
                                            std::optional<admin::PlanProgress> progress,
                                            const KeySamples& samples = {});
[[nodiscard]] admin::PlansReport plans_report(const ClusterState& state);
[[nodiscard]] admin::PlanDiffReport plan_diff(const ClusterState& state, const PlanRecord& plan);
[[nodiscard]] std::vector<OpenPlan> open_plans(const ClusterState& state);

}  // namespace proxy::control
