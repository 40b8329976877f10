// The admin reports as text for people. Pure.
//
// Colour only adds to what words and columns say already.
#pragma once

#include <string>

#include "admin/api.h"

namespace admin {

struct RenderStyle {
  bool is_coloured = false;
};

[[nodiscard]] std::string render(const StatusReport& report, RenderStyle style);
[[nodiscard]] std::string render(const NodesReport& report, RenderStyle style);
[[nodiscard]] std::string render(const SlotsReport& report, RenderStyle style);
[[nodiscard]] std::string render(const ExplainReport& report, RenderStyle style);
[[nodiscard]] std::string render(const StraysReport& report, RenderStyle style);
[[nodiscard]] std::string render(const ReloadReport& report, RenderStyle style);
[[nodiscard]] std::string render(const HealthReport& report, RenderStyle style);
[[nodiscard]] std::string render(const ConfigReport& report, RenderStyle style);

}  // namespace admin
