// ScanCursor: SCAN's one cursor over all nodes. Stateless: any proxy of the cluster can go on with
// it. What follows from one is scan_place.h's.
//
// Layout, 62 bits, so that clients that read it as a signed number are fine (0 begins and ends a
// scan):
//   bits 60-61  version, 2
//   bits 58-59  the pass (ScanPass)
//   bits 54-57  which nodes there are: 4 bits of a hash of their ids
//   bits 44-53  rank of the node that is scanned, by node id: the same at every proxy, whatever the
//               order in its YAML
//   bits 36-43  the map's epoch when the cursor was given out, its low 8 bits
//   bits  0-35  the node's own cursor (Redis's grow with its table: 36 bits are 7 * 10^10 buckets)
#pragma once

#include <cstdint>

#include "slots/result.h"

namespace proxy::route {

enum class ScanPass : std::uint8_t {
  First,
  FirstChanged,  // The map has changed since the first pass began: a second one is due.
  Second,
};

struct ScanCursor {
  ScanPass pass = ScanPass::First;
  std::uint8_t nodes_bits = 0;
  std::uint16_t node_rank = 0;
  std::uint8_t epoch_bits = 0;
  std::uint64_t node_cursor = 0;

  friend bool operator==(const ScanCursor&, const ScanCursor&) = default;
};

inline constexpr unsigned kScanNodesBits = 4;

// Errors: LimitExceeded for a node cursor above 36 bits; the caller names the node.
[[nodiscard]] slots::Result<std::uint64_t> encode_scan_cursor(const ScanCursor& cursor);
// Errors: InvalidArgument for a cursor that no proxy gave out; 0, which begins a scan, is none.
[[nodiscard]] slots::Result<ScanCursor> decode_scan_cursor(std::uint64_t value);

}  // namespace proxy::route
