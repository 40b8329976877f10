#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "proxy/route/scan_place.h"

namespace {

using proxy::route::nodes_by_rank;
using proxy::route::ScanPlace;

// Nodes that own a slot each way, and the keys of a slot each: enough to scan.
struct World {
  std::vector<std::string> names;           // A node's id is its name here.
  std::map<slots::SlotId, std::string> at;  // Slots that matter; the others are the first node's.
  slots::Epoch epoch = 1;

  [[nodiscard]] slots::SlotMap map() const {
    std::vector<slots::Node> nodes;
    for (const std::string& name : names) nodes.push_back({name, 1.0});
    slots::SlotMap::Owners owners{};
    for (const auto& [slot, name] : at) {
      auto found = std::find(names.begin(), names.end(), name);
      owners[slot] = static_cast<slots::NodeIndex>(found - names.begin());
    }
    auto made = slots::SlotMap::create(nodes, owners, epoch);
    REQUIRE(made.has_value());
    return *made;
  }
  [[nodiscard]] std::vector<std::string_view> ids() const { return {names.begin(), names.end()}; }
  void move(slots::SlotId slot, const std::string& to) {
    at[slot] = to;
    ++epoch;
  }
};

// One call of SCAN: a node shows what is its own in pages, page 1 behind page 0.
struct Scan {
  std::uint64_t cursor = 0;
  std::set<slots::SlotId> seen;
  int calls = 0;
  std::string last_asked;

  // False: that was the last call.
  bool call(const World& world, std::uint64_t pages = 2) {
    ++calls;
    auto map = world.map();
    auto place = ScanPlace::find(cursor, map, world.ids());
    REQUIRE(place.has_value());
    if (place->is_over()) return false;
    last_asked = world.names[place->node()];
    std::uint64_t page = place->node_cursor();
    for (const auto& [slot, name] : world.at) {
      if (name == last_asked && slot % pages == page) seen.insert(slot);
    }
    auto next = place->next(page + 1 < pages ? page + 1 : 0, map);
    REQUIRE(next.has_value());
    cursor = *next;
    return cursor != 0;
  }
};

World three() {
  World world;
  world.names = {"a", "b", "c"};
  for (slots::SlotId slot = 0; slot < 12; ++slot) world.at[slot] = world.names[slot % 3];
  return world;
}

}  // namespace

TEST_CASE("a scan asks each node that owns slots to its end, in the order of their ids") {
  World world = three();
  world.names = {"c", "d", "a", "b"};
  world.at[100] = "c";  // What is nobody's else is the first one's.
  Scan scan;
  std::vector<std::string> asked;
  bool goes_on = true;
  while (goes_on) {
    goes_on = scan.call(world);
    asked.push_back(scan.last_asked);
  }
  CHECK(asked == std::vector<std::string>{"a", "a", "b", "b", "c", "c"});
  CHECK(scan.seen.size() == 13);
}

TEST_CASE("a slot that moves from a node still to come to one that was passed is met again") {
  World world = three();
  Scan scan;
  for (int i = 0; i < 3; ++i) REQUIRE(scan.call(world));  // "a" is passed, "b" half.
  world.move(2, "a");                                     // Of "c".
  world.move(5, "b");                                     // Of "c", to where page 1 is next: met.
  world.move(8, "b");                                     // Of "c", to the page that is over.
  while (scan.call(world)) {
  }
  CHECK(scan.seen.size() == 12);
  CHECK(scan.calls == 12);  // Two passes, no third.
}

TEST_CASE("a map that changes all the time does not keep a scan from ending") {
  World world = three();
  Scan scan;
  while (scan.call(world)) ++world.epoch;
  CHECK(scan.calls == 12);
  CHECK(scan.seen.size() == 12);
}

TEST_CASE("a change of the map before the first call or behind the last costs nothing") {
  World world = three();
  ++world.epoch;
  Scan scan;
  while (scan.call(world)) {
  }
  CHECK(scan.calls == 6);
}

TEST_CASE("a scan begins anew when nodes have joined or left") {
  World world = three();
  Scan scan;
  for (int i = 0; i < 3; ++i) REQUIRE(scan.call(world));
  SUBCASE("joined") {
    world.names.insert(world.names.begin(), "A");
    ++world.epoch;
    world.at[0] = "a";
    world.at[300] = "A";
  }
  SUBCASE("left") {
    for (auto& [slot, name] : world.at) {
      if (name == "b") name = "a";
    }
    world.names = {"a", "c"};
    ++world.epoch;
  }
  std::set<slots::SlotId> all;
  for (const auto& [slot, name] : world.at) all.insert(slot);
  scan.seen.clear();
  while (scan.call(world)) {
  }
  CHECK(scan.seen == all);
}

TEST_CASE("a rank that no node has any more begins anew, even if the nodes look alike") {
  World world = three();
  Scan scan;
  for (int i = 0; i < 5; ++i) REQUIRE(scan.call(world));
  // Such names give any four bits sooner or later.
  for (int i = 0; i < 100; ++i) {
    World other;
    other.names = {"n" + std::to_string(i)};
    other.at[1] = other.names[0];
    Scan again = scan;
    again.call(other);
    CHECK(again.last_asked == other.names[0]);
  }
}

TEST_CASE("the rest of a scan whose last nodes own nothing any more is empty") {
  World world = three();
  Scan scan;
  for (int i = 0; i < 5; ++i) REQUIRE(scan.call(world));  // In "c", first pass.
  for (auto& [slot, name] : world.at) {
    if (name == "c") name = "a";
  }
  ++world.epoch;
  scan.seen.clear();
  REQUIRE(scan.call(world));  // The second pass, since what "c" had is at "a" now.
  CHECK(scan.last_asked == "a");
  while (scan.call(world)) {
  }
  CHECK(scan.seen.size() == 12);
}

TEST_CASE("whatever moves while a scan runs, and however often: a slot that moves once is met") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    World world;
    world.names = {"a", "b", "c", "d", "e"};
    for (slots::SlotId slot = 0; slot < 60; ++slot) world.at[slot] = world.names[random() % 5];
    std::vector<slots::SlotId> to_move;
    for (slots::SlotId slot = 0; slot < 60; ++slot) to_move.push_back(slot);
    std::shuffle(to_move.begin(), to_move.end(), random);
    Scan scan;
    while (scan.call(world, 4)) {
      for (auto n = random() % 3; n > 0 && !to_move.empty(); --n) {
        world.move(to_move.back(), world.names[random() % 5]);
        to_move.pop_back();
      }
    }
    CHECK(scan.seen.size() == 60);
    CHECK(scan.calls <= 40);
  }
}

TEST_CASE("nodes rank by their ids, whatever their order in the file") {
  CHECK(nodes_by_rank({"c", "a", "b"}) == std::vector<slots::NodeIndex>{1, 2, 0});
  CHECK(nodes_by_rank({"a", "b", "c"}) == std::vector<slots::NodeIndex>{0, 1, 2});
  CHECK(nodes_by_rank({}).empty());
}
