#include <doctest/doctest.h>

#include <random>
#include <string>

#include "slots/key_slot.h"
#include "slots/top_keys.h"

using namespace slots;

namespace {

void add(TopKeys& keys, const std::string& name, int times = 1) {
  for (int i = 0; i < times; ++i) {
    if (keys.is_drawn()) keys.add(name, slot_of_key(name));
  }
}

std::string name_of(int i) { return "key:" + std::to_string(i); }

}  // namespace

TEST_CASE("as long as there are few keys, counts are exact") {
  TopKeys keys(1);
  add(keys, "a", 3);
  add(keys, "c", 5);
  add(keys, "b", 3);
  const auto top = keys.top(2);
  REQUIRE(top.size() == 2);
  CHECK((top[0] == TopKeys::Key{"c", false, slot_of_key("c"), 5, 0}));
  CHECK((top[1] == TopKeys::Key{"a", false, slot_of_key("a"), 3, 0}));
  CHECK(keys.total() == 11);
  CHECK(!keys.is_sampled());
}

TEST_CASE("a hot key is found among more keys than are kept, its count within the error") {
  std::minstd_rand random(7);
  TopKeys keys(1);
  int hot = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool is_hot = random() % 20 == 0;
    hot += is_hot ? 1 : 0;
    add(keys, is_hot ? "hot" : name_of(static_cast<int>(random() % 50'000)));
  }
  const auto top = keys.top(1);
  REQUIRE(top.size() == 1);
  CHECK(top[0].name == "hot");
  CHECK(top[0].count >= static_cast<std::uint64_t>(hot));
  CHECK(top[0].count - top[0].error <= static_cast<std::uint64_t>(hot));
  CHECK(keys.total() == 100'000);
}

TEST_CASE("of a fast stream a part is looked at, and stands for all") {
  TopKeys keys(3);
  int drawn = 0;
  for (int tick = 0; tick < 50; ++tick) {
    drawn = 0;
    // In turn, as a client's pipeline would: no fixed gap may fall in step with it.
    for (int i = 0; i < 20'000; ++i) {
      if (!keys.is_drawn()) continue;
      ++drawn;
      const std::string name = i % 4 == 0 ? "hot" : name_of(i % 1000);
      keys.add(name, slot_of_key(name));
    }
    keys.pace();
  }
  CHECK(keys.is_sampled());
  CHECK(drawn < 5000);
  const auto top = keys.top(1);
  CHECK(top[0].name == "hot");
  const double share = static_cast<double>(top[0].count) / static_cast<double>(keys.total());
  CHECK(share == doctest::Approx(0.25).epsilon(0.1));
  CHECK(static_cast<double>(keys.total()) == doctest::Approx(1'000'000).epsilon(0.1));

  SUBCASE("and all of it again once it is slow") {
    for (int tick = 0; tick < 20; ++tick) keys.pace();
    const std::uint64_t before = keys.total();
    add(keys, "x", 100);
    CHECK(keys.total() - before >= 80);
  }
}

TEST_CASE("the sketches of several threads are merged into one") {
  TopKeys one(1);
  TopKeys other(2);
  add(one, "a", 3);
  add(one, "b", 4);
  add(other, "a", 3);
  one.merge(other);
  const auto top = one.top(5);
  REQUIRE(top.size() == 2);
  CHECK(top[0].name == "a");
  CHECK(top[0].count == 6);
  CHECK(one.total() == 10);
}

TEST_CASE("of a long key its beginning is remembered, and two that begin alike stay two") {
  TopKeys keys(1);
  const std::string begin(1000, 'x');
  add(keys, begin + "1", 2);
  add(keys, begin + "2", 1);
  const auto top = keys.top(5);
  REQUIRE(top.size() == 2);
  CHECK(top[0].is_cut);
  CHECK(top[0].name.size() == TopKeys::kKeyBytesMax);
  CHECK(top[0].count == 2);
}
