#include <doctest/doctest.h>

#include "slots/slot_census.h"

using namespace slots;

TEST_CASE("keys of slots that the node does not own are not counted") {
  SlotTally tally{SlotSet(SlotRange{0, 9})};
  CHECK(tally.add_key(3));
  CHECK(!tally.add_key(10));
  CHECK(tally.keys() == 1);
}

TEST_CASE("a slot's bytes follow the keys of it that were measured, else the node's mean") {
  SlotTally tally{SlotSet(SlotRange{0, 9})};
  for (int i = 0; i < 4; ++i) (void)tally.add_key(1);
  for (int i = 0; i < 2; ++i) (void)tally.add_key(2);
  tally.add_size(1, 100);
  tally.add_size(1, 300);
  SlotCensus census;
  tally.add_to(census, true, 6, 0);
  CHECK(census.is_exact);
  CHECK(census.keys[1] == 4);
  CHECK(census.bytes[1] == 800);
  CHECK(census.bytes[2] == 400);
  CHECK(census.counted == SlotSet(SlotRange{0, 9}));
  CHECK(census.largest(5) == std::vector<SlotId>{1, 2});

  SUBCASE("or what the node says of itself when none could be measured") {
    SlotTally blind{SlotSet(SlotRange{20, 20})};
    (void)blind.add_key(20);
    blind.add_to(census, true, 1, 70);
    CHECK(census.bytes[20] == 70);
    CHECK(census.counted.contains(20));
  }
}

TEST_CASE("a part of the keys stands for all, and is said to be an estimate") {
  SlotTally tally{SlotSet(SlotRange{0, 9})};
  for (int i = 0; i < 30; ++i) (void)tally.add_key(1);
  for (int i = 0; i < 10; ++i) (void)tally.add_key(2);
  SlotCensus census;
  tally.add_to(census, false, 400, 0);
  CHECK(!census.is_exact);
  CHECK(census.keys[1] == 300);
  CHECK(census.keys[2] == 100);
}
