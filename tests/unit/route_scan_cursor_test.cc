#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "proxy/route/scan_cursor.h"

namespace {

using proxy::route::decode_scan_cursor;
using proxy::route::encode_scan_cursor;
using proxy::route::ScanCursor;
using proxy::route::ScanPass;

constexpr std::uint64_t kNodeCursorMax = (1ULL << 36) - 1;

}  // namespace

TEST_CASE("a scan's cursor says where it is, both ways") {
  std::vector<ScanCursor> cursors = {{}, {ScanPass::Second, 15, 1023, 255, kNodeCursorMax}};
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    cursors.push_back({static_cast<ScanPass>(random() % 3),
                       static_cast<std::uint8_t>(random() % 16),
                       static_cast<std::uint16_t>(random() % 1024),
                       static_cast<std::uint8_t>(random()), random() & kNodeCursorMax});
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
  CHECK(*encode_scan_cursor({ScanPass::FirstChanged, 0xa, 3, 0x7f, 0x1234}) ==
        0x2680'37f0'0000'1234ULL);
}

TEST_CASE("a cursor that no proxy gave out is an error") {
  constexpr std::uint64_t kOne = 1;
  for (std::uint64_t value :
       {kOne, kOne + 16, (kOne << 60) - 1, kOne << 60, kOne << 63, (kOne << 62) | (kOne << 61),
        (kOne << 61) | (std::uint64_t{3} << 58), ~std::uint64_t{0}}) {
    CAPTURE(value);
    auto decoded = decode_scan_cursor(value);
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code == slots::Errc::InvalidArgument);
  }
}

TEST_CASE("a node's cursor above 36 bits can't be carried") {
  auto value = encode_scan_cursor({.node_cursor = kNodeCursorMax + 1});
  REQUIRE_FALSE(value.has_value());
  CHECK(value.error().code == slots::Errc::LimitExceeded);
}
