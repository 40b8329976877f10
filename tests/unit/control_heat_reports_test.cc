#include <doctest/doctest.h>

#include "proxy/control/heat_reports.h"

using namespace proxy;
using namespace proxy::control;

namespace {

// Node a: slots 0-8191, node b: the others.
RoutingTable table() {
  RoutingTable made;
  made.cluster = "shop";
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 8192; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
  made.map = std::make_shared<const slots::SlotMap>(
      *slots::SlotMap::create({{"a", 1}, {"b", 1}}, owners, 7));
  made.nodes.resize(2);
  made.nodes[0].name = "a";
  made.nodes[1].name = "b";
  return made;
}

HeatFacts facts() {
  slots::SlotTotals totals(slots::kSlotCount);
  totals[5] = {30, 300};
  totals[9000] = {10, 10'000};
  HeatFacts made;
  made.rates = slots::SlotHistory(0).rates(totals, 1);
  made.latency_p99_ms = {{"a", 4.6}};
  return made;
}

}  // namespace

TEST_CASE("slots are told with their owners, nodes with all that their slots do") {
  const admin::HeatReport report = heat_report(table(), facts(), 1);
  CHECK(report.epoch == 7);
  REQUIRE(report.by_operations.size() == 1);
  CHECK(report.by_operations[0].slot == 5);
  CHECK(report.by_operations[0].node == "a");
  CHECK(report.by_operations[0].operations == doctest::Approx(30));
  CHECK_FALSE(report.by_operations[0].keys.has_value());
  CHECK_FALSE(report.counted_seconds_ago.has_value());
  CHECK(report.by_bytes[0].slot == 9000);
  REQUIRE(report.nodes.size() == 2);
  CHECK(report.nodes[0].operations == doctest::Approx(30));
  CHECK(report.nodes[0].latency_p99_ms == 4.6);
  CHECK_FALSE(report.nodes[1].latency_p99_ms.has_value());
  CHECK(report.nodes[1].bytes == doctest::Approx(10'000));
}

TEST_CASE("what was counted of slots is told where it is known") {
  HeatFacts known = facts();
  auto census = std::make_shared<slots::SlotCensus>();
  census->counted.add(slots::SlotRange{0, 8191});
  census->keys[5] = 12;
  census->bytes[5] = 1200;
  census->keys[9000] = 99;
  census->is_exact = false;
  known.census = census;
  known.census_age = std::chrono::seconds(3);
  const admin::HeatReport report = heat_report(table(), known, 10);
  CHECK(report.by_operations[0].keys == 12);
  CHECK_FALSE(report.by_operations[1].keys.has_value());
  REQUIRE(report.by_keys.size() == 1);
  CHECK(report.by_keys[0].slot == 5);
  CHECK(report.by_keys[0].stored_bytes == 1200);
  CHECK(report.counted_seconds_ago == 3);
  CHECK_FALSE(report.is_count_exact);
}

TEST_CASE("hot keys are told with their owners and their uses a second") {
  slots::TopKeys keys(1);
  for (int i = 0; i < 10; ++i) {
    if (keys.is_drawn()) keys.add("k", 9000);
  }
  const admin::HotKeysReport report = hot_keys_report(table(), keys, std::chrono::seconds(5), 3);
  CHECK(report.total == 10);
  REQUIRE(report.keys.size() == 1);
  CHECK(report.keys[0].key.raw == "k");
  CHECK(report.keys[0].node == "b");
  CHECK(report.keys[0].per_second == doctest::Approx(2));
}
