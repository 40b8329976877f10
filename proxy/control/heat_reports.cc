#include "proxy/control/heat_reports.h"

#include <cmath>
#include <vector>

namespace proxy::control {

namespace {

using Over = slots::SlotRates::Over;

std::vector<admin::SlotHeat> lines_of(const std::vector<slots::SlotId>& slots,
                                      const RoutingTable& table, const HeatFacts& facts) {
  std::vector<admin::SlotHeat> lines;
  for (const slots::SlotId slot : slots) {
    admin::SlotHeat& line = lines.emplace_back();
    line.slot = slot;
    line.node = table.nodes[table.map->owner(slot)].name;
    const slots::SlotRate now = facts.rates.of(slot, Over::TenSeconds);
    const slots::SlotRate minute = facts.rates.of(slot, Over::Minute);
    line.operations = now.operations;
    line.bytes = now.bytes;
    line.operations_minute = minute.operations;
    line.bytes_minute = minute.bytes;
    if (facts.census == nullptr || !facts.census->counted.contains(slot)) continue;
    line.keys = static_cast<std::uint64_t>(std::llround(facts.census->keys[slot]));
    line.stored_bytes = static_cast<std::uint64_t>(std::llround(facts.census->bytes[slot]));
  }
  return lines;
}

std::vector<admin::NodeHeat> nodes_of(const RoutingTable& table, const HeatFacts& facts) {
  std::vector<admin::NodeHeat> nodes(table.nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].node = table.nodes[i].name;
    if (const auto known = facts.latency_p99_ms.find(nodes[i].node);
        known != facts.latency_p99_ms.end())
      nodes[i].latency_p99_ms = known->second;
  }
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot) {
    const auto id = static_cast<slots::SlotId>(slot);
    admin::NodeHeat& node = nodes[table.map->owner(id)];
    const slots::SlotRate now = facts.rates.of(id, Over::TenSeconds);
    const slots::SlotRate minute = facts.rates.of(id, Over::Minute);
    node.operations += now.operations;
    node.bytes += now.bytes;
    node.operations_minute += minute.operations;
    node.bytes_minute += minute.bytes;
  }
  return nodes;
}

}  // namespace

admin::HeatReport heat_report(const RoutingTable& table, const HeatFacts& facts,
                              std::size_t count) {
  admin::HeatReport report;
  report.cluster = table.cluster;
  report.epoch = table.map->epoch();
  report.nodes = nodes_of(table, facts);
  const auto hottest = [&](double slots::SlotRate::* measure) {
    return lines_of(facts.rates.hottest(measure, Over::TenSeconds, count), table, facts);
  };
  report.by_operations = hottest(&slots::SlotRate::operations);
  report.by_bytes = hottest(&slots::SlotRate::bytes);
  if (facts.census == nullptr) return report;
  report.by_keys = lines_of(facts.census->largest(count), table, facts);
  report.counted_seconds_ago = static_cast<std::uint64_t>(facts.census_age.count());
  report.is_count_exact = facts.census->is_exact;
  return report;
}

admin::HotKeysReport hot_keys_report(const RoutingTable& table, const slots::TopKeys& keys,
                                     std::chrono::seconds watched, std::size_t count) {
  admin::HotKeysReport report;
  report.cluster = table.cluster;
  report.epoch = table.map->epoch();
  report.seconds = static_cast<double>(watched.count());
  report.total = keys.total();
  report.is_sampled = keys.is_sampled();
  for (const slots::TopKeys::Key& key : keys.top(count)) {
    admin::HotKey& line = report.keys.emplace_back();
    line.key.raw = key.name;
    line.is_cut = key.is_cut;
    line.slot = key.slot;
    line.node = table.nodes[table.map->owner(key.slot)].name;
    line.count = key.count;
    line.error = key.error;
    line.per_second = static_cast<double>(key.count) / report.seconds;
  }
  return report;
}

}  // namespace proxy::control
