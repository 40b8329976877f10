// The parts of a plan's report that are about single keys, as text. Empty when there are none.
#pragma once

#include <string>

#include "admin/plan_api.h"
#include "admin/render.h"

namespace admin {

// Strays: how many go where, and which are left alone.
[[nodiscard]] std::string render_strays(const PlanReport& report, RenderStyle style);
// The largest keys with the pause that they would need, and streams with consumer groups.
[[nodiscard]] std::string render_sample(const PlanReport& report, RenderStyle style);

}  // namespace admin
