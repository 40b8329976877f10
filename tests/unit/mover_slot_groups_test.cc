// DirtyKeys and SlotGroups: what a transfer has to copy again, and what it may fence next.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/dirty_keys.h"
#include "proxy/mover/slot_groups.h"

namespace proxy::mover {
namespace {

slots::SlotSet range(slots::SlotId first, slots::SlotId last) {
  return slots::SlotSet(slots::SlotRange{first, last});
}

}  // namespace

TEST_CASE("dirty keys: a name is in there once, and out once taken") {
  DirtyKeys dirty;
  dirty.add("a", 1);
  dirty.add("a", 1);
  dirty.add("b", 2);
  CHECK(dirty.size() == 2);
  CHECK(dirty.size_of(1) == 1);
  CHECK(dirty.take_of(range(1, 1), 10) == std::vector<std::string>{"a"});
  CHECK(dirty.size_of(range(0, 5)) == 1);
  dirty.remove("b", 2);
  dirty.remove("never there", 2);
  CHECK(dirty.size() == 0);
  CHECK(dirty.bytes() == 0);
}

TEST_CASE("dirty keys: a name that was taken is hot for a second; put back it is not") {
  DirtyKeys dirty;
  dirty.add("a", 1);
  CHECK(dirty.take_cool(10, 5000).size() == 1);
  dirty.add("a", 1);
  CHECK(dirty.take_cool(10, 5999).empty());
  CHECK(dirty.take_cool(10, 6000).size() == 1);
  dirty.put_back("a", 1);
  CHECK(dirty.take_cool(10, 6001).size() == 1);
  dirty.add("a", 1);
  CHECK(dirty.take_of(range(1, 1), 10).size() == 1);  // Hot or not.
}

TEST_CASE("dirty keys: every slot has its turn") {
  DirtyKeys dirty;
  for (int i = 0; i < 100; ++i) dirty.add("first " + std::to_string(i), 1);
  dirty.add("second", 2);
  (void)dirty.take_cool(10, 0);
  CHECK(dirty.take_cool(10, 0).front() == "second");
}

TEST_CASE("dirty keys: slots that are not of interest any more leave with their names") {
  DirtyKeys dirty;
  dirty.add("a", 1);
  dirty.add("b", 2);
  dirty.remove_slots(range(2, 9));
  CHECK(dirty.size() == 1);
  dirty.clear();
  CHECK(dirty.size() == 0);
  CHECK(dirty.bytes() == 0);
}

TEST_CASE("slot groups: as many quiet slots as a group has, in order") {
  SlotGroups groups(50, 4);
  DirtyKeys dirty;
  LargeKeys large;
  CHECK(groups.choose(range(10, 99), dirty, large, 0) == range(10, 13));
  CHECK(groups.choose(range(98, 99), dirty, large, 0) == range(98, 99));
}

TEST_CASE("slot groups: no more than fits half the pause, streams included") {
  SlotGroups groups(50, 4);
  DirtyKeys dirty;
  LargeKeys large;
  for (int i = 0; i < 10000; ++i) dirty.add(std::to_string(i), 10);
  groups.note_stream({"s"}, 11, 10 << 20);
  CHECK(groups.choose(range(10, 13), dirty, large, 0) == range(12, 13));
  CHECK(groups.cost_ms(range(10, 10), dirty, large) > 25);
  groups.note_no_stream({"s"}, 11);
  CHECK(groups.choose(range(10, 13), dirty, large, 0) == range(11, 13));
  SUBCASE("but after a while the quietest alone, for the estimate may be wrong") {
    CHECK(groups.choose(range(10, 10), dirty, large, 100) == std::nullopt);
    CHECK(groups.choose(range(10, 10), dirty, large, 4000) == std::nullopt);
    CHECK(groups.choose(range(10, 10), dirty, large, 5100) == range(10, 10));
  }
}

TEST_CASE("slot groups: several slots take a small share of the pause at most, one may take half") {
  SlotGroups groups(50, 4);
  DirtyKeys dirty;
  LargeKeys large;
  for (int i = 0; i < 30; ++i) {
    for (slots::SlotId slot = 11; slot < 14; ++slot)
      dirty.add(std::to_string(slot) + ":" + std::to_string(i), slot);
  }
  CHECK(groups.choose(range(10, 13), dirty, large, 0) == range(10, 12));
  for (int i = 0; i < 300; ++i) dirty.add(std::to_string(i), 20);
  CHECK(groups.choose(range(20, 23), dirty, large, 0) == range(20, 20));
}

TEST_CASE("slot groups: the estimate learns from what copies took") {
  SlotGroups groups(50, 4);
  DirtyKeys dirty;
  LargeKeys large;
  for (int i = 0; i < 100; ++i) dirty.add(std::to_string(i), 10);
  const double before = groups.cost_ms(range(10, 10), dirty, large);
  for (int i = 0; i < 3; ++i) groups.note_copied(before, 30);
  CHECK(groups.cost_ms(range(10, 10), dirty, large) > before * 3);
  for (int i = 0; i < 9; ++i) groups.note_copied(30, 1);
  CHECK(groups.cost_ms(range(10, 10), dirty, large) < before);
}

TEST_CASE("slot groups: those that failed come back later, in halves, behind the others") {
  SlotGroups groups(50, 4);
  DirtyKeys dirty;
  LargeKeys large;
  groups.note_failed(range(10, 13), 1000);
  CHECK(groups.choose(range(10, 13), dirty, large, 1050) == std::nullopt);
  CHECK(groups.choose(range(10, 19), dirty, large, 1100) == range(14, 17));
  CHECK(groups.choose(range(10, 13), dirty, large, 1100) == range(10, 11));
  groups.note_failed(range(10, 11), 1100);
  CHECK(groups.choose(range(10, 13), dirty, large, 9000) == range(12, 13));
  groups.note_committed(range(12, 13));
  CHECK(groups.choose(range(10, 11), dirty, large, 9000) == range(10, 10));
  CHECK(groups.worst().failures == 2);
  CHECK(groups.worst().slot == 10);
}

}  // namespace proxy::mover
