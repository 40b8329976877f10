#include <doctest/doctest.h>

#include <random>
#include <string>

#include "slots/key_slot.h"

namespace {

using slots::hashed_part;
using slots::slot_of_key;

// The specification's CRC16, one bit at a time: a second opinion on the tables.
unsigned slot_bit_by_bit(std::string_view part) {
  unsigned crc = 0;
  for (const char byte : part) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(byte)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021U : 0U);
    crc &= 0xffff;
  }
  return crc % slots::kSlotCount;
}

TEST_CASE("slots of known keys are those of a Redis cluster") {
  CHECK(slot_of_key("") == 0);
  CHECK(slot_of_key("123456789") == 0x31c3);
  CHECK(slot_of_key("foo") == 12182);
  CHECK(slot_of_key("bar") == 5061);
  CHECK(slot_of_key("hello") == 866);
  CHECK(slot_of_key("cart:{42}") == 8000);
}

TEST_CASE("a hash tag decides the slot alone") {
  SUBCASE("the tag is what lies between the first { and the next }") {
    CHECK(slot_of_key("a{x}b") == slot_of_key("x"));
    CHECK(hashed_part("{user1000}.following") == "user1000");
    CHECK(hashed_part("foo{{bar}}zap") == "{bar");
    CHECK(hashed_part("foo{bar}{zap}") == "bar");
    CHECK(hashed_part("a}b{c}") == "c");
  }
  SUBCASE("an empty tag does not count: the whole key is hashed") {
    CHECK(hashed_part("foo{}{bar}") == "foo{}{bar}");
    CHECK(slot_of_key("a{}b") != slot_of_key(""));
  }
  SUBCASE("neither does one that is not closed") {
    CHECK(hashed_part("foo{bar") == "foo{bar");
    CHECK(hashed_part("foo}bar{") == "foo}bar{");
  }
}

TEST_CASE("keys are bytes: zero and high bytes count like any other") {
  const std::string zero("a\0b", 3);
  CHECK(slot_of_key(zero) == slot_bit_by_bit(zero));
  CHECK(slot_of_key(zero) != slot_of_key("a"));
  CHECK(slot_of_key("\xff\x80\xfe") == slot_bit_by_bit("\xff\x80\xfe"));
}

TEST_CASE("every length and every byte gives the slot of the specification") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (std::size_t size = 0; size < 200; ++size) {
    std::string key(size, ' ');
    for (char& byte : key) byte = static_cast<char>(random());
    CAPTURE(size);
    CHECK(slot_of_key(key) == slot_bit_by_bit(hashed_part(key)));
  }
}

}  // namespace
