#include <doctest/doctest.h>

#include <limits>

#include "slots/slot_map.h"

namespace {

using namespace slots;

// Nodes a (0-99) and b (the rest).
SlotMap map_of_two() {
  SlotMap::Owners owners;
  owners.fill(1);
  for (std::size_t slot = 0; slot < 100; ++slot) owners[slot] = 0;
  return SlotMap::create({{"a", 1.0}, {"b", 2.0}}, owners).value();
}

Errc refusal_of(std::vector<Node> nodes, NodeIndex owner = 0) {
  SlotMap::Owners owners;
  owners.fill(owner);
  const auto map = SlotMap::create(std::move(nodes), owners);
  REQUIRE_FALSE(map.has_value());
  return map.error().code;
}

TEST_CASE("a new map is at epoch 1 and knows who owns what") {
  const SlotMap map = map_of_two();
  CHECK(map.epoch() == 1);
  CHECK(map.owner(99) == 0);
  CHECK(map.owner(100) == 1);
  CHECK(to_string(map.slots_of(0)) == "0-99");
  CHECK(map.find("b") == NodeIndex{1});
  CHECK_FALSE(map.find("c").has_value());
}

TEST_CASE("a map that breaks a rule is not built") {
  CHECK(refusal_of({}) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", 1}}, 1) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", 1}}, kNoNode) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", 1}, {"a", 1}}) == Errc::AlreadyExists);
  CHECK(refusal_of({{"", 1}}) == Errc::InvalidArgument);
  CHECK(refusal_of({{"has blank", 1}}) == Errc::InvalidArgument);
  CHECK(refusal_of({{std::string(65, 'x'), 1}}) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", -1}}) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", std::numeric_limits<double>::quiet_NaN()}}) == Errc::InvalidArgument);
  CHECK(refusal_of({{"a", std::numeric_limits<double>::infinity()}}) == Errc::InvalidArgument);
}

TEST_CASE("a map holds at most as many nodes as its limit says") {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < kNodesMax; ++i) nodes.push_back({"n" + std::to_string(i), 1});
  SlotMap::Owners owners;
  owners.fill(0);
  const SlotMap map = SlotMap::create(nodes, owners).value();
  CHECK(map.with({AddNode{{"one-more", 1}}}).error().code == Errc::LimitExceeded);
  nodes.push_back({"one-more", 1});
  CHECK(refusal_of(nodes) == Errc::LimitExceeded);
}

TEST_CASE("edits give the next map and leave this one as it was") {
  const SlotMap map = map_of_two();
  const SlotMap next =
      map.with({AddNode{{"c", 1.0}}, AssignSlots{SlotSet(SlotRange{0, 49}), "c"}}).value();
  CHECK(next.epoch() == 2);
  CHECK(to_string(next.slots_of(2)) == "0-49");
  CHECK(to_string(next.slots_of(0)) == "50-99");
  CHECK(map.epoch() == 1);
  CHECK(map.nodes().size() == 2);
  CHECK(map.owner(0) == 0);
}

TEST_CASE("a removed node leaves every other node its slots") {
  const SlotMap map = map_of_two();
  const SlotMap next = map.with({AssignSlots{map.slots_of(0), "b"}, RemoveNode{"a"}}).value();
  CHECK(next.nodes() == std::vector<Node>{{"b", 2.0}});
  CHECK(next.slots_of(0).size() == kSlotCount);
}

TEST_CASE("a node that owns slots can't be removed") {
  const auto next = map_of_two().with({RemoveNode{"a"}});
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == Errc::Conflict);
  CHECK(next.error().message.find("still owns 100 slots") != std::string::npos);
}

TEST_CASE("a weight changes, within its rule") {
  CHECK(map_of_two().with({SetWeight{"a", 0}}).value().nodes()[0].weight == 0);
  CHECK(map_of_two().with({SetWeight{"a", -0.5}}).error().code == Errc::InvalidArgument);
}

TEST_CASE("edits that name an unknown node, or add a known one, are refused") {
  const SlotMap map = map_of_two();
  CHECK(map.with({AssignSlots{SlotSet(), "z"}}).error().code == Errc::NotFound);
  CHECK(map.with({RemoveNode{"z"}}).error().code == Errc::NotFound);
  CHECK(map.with({SetWeight{"z", 1}}).error().code == Errc::NotFound);
  CHECK(map.with({AddNode{{"a", 1}}}).error().code == Errc::AlreadyExists);
  CHECK(map.with({AddNode{{"bad name", 1}}}).error().code == Errc::InvalidArgument);
}

TEST_CASE("a node's id is the SHA-1 of cluster/node, so it survives restarts") {
  CHECK(node_id_of("shop", "inv-bcn") == "87dec5c0b91555531c025cb6d6cbd0ef9e116c95");
  CHECK(node_id_of("shop", "inv-bcn") != node_id_of("shop", "inv-vlc"));
  CHECK(node_id_of("shop", "inv-bcn") != node_id_of("dev", "inv-bcn"));
}

}  // namespace
