#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "proxy/route/scan_cursor.h"

namespace {

using proxy::route::decode_scan_cursor;
using proxy::route::encode_scan_cursor;
using proxy::route::nodes_by_rank;
using proxy::route::ScanCursor;

constexpr std::uint64_t kNodeCursorMax = (1ULL << 40) - 1;

ScanCursor cursor(std::uint16_t rank, std::uint64_t node_cursor, std::uint8_t epoch_bits) {
  return ScanCursor{.node_rank = rank, .node_cursor = node_cursor, .epoch_bits = epoch_bits};
}

}  // namespace

TEST_CASE("a scan's cursor says where it is, both ways") {
  std::vector<ScanCursor> cursors = {cursor(0, 0, 0), cursor(0, 1, 0), cursor(1, 0, 255),
                                     cursor(1023, kNodeCursorMax, 255), cursor(4095, 17, 1)};
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    cursors.push_back(cursor(static_cast<std::uint16_t>(random() % 4096), random() & kNodeCursorMax,
                             static_cast<std::uint8_t>(random())));
  }
  for (const ScanCursor& place : cursors) {
    auto value = encode_scan_cursor(place);
    REQUIRE(value.has_value());
    // 0 would end the scan, and many clients read a signed number.
    REQUIRE(*value != 0);
    REQUIRE(*value <= static_cast<std::uint64_t>(INT64_MAX));
    auto decoded = decode_scan_cursor(*value);
    REQUIRE(decoded.has_value());
    REQUIRE(*decoded == place);
  }
}

TEST_CASE("a cursor's bits have their places, so that all versions and proxies agree") {
  CHECK(*encode_scan_cursor(cursor(3, 0x1234, 0x7f)) == 0x1003'7f00'0000'1234ULL);
}

TEST_CASE("a scan begins with 0") { CHECK(decode_scan_cursor(0) == ScanCursor{}); }

TEST_CASE("a cursor that no proxy gave out is an error") {
  constexpr std::uint64_t kOne = 1;
  for (std::uint64_t value : {kOne, kOne + 16, (kOne << 60) - 1, kOne << 61, kOne << 63,
                              (kOne << 62) | (kOne << 60), ~std::uint64_t{0}}) {
    CAPTURE(value);
    auto decoded = decode_scan_cursor(value);
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code == slots::Errc::InvalidArgument);
  }
}

TEST_CASE("a node's cursor above 40 bits can't be carried") {
  auto value = encode_scan_cursor(cursor(0, kNodeCursorMax + 1, 0));
  REQUIRE_FALSE(value.has_value());
  CHECK(value.error().code == slots::Errc::LimitExceeded);
}

TEST_CASE("nodes rank by their ids, whatever their order in the file") {
  CHECK(nodes_by_rank({"c", "a", "b"}) == std::vector<slots::NodeIndex>{1, 2, 0});
  CHECK(nodes_by_rank({"a", "b", "c"}) == std::vector<slots::NodeIndex>{0, 1, 2});
  CHECK(nodes_by_rank({}).empty());
}
