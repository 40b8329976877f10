#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "slots/key_slot.h"
#include "slots/placement/hash.h"
#include "slots/placement/placement.h"

namespace {

using namespace slots;

constexpr std::array kAllKinds{PlacementKind::Balanced, PlacementKind::Ring,
                               PlacementKind::Rendezvous, PlacementKind::Modulo};

std::vector<std::size_t> counts_of(const SlotMap::Owners& owners, std::size_t node_count) {
  std::vector<std::size_t> counts(node_count, 0);
  REQUIRE(std::ranges::all_of(owners, [&](NodeIndex owner) { return owner < node_count; }));
  for (const NodeIndex owner : owners) ++counts[owner];
  return counts;
}

std::size_t moves_between(const SlotMap::Owners& before, const SlotMap::Owners& after) {
  std::size_t moves = 0;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) moves += before[slot] != after[slot];
  return moves;
}

SlotMap::Owners balanced(const std::vector<Node>& nodes, const SlotMap::Owners* current = nullptr) {
  return make_placement(PlacementKind::Balanced)->place_slots(nodes, current);
}

SlotSet slots_of(const SlotMap::Owners& owners, NodeIndex node) {
  SlotSet set;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    if (owners[slot] == node) set.add(static_cast<SlotId>(slot));
  }
  return set;
}

TEST_CASE("a placement has one name, both ways") {
  for (const PlacementKind kind : kAllKinds) CHECK(parse_placement_kind(to_string(kind)) == kind);
  CHECK(parse_placement_kind("ring") == PlacementKind::Ring);
  CHECK_FALSE(parse_placement_kind("Ring").has_value());
  CHECK_FALSE(parse_placement_kind("").has_value());
}

TEST_CASE("the hash is the first 8 bytes of MD5, big-endian") {
  CHECK(hash64("") == 0xd41d8cd98f00b204);
  CHECK(hash64("abc") == 0x900150983cd24fb0);
}

TEST_CASE("weight 0 gets nothing, whatever the placement") {
  const std::vector<Node> nodes{{"a", 1}, {"idle", 0}, {"b", 1}};
  for (const PlacementKind kind : kAllKinds) {
    CAPTURE(to_string(kind));
    const auto counts = counts_of(make_placement(kind)->place_slots(nodes, nullptr), 3);
    CHECK(counts[0] > 0);
    CHECK(counts[1] == 0);
    CHECK(counts[2] > 0);
  }
}

TEST_CASE("slot i is placed as the key that is its decimal text") {
  const std::vector<Node> nodes{{"a", 1}, {"b", 2}, {"c", 1}};
  for (const PlacementKind kind :
       {PlacementKind::Ring, PlacementKind::Rendezvous, PlacementKind::Modulo}) {
    CAPTURE(to_string(kind));
    const auto placement = make_placement(kind);
    const auto owners = placement->place_slots(nodes, nullptr);
    const auto placer = placement->place_keys(nodes, nullptr);
    std::vector<NodeIndex> found;
    for (const std::size_t slot : {0UL, 1UL, 999UL, 16383UL}) {
      placer->owners_of(std::to_string(slot), 1, found);
      CHECK(owners[slot] == found.front());
    }
  }
}

TEST_CASE("replicas are distinct nodes, the owner first, and no more than there are") {
  const std::vector<Node> nodes{{"a", 1}, {"b", 1}, {"idle", 0}, {"c", 3}};
  for (const PlacementKind kind :
       {PlacementKind::Ring, PlacementKind::Rendezvous, PlacementKind::Modulo}) {
    CAPTURE(to_string(kind));
    const auto placer = make_placement(kind)->place_keys(nodes, nullptr);
    std::vector<NodeIndex> alone;
    std::vector<NodeIndex> ranked;
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key:" + std::to_string(i);
      placer->owners_of(key, 1, alone);
      placer->owners_of(key, 10, ranked);
      CHECK(ranked.size() == 3);
      CHECK(ranked.front() == alone.front());
      CHECK(std::set(ranked.begin(), ranked.end()) == std::set<NodeIndex>{0, 1, 3});
    }
  }
}

TEST_CASE("weighted rendezvous gives shares by weight") {
  const std::vector<Node> nodes{{"a", 2}, {"b", 1}, {"c", 1}};
  const auto counts =
      counts_of(make_placement(PlacementKind::Rendezvous)->place_slots(nodes, nullptr), 3);
  CHECK(counts[0] == doctest::Approx(8192).epsilon(0.03));
  CHECK(counts[1] == doctest::Approx(4096).epsilon(0.05));
}

TEST_CASE("a ring gives even the lightest node a place") {
  const std::vector<Node> nodes{{"heavy", 1}, {"light", 1e-9}};
  const auto placer = make_placement(PlacementKind::Ring)->place_keys(nodes, nullptr);
  std::vector<NodeIndex> ranked;
  placer->owners_of("any", 2, ranked);
  CHECK(ranked.size() == 2);
}

TEST_CASE("balanced without a map of now gives contiguous ranges in node order") {
  const auto owners = balanced({{"a", 1}, {"b", 1}, {"c", 1}});
  CHECK(to_string(slots_of(owners, 0)) == "0-5461");
  CHECK(to_string(slots_of(owners, 1)) == "5462-10922");
  CHECK(to_string(slots_of(owners, 2)) == "10923-16383");
}

TEST_CASE("balanced leaves a map alone that is as even as can be") {
  const std::vector<Node> nodes{{"a", 1}, {"b", 1}, {"c", 1}};
  auto owners = balanced(nodes);
  owners[0] = 2;  // c, not a, has the one slot more.
  CHECK(balanced(nodes, &owners) == owners);
}

TEST_CASE("balanced gives a new node its share and touches nothing else") {
  const auto before = balanced({{"a", 1}, {"b", 1}});
  const auto after = balanced({{"a", 1}, {"b", 1}, {"c", 2}}, &before);
  CHECK(counts_of(after, 3) == std::vector<std::size_t>{4096, 4096, 8192});
  CHECK(moves_between(before, after) == 8192);
}

TEST_CASE("balanced deals slots without an owner, and drains weight 0") {
  SlotMap::Owners now;
  now.fill(kNoNode);
  for (std::size_t slot = 0; slot < 100; ++slot) now[slot] = 0;
  const auto after = balanced({{"leaving", 0}, {"a", 1}, {"b", 3}}, &now);
  CHECK(counts_of(after, 3) == std::vector<std::size_t>{0, 4096, 12288});
}

TEST_CASE("balanced copes with weights of any size") {
  CHECK(counts_of(balanced({{"a", 1e308}, {"b", 1e308}}), 2) ==
        std::vector<std::size_t>{8192, 8192});
  CHECK(counts_of(balanced({{"a", 5e-324}, {"b", 5e-324}}), 2) ==
        std::vector<std::size_t>{8192, 8192});
  CHECK(counts_of(balanced({{"a", 1e308}, {"b", 1e-300}}), 2) ==
        std::vector<std::size_t>{16384, 0});
}

TEST_CASE("balanced places a key where its slot is") {
  const std::vector<Node> nodes{{"a", 1}, {"b", 1}};
  const auto owners = balanced(nodes);
  const auto placer = make_placement(PlacementKind::Balanced)->place_keys(nodes, nullptr);
  std::vector<NodeIndex> found;
  placer->owners_of("cart:{42}", 3, found);
  CHECK(found == std::vector<NodeIndex>{owners[slot_of_key("42")]});
}

// A second opinion on shares: within one slot of the exact share, and nobody is rounded down whose
// remainder is larger than that of somebody rounded up.
void check_largest_remainders(const std::vector<Node>& nodes,
                              const std::vector<std::size_t>& counts) {
  long double total = 0;
  for (const Node& node : nodes) total += node.weight;
  long double smallest_up = 2;
  long double largest_down = -1;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const long double exact = nodes[i].weight / total * kSlotCount;
    const auto floor = static_cast<std::size_t>(exact);
    const long double remainder = exact - static_cast<long double>(floor);
    REQUIRE((counts[i] == floor || counts[i] == floor + 1));
    if (counts[i] > floor) {
      smallest_up = std::min(smallest_up, remainder);
    } else if (nodes[i].weight > 0) {
      largest_down = std::max(largest_down, remainder);
    }
  }
  CHECK(largest_down <= smallest_up + 1e-9L);
}

TEST_CASE("balanced keeps its promises for 201 nodes of random weights from random starts") {
  constexpr std::size_t kNodes = 201;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < kNodes; ++i) {
      const bool is_idle = i != 0 && random() % 5 == 0;
      const double weight = 1 + static_cast<double>(random() % (seed % 2 == 0 ? 4 : 1000)) / 8;
      nodes.push_back({"n" + std::to_string(i), is_idle ? 0 : weight});
    }
    SlotMap::Owners now;
    for (NodeIndex& owner : now) {
      owner = random() % 10 == 0 ? kNoNode : static_cast<NodeIndex>(random() % kNodes);
    }
    const auto after = balanced(nodes, &now);
    const auto counts = counts_of(after, kNodes);

    std::vector<std::size_t> held(kNodes, 0);
    for (const NodeIndex owner : now) {
      if (owner != kNoNode) ++held[owner];
    }
    std::size_t total = 0;
    std::size_t gained = 0;  // No way to these counts needs fewer moves than what the nodes gain.
    for (std::size_t i = 0; i < kNodes; ++i) {
      total += counts[i];
      gained += counts[i] - std::min(counts[i], held[i]);
      if (nodes[i].weight == 0) CHECK(counts[i] == 0);
    }
    CHECK(total == kSlotCount);
    CHECK(moves_between(now, after) == gained);
    check_largest_remainders(nodes, counts);
    CHECK(balanced(nodes, &now) == after);    // The same input gives the same map,
    CHECK(balanced(nodes, &after) == after);  // which is at rest.
  }
}

TEST_CASE("balanced breaks ties of equal nodes so that the fewest slots move") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    constexpr std::size_t kNodes = 201;  // 81 slots each; 103 nodes own one more.
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < kNodes; ++i) nodes.push_back({"n" + std::to_string(i), 1});
    SlotMap::Owners now;
    for (NodeIndex& owner : now) owner = static_cast<NodeIndex>(random() % kNodes);
    const auto held = counts_of(now, kNodes);

    // Nodes above 81 each save one move by owning 82; at most 103 can.
    std::size_t excess = 0;
    std::size_t above = 0;
    for (const std::size_t count : held) {
      excess += count - std::min<std::size_t>(count, 81);
      above += count > 81;
    }
    const auto after = balanced(nodes, &now);
    CHECK(moves_between(now, after) == excess - std::min<std::size_t>(above, 103));
  }
}

}  // namespace
