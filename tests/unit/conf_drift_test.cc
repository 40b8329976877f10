#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "conf/drift.h"

namespace {

slots::SlotMap map_of(const std::vector<slots::Node>& nodes, slots::SlotId first_of_second) {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = first_of_second; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
  return slots::SlotMap::create(nodes, owners).value();
}

conf::NodeConfig node(const std::string& name, const std::string& slots, double weight = 1) {
  conf::NodeConfig out;
  out.name = name;
  out.weight = weight;
  if (!slots.empty()) out.slots = slots::parse_slot_set(slots).value();
  return out;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a file that says what is in force has no drift") {
  const slots::SlotMap map = map_of({{"a", 1}, {"b", 2}}, 8192);
  conf::Config config;
  config.nodes = {node("a", "0-8191"), node("b", "8192-16383", 2)};
  CHECK(conf::drift(config, map).empty());
  SUBCASE("in whatever order the nodes stand") {
    config.nodes = {node("b", "8192-16383", 2), node("a", "0-8191")};
    CHECK(conf::drift(config, map).empty());
  }
  SUBCASE("nor one that leaves the slots to the placement") {
    config.nodes = {node("a", ""), node("b", "", 2)};
    CHECK(conf::drift(config, map).empty());
  }
}

TEST_CASE("slots with another owner are drift, grouped by who has them and who should") {
  const slots::SlotMap map = map_of({{"a", 1}, {"b", 1}}, 8192);
  conf::Config config;
  config.nodes = {node("a", "0-8000,9000"), node("b", "8001-8999,9001-16383")};
  CHECK(conf::drift(config, map) ==
        Lines{"slots 8001-8191 belong to b in the configuration, to a in the map",
              "slot 9000 belongs to a in the configuration, to b in the map"});
}

TEST_CASE("new and removed nodes and other weights are drift") {
  const slots::SlotMap map = map_of({{"a", 1}, {"b", 1}, {"idle", 1}}, 8192);
  conf::Config config;
  config.nodes = {node("a", "", 2.5), node("c", "")};
  CHECK(
      conf::drift(config, map) ==
      Lines{
          "node a has weight 2.5 in the configuration, 1 in the map",
          "node c is new in the configuration; it owns nothing until a plan gives it slots",
          "node b is gone from the configuration; it owns slots 8192-16383 until a plan moves them",
          "node idle is gone from the configuration; it owns no slots any more"});
}
