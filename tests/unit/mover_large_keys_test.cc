// Which keys go in pieces, when, and what they cost.
#include <doctest/doctest.h>

#include "proxy/mover/large_keys.h"

namespace proxy::mover {

TEST_CASE("large keys: the small ones first, and none before its time") {
  LargeKeys large;
  large.note({"big"}, 1, 9'000'000);
  large.note({"small"}, 2, 2'000'000);
  REQUIRE(large.next(0) != nullptr);
  CHECK(large.next(0)->key.name == "small");
  large.note_vain_try(*large.find({"small"}, 2), 0, "it changed");
  CHECK(large.next(0)->key.name == "big");
  large.find({"big"}, 1)->is_copied = true;
  CHECK(large.next(999) == nullptr);
  CHECK(large.next(1000)->key.name == "small");
  CHECK(large.is_open(2));
  CHECK_FALSE(large.is_open(1));
}

TEST_CASE(
    "large keys: a change after the copy is copied later, the later the more copies there were") {
  LargeKeys large;
  CHECK_FALSE(large.note_changed("k", 1, 0));
  LargeKeys::Key& key = large.note({"k"}, 1, 2'000'000);
  key.is_copied = true;
  key.copies = 1;
  CHECK(large.note_changed("k", 1, 5000));
  CHECK(key.not_before_ms == 6000);
  CHECK(large.is_open(1));
  key.is_copied = true;
  key.copies = 4;
  CHECK(large.note_changed("k", 1, 5000));
  CHECK(key.not_before_ms == 13'000);
}

TEST_CASE("large keys: after six vain tries one is given up, and people hear of it before") {
  LargeKeys large;
  LargeKeys::Key& key = large.note({"k"}, 1, 40'000'000);
  large.note_vain_try(key, 0, "it changed");
  CHECK(large.restless() == nullptr);
  large.note_vain_try(key, 0, "it changed");
  CHECK(large.restless() == &key);
  for (int i = 0; i < 3; ++i) large.note_vain_try(key, 0, "it changed");
  CHECK(large.given_up(1) == nullptr);
  large.note_vain_try(key, 0, "it changed");
  CHECK(large.given_up(1) == &key);
  CHECK(large.next(~0ULL) == nullptr);
  key.is_copied = true;
  CHECK(large.given_up(1) == nullptr);
}

TEST_CASE(
    "large keys: what is still to be copied costs by its size, a stream a look at its groups") {
  LargeKeys large;
  LargeKeys::Key& key = large.note({"k"}, 1, 1'000'000);
  CHECK(large.cost_ms(1) > 10);
  key.is_copied = true;
  CHECK(large.cost_ms(1) == 0);
  key.type = "stream";
  key.pending = 100'000;
  CHECK(large.cost_ms(1) < 5);
  key.must_renew = true;
  CHECK(large.cost_ms(1) > 100);
  slots::SlotSet slots;
  slots.add(1);
  CHECK(large.streams_of(slots).size() == 1);
  large.remove_slots(slots);
  CHECK(large.cost_ms(1) == 0);
}

TEST_CASE("large keys: a name that changes means its large keys in all databases") {
  LargeKeys large;
  large.note({"k", 0}, 1, 2'000'000).is_copied = true;
  large.note({"k", 3}, 1, 2'000'000).is_copied = true;
  large.note({"k2", 3}, 1, 2'000'000).is_copied = true;
  CHECK(large.note_changed("k", 1, 0));
  CHECK_FALSE(large.note_changed("none", 1, 0));
  CHECK_FALSE(large.find({"k", 0}, 1)->is_copied);
  CHECK_FALSE(large.find({"k", 3}, 1)->is_copied);
  CHECK(large.find({"k2", 3}, 1)->is_copied);
  large.forget({"k", 3}, 1);
  CHECK(large.has({"k", 0}, 1));
  CHECK_FALSE(large.has({"k", 3}, 1));
  CHECK(words_of(*large.find({"k2", 3}, 1)).find("database 3") != std::string::npos);
}

}  // namespace proxy::mover
