#include "proxy/route/scan_cursor.h"

#include "slots/slot_map.h"

namespace proxy::route {

namespace {

constexpr unsigned kNodeCursorBits = 36;
constexpr unsigned kEpochShift = 36;
constexpr unsigned kRankShift = 44;
constexpr unsigned kRankBits = 10;
constexpr unsigned kNodesShift = 54;
constexpr unsigned kPassShift = 58;
constexpr unsigned kVersionShift = 60;
constexpr std::uint64_t kVersion = 2;

static_assert(slots::kNodesMax <= (1U << kRankBits));

constexpr std::uint64_t mask(unsigned bits) { return (1ULL << bits) - 1; }

}  // namespace

slots::Result<std::uint64_t> encode_scan_cursor(const ScanCursor& cursor) {
  if (cursor.node_cursor > mask(kNodeCursorBits)) {
    return slots::fail(slots::Errc::LimitExceeded, "its SCAN cursor does not fit in 36 bits");
  }
  return kVersion << kVersionShift | static_cast<std::uint64_t>(cursor.pass) << kPassShift |
         static_cast<std::uint64_t>(cursor.nodes_bits) << kNodesShift |
         static_cast<std::uint64_t>(cursor.node_rank) << kRankShift |
         static_cast<std::uint64_t>(cursor.epoch_bits) << kEpochShift | cursor.node_cursor;
}

slots::Result<ScanCursor> decode_scan_cursor(std::uint64_t value) {
  auto pass = (value >> kPassShift) & mask(kVersionShift - kPassShift);
  if (value >> kVersionShift != kVersion || pass > static_cast<unsigned>(ScanPass::Second)) {
    return slots::fail(slots::Errc::InvalidArgument,
                       "not a cursor of this proxy; begin again with 0");
  }
  ScanCursor cursor;
  cursor.pass = static_cast<ScanPass>(pass);
  cursor.nodes_bits = static_cast<std::uint8_t>((value >> kNodesShift) & mask(kScanNodesBits));
  cursor.node_rank = static_cast<std::uint16_t>((value >> kRankShift) & mask(kRankBits));
  cursor.epoch_bits = static_cast<std::uint8_t>(value >> kEpochShift);
  cursor.node_cursor = value & mask(kNodeCursorBits);
  return cursor;
}

}  // namespace proxy::route
