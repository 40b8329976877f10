#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "proxy/control/state_record.h"

namespace {

using proxy::control::ClusterState;
using slots::Errc;

// The worst of maps: every slot has another owner than the one before it.
ClusterState scattered_state() {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot)
    owners[slot] = static_cast<slots::NodeIndex>(slot % 3);
  return {
      "shop",
      slots::SlotMap::create({{"a", 0.1}, {"b", 1}, {"c", 1e6}}, owners, 1ULL << 40).value(),
      {{"a", std::string("\0x", 2)}},
      {{"a", {"127.0.0.1:7001", "127.0.0.1:6401", "shop-1:6401"}}, {"b", {"/run/b.sock", "", ""}}}};
}

}  // namespace

TEST_CASE("the checksum is CRC-32C") {
  CHECK(proxy::control::crc32c("123456789") ==
        0xE3069283);  // The check value of the catalogue of CRCs.
  CHECK(proxy::control::crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4.
}

TEST_CASE("a record decodes to the state it was made of") {
  const ClusterState state = scattered_state();
  const std::string record = proxy::control::encode_record(state);
  const auto contents = proxy::control::read_journal(record);
  REQUIRE_MESSAGE(contents.has_value(), contents.error().message);
  REQUIRE(contents->state.has_value());
  CHECK(contents->state->cluster == "shop");
  CHECK(contents->state->map.epoch() == 1ULL << 40);
  CHECK(contents->state->map.nodes() == state.map.nodes());
  CHECK(contents->state->map.owners() == state.map.owners());
  CHECK(contents->state->identities == state.identities);
  CHECK(contents->state->places == state.places);
  CHECK(proxy::control::encode_record(*contents->state) == record);
}

TEST_CASE("the last record counts") {
  const std::string scattered = proxy::control::encode_record(scattered_state());
  slots::SlotMap::Owners owners{};
  const ClusterState simple{"shop", slots::SlotMap::create({{"a", 1}}, owners, 7).value(), {}};
  const auto contents =
      proxy::control::read_journal(scattered + proxy::control::encode_record(simple));
  REQUIRE(contents.has_value());
  CHECK(contents->records == 2);
  CHECK(contents->state->map.epoch() == 7);
}

TEST_CASE("an empty journal has no state") {
  const auto contents = proxy::control::read_journal("");
  REQUIRE(contents.has_value());
  CHECK_FALSE(contents->state.has_value());
}

TEST_CASE("bytes of another kind are damage, not an empty journal") {
  CHECK(proxy::control::read_journal("cluster: shop\nepoch: 1\n").error().code == Errc::Corrupt);
}

TEST_CASE("the format is fixed") {
  slots::SlotMap::Owners owners{};
  const ClusterState state{"c",
                           slots::SlotMap::create({{"n", 1}}, owners, 2).value(),
                           {{"n", "i"}},
                           {{"n", {"h:1", "", ""}}}};
  const std::string record = proxy::control::encode_record(state);
  const std::string payload =
      std::string("\x01\x01", 2) + std::string("\x02\0\0\0\0\0\0\0", 8) +
      std::string("\x01\0\0\0c", 5) + std::string("\x01\0\0\0", 4) + std::string("\x01\0\0\0n", 5) +
      std::string("\0\0\0\0\0\0\xf0\x3f", 8) + std::string("\x01\0\0\0", 4) +
      std::string("\0\0\xff\x3f\0\0", 6) + std::string("\x01\0\0\0", 4) +
      std::string("\x01\0\0\0n", 5) + std::string("\x01\0\0\0i", 5) + std::string("\x01\0\0\0", 4) +
      std::string("\x01\0\0\0n", 5) + std::string("\x03\0\0\0h:1", 7) + std::string("\0\0\0\0", 4) +
      std::string("\0\0\0\0", 4);
  CHECK(record.substr(0, 8) ==
        std::string("SPJ1") + static_cast<char>(payload.size()) + std::string(3, '\0'));
  CHECK(record.substr(16) == payload + "\n");
}

TEST_CASE("a record of a newer format is said to be one") {
  slots::SlotMap::Owners owners{};
  const ClusterState state{"c", slots::SlotMap::create({{"n", 1}}, owners, 2).value(), {}};
  std::string record = proxy::control::encode_record(state);
  record[16] = 2;
  const std::uint32_t crc =
      proxy::control::crc32c(std::string_view(record).substr(16, record.size() - 17));
  for (std::size_t i = 0; i < 4; ++i) record[12 + i] = static_cast<char>(crc >> (8 * i) & 0xFFU);
  const auto contents = proxy::control::read_journal(record);
  REQUIRE_FALSE(contents.has_value());
  CHECK(contents.error().message ==
        "record 1 at byte 0 can't be used: it has format version 2, this program knows 1; was it "
        "written by a newer one?");
}
