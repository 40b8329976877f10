#include "admin/heat_render.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "admin/table.h"
#include "admin/text.h"

namespace admin {

namespace {

std::string bytes_per_second(double bytes) {
  return byte_size(static_cast<std::uint64_t>(std::llround(bytes))) + "/s";
}

std::string share_of(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::string render_nodes(const HeatReport& report, RenderStyle style) {
  Table table({{"NODE"},
               {"OPS/S", Align::Right},
               {"", Align::Right},
               {"BYTES/S", Align::Right},
               {"OPS/S OVER 1m", Align::Right},
               {"P99", Align::Right}});
  double operations = 0;
  for (const NodeHeat& node : report.nodes) operations += node.operations;
  for (const NodeHeat& node : report.nodes) {
    table.add({node.node, short_number(node.operations), share_of(node.operations, operations),
               bytes_per_second(node.bytes), short_number(node.operations_minute),
               node.latency_p99_ms ? fmt::format("{:.1f} ms", *node.latency_p99_ms) : "-"});
  }
  return table.text(style.is_coloured);
}

std::string render_slots(const std::string& title, const std::vector<SlotHeat>& slots,
                         RenderStyle style) {
  Table table({{"  SLOT", Align::Right},
               {"NODE"},
               {"OPS/S", Align::Right},
               {"BYTES/S", Align::Right},
               {"OPS/S OVER 1m", Align::Right},
               {"KEYS", Align::Right},
               {"STORED", Align::Right}});
  for (const SlotHeat& slot : slots) {
    table.add({std::to_string(slot.slot), slot.node, short_number(slot.operations),
               bytes_per_second(slot.bytes), short_number(slot.operations_minute),
               slot.keys ? short_number(static_cast<double>(*slot.keys)) : "-",
               slot.stored_bytes ? byte_size(*slot.stored_bytes) : "-"});
  }
  return title + "\n" + table.text(style.is_coloured);
}

}  // namespace

std::string render(const HeatReport& report, RenderStyle style) {
  std::string text =
      fmt::format("cluster {}   epoch {}   means over the last 10 to 20 s, through this proxy\n",
                  report.cluster, report.epoch) +
      render_nodes(report, style);
  if (report.by_operations.empty()) {
    text += "no slot has had any requests lately\n";
  } else {
    text += render_slots("hottest slots by operations", report.by_operations, style) +
            render_slots("hottest slots by bytes", report.by_bytes, style);
  }
  if (!report.counted_seconds_ago) {
    return text +
           "keys were not counted yet: a plan that needs them does so "
           "(slotctl plan propose --balance keys)\n";
  }
  return text +
         render_slots(fmt::format("largest slots by keys, {} {} ago",
                                  report.is_count_exact ? "counted" : "estimated from a part",
                                  duration(*report.counted_seconds_ago)),
                      report.by_keys, style);
}

std::string render(const HotKeysReport& report, RenderStyle style) {
  if (report.keys.empty()) {
    return fmt::format("no request with a key came in {:.0f} s\n", report.seconds);
  }
  Table table({{"KEY"},
               {"SLOT", Align::Right},
               {"NODE"},
               {"USES/S", Align::Right},
               {"", Align::Right},
               {}});
  const auto total = static_cast<double>(report.total);
  for (const HotKey& key : report.keys) {
    // What may be somebody else's uses altogether says nothing.
    const bool is_vague = key.error * 2 > key.count;
    table.add({printable(key.key.raw) + (key.is_cut ? "…" : ""),
               std::to_string(key.slot),
               key.node,
               short_number(key.per_second),
               share_of(static_cast<double>(key.count), total),
               {is_vague ? "at most" : "", Colour::Quiet}});
  }
  return fmt::format("{} uses of keys in {:.0f} s{}\n", with_thousands(report.total),
                     report.seconds, report.is_sampled ? ", sampled" : "") +
         table.text(style.is_coloured);
}

}  // namespace admin
