#include "admin/plan_keys_render.h"

#include <fmt/format.h>

#include "admin/table.h"
#include "admin/text.h"

namespace admin {

std::string render_sample(const PlanReport& report, RenderStyle style) {
  if (!report.sample || report.sample->keys == 0) return "";
  const PlanSample& sample = *report.sample;
  Table table({{""}, {"", Align::Right}, {}, {"", Align::Right}}, 2);
  const auto add = [&](const PlanKey& key, const std::string& what) {
    table.add(
        {"  " + in_quotes(key.key.raw), byte_size(key.bytes), what,
         fmt::format("{} if written to until the end{}", fmt::format("about {} ms", key.pause_ms),
                     key.pause_ms > report.pause_ms ? ": longer than a pause may be" : "")});
  };
  for (const PlanKey& key : sample.largest) add(key, key.type + " on " + key.node);
  std::string text = fmt::format(
      "largest keys ({})\n",
      sample.is_whole ? "of all"
                      : "of a sample of " + short_number(static_cast<double>(sample.keys)));
  text += table.text(style.is_coloured);
  if (sample.streams_with_groups == 0) return text;
  text += fmt::format("streams with consumer groups: {}{}", sample.is_whole ? "" : "at least ",
                      sample.streams_with_groups);
  for (const PlanKey& key : sample.streams)
    text += (&key == &sample.streams.front() ? ", the largest " : ", ") + in_quotes(key.key.raw);
  return text + "\n";
}

}  // namespace admin
