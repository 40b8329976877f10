// The reports about what slots do as text for people. Pure.
#pragma once

#include <string>

#include "admin/heat_api.h"
#include "admin/render.h"

namespace admin {

[[nodiscard]] std::string render(const HeatReport& report, RenderStyle style);
[[nodiscard]] std::string render(const HotKeysReport& report, RenderStyle style);

}  // namespace admin
