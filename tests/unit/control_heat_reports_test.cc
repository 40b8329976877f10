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
  return {slots::SlotHistory(0).rates(totals, 1)};
}

}  // namespace

TEST_CASE("slots are told with their owners, nodes with all that their slots do") {
  const admin::HeatReport report = heat_report(table(), facts(), 1);
  CHECK(report.epoch == 7);
  REQUIRE(report.by_operations.size() == 1);
  CHECK(report.by_operations[0].slot == 5);
  CHECK(report.by_operations[0].node == "a");
  CHECK(report.by_operations[0].operations == doctest::Approx(30));
  CHECK(report.by_bytes[0].slot == 9000);
  REQUIRE(report.nodes.size() == 2);
  CHECK(report.nodes[0].operations == doctest::Approx(30));
  CHECK(report.nodes[1].bytes == doctest::Approx(10'000));
}
