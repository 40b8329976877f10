#include "proxy/route/scan_cursor.h"

#include <algorithm>
#include <numeric>

namespace proxy::route {

namespace {

constexpr unsigned kNodeCursorBits = 40;
constexpr unsigned kEpochShift = 40;
constexpr unsigned kRankShift = 48;
constexpr unsigned kRankBits = 12;
constexpr unsigned kVersionShift = 60;
constexpr std::uint64_t kVersion = 1;

static_assert(slots::kNodesMax <= (1U << kRankBits));

constexpr std::uint64_t mask(unsigned bits) { return (1ULL << bits) - 1; }

}  // namespace

slots::Result<std::uint64_t> encode_scan_cursor(const ScanCursor& cursor) {
  if (cursor.node_cursor > mask(kNodeCursorBits)) {
    return slots::fail(slots::Errc::LimitExceeded, "its SCAN cursor does not fit in 40 bits");
  }
  return kVersion << kVersionShift | static_cast<std::uint64_t>(cursor.node_rank) << kRankShift |
         static_cast<std::uint64_t>(cursor.epoch_bits) << kEpochShift | cursor.node_cursor;
}

slots::Result<ScanCursor> decode_scan_cursor(std::uint64_t value) {
  if (value == 0) return ScanCursor{};
  if (value >> kVersionShift != kVersion) {
    return slots::fail(slots::Errc::InvalidArgument,
                       "not a cursor of this proxy; begin again with 0");
  }
  return ScanCursor{static_cast<std::uint16_t>((value >> kRankShift) & mask(kRankBits)),
                    value & mask(kNodeCursorBits),
                    static_cast<std::uint8_t>((value >> kEpochShift) & 0xff)};
}

std::vector<slots::NodeIndex> nodes_by_rank(const std::vector<std::string>& ids) {
  std::vector<slots::NodeIndex> order(ids.size());
  std::iota(order.begin(), order.end(), slots::NodeIndex{0});
  std::sort(order.begin(), order.end(),
            [&](slots::NodeIndex a, slots::NodeIndex b) { return ids[a] < ids[b]; });
  return order;
}

}  // namespace proxy::route
