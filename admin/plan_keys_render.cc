#include "admin/plan_keys_render.h"

#include <fmt/format.h>

#include "admin/table.h"
#include "admin/text.h"

namespace admin {

namespace {

std::string some_names(const std::vector<Bytes>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(names[i].raw);
  return names.size() > kShown ? text + ", …" : text;
}

}  // namespace

std::string render_strays(const PlanReport& report, RenderStyle style) {
  if (report.strays.empty()) return "";
  Table table({{"STRAYS"},
               {"SLOTS", Align::Right},
               {"KEYS", Align::Right},
               {"BYTES", Align::Right},
               {"LEFT ALONE", Align::Right},
               {}},
              3);
  for (const PlanStrays& strays : report.strays) {
    table.add({"  " + strays.from + " → " + strays.to, with_thousands(strays.slots.size()),
               with_thousands(strays.keys), byte_size(strays.bytes),
               with_thousands(strays.conflicts), some_names(strays.conflict_names)});
  }
  return table.text(style.is_coloured) +
         "each goes to its owner, unless that has a key of the same name: then it is left alone\n" +
         "a key that clients have deleted before comes back where its stray is collected\n";
}

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
