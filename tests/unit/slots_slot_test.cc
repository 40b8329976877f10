#include "slots/slot.h"

#include <doctest/doctest.h>

#include <random>

namespace {

using slots::parse_slot_range;
using slots::parse_slot_set;
using slots::SlotId;
using slots::SlotRange;
using slots::SlotSet;

std::string error_of(std::string_view text) {
  const auto set = parse_slot_set(text);
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().code == slots::Errc::InvalidArgument);
  return set.error().message;
}

TEST_CASE("a slot range is written as one slot or as first-last") {
  CHECK(parse_slot_range("7000").value() == SlotRange{7000, 7000});
  CHECK(parse_slot_range("0-16383").value() == SlotRange{0, 16383});
  CHECK(parse_slot_range(" 3 - 5 ").value() == SlotRange{3, 5});
  CHECK(to_string(SlotRange{7000, 7000}) == "7000");
  CHECK(to_string(SlotRange{0, 5460}) == "0-5460");
  CHECK(SlotRange{3, 5}.size() == 3);
}

TEST_CASE("a range that runs backwards is refused with the right order") {
  const auto range = parse_slot_range("9-4");
  REQUIRE_FALSE(range.has_value());
  CHECK(range.error().message == "\"9-4\" runs backwards; write 4-9");
}

TEST_CASE("text that is no slot is refused, and the message shows it") {
  for (const char* text : {"x", "-1", "1-", "-", "1-2-3", "0x10", "1.5", "+1", "1 2", ","}) {
    CAPTURE(text);
    CHECK(error_of(text).find(text) != std::string::npos);
  }
}

TEST_CASE("slots end at 16383") {
  CHECK(parse_slot_set("16383").has_value());
  CHECK(error_of("16384") == "\"16384\": 16384 is not a slot; slots are 0 to 16383");
  CHECK(error_of("0-99999999999999999999").find("slots are 0 to 16383") != std::string::npos);
}

TEST_CASE("a set is ranges parted by commas, blanks allowed") {
  const SlotSet set = parse_slot_set(" 7000, 0-2 ,4 ").value();
  CHECK(set.size() == 5);
  CHECK(set.contains(7000));
  CHECK_FALSE(set.contains(3));
  CHECK(to_string(set) == "0-2,4,7000");
}

TEST_CASE("the empty text is the empty set") {
  CHECK(parse_slot_set("").value().empty());
  CHECK(parse_slot_set("  ").value().empty());
  CHECK(to_string(SlotSet()) == "");
}

TEST_CASE("a slot named twice is refused, and so is a stray comma") {
  CHECK(error_of("0-10,20,5-7").find("slot 5 is named twice") != std::string::npos);
  CHECK(error_of("1,1").find("slot 1 is named twice") != std::string::npos);
  for (const char* text : {"1,", ",1", "1,,2"}) {
    CAPTURE(text);
    CHECK(error_of(text).find("comma") != std::string::npos);
  }
}

TEST_CASE("neighbouring ranges are shown as one") {
  SlotSet set(SlotRange{0, 9});
  set.add(SlotRange{10, 19});
  CHECK(set.ranges() == std::vector<SlotRange>{{0, 19}});
  set.remove(5);
  CHECK(set.ranges() == std::vector<SlotRange>{{0, 4}, {6, 19}});
}

TEST_CASE("sets intersect when they share a slot") {
  const SlotSet low(SlotRange{0, 100});
  CHECK(low.intersects(SlotSet(SlotRange{100, 200})));
  CHECK_FALSE(low.intersects(SlotSet(SlotRange{101, 200})));
  SlotSet both = low;
  both.add(SlotSet(SlotRange{101, 200}));
  CHECK(both == SlotSet(SlotRange{0, 200}));
}

TEST_CASE("any set survives being written and read") {
  const unsigned seed = 20240607;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    SlotSet set;
    const int count = static_cast<int>(random() % 400);
    for (int i = 0; i < count; ++i) set.add(static_cast<SlotId>(random() % slots::kSlotCount));
    CHECK(parse_slot_set(to_string(set)).value() == set);
  }
}

}  // namespace
