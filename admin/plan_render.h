// The reports about plans as text for people. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "admin/plan_api.h"
#include "admin/render.h"

namespace admin {

[[nodiscard]] std::string render(const PlanReport& report, RenderStyle style);
[[nodiscard]] std::string render(const PlansReport& report, RenderStyle style);
[[nodiscard]] std::string render(const PlanDiffReport& report, RenderStyle style);
[[nodiscard]] std::string render(const HistoryReport& report, RenderStyle style);

// What has become of a plan, in a line or two, with what comes next.
[[nodiscard]] std::string render_outcome(const PlanReport& report, RenderStyle style);

// The progress of a plan as several lines with bars, at most `columns` wide each.
[[nodiscard]] std::string render_bars(const PlanReport& report, std::size_t columns,
                                      RenderStyle style);
// The same as one line, for logs.
[[nodiscard]] std::string render_progress_line(const PlanReport& report);

[[nodiscard]] std::string rate(std::uint64_t bytes_per_second);  // "18.3 MB/s", "no limit" for 0
[[nodiscard]] std::string time_of(std::uint64_t unix_ms);        // "2026-11-30 09:14:05 UTC"
[[nodiscard]] std::string clock(std::uint64_t seconds);          // "0:03", "12:40", "3:02:01"

}  // namespace admin
