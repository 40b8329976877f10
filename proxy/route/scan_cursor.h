// ScanCursor: SCAN's one cursor over all nodes. Stateless: any proxy of the cluster can go on with
// it.
//
// Layout, 62 bits, so that clients that read it as a signed number are fine (0 begins and ends a
// scan):
//   bits 60-61  version, 1
//   bits 48-59  rank of the node that is scanned, by node id: the same at every proxy, whatever the
//   order in its YAML bits 40-47  epoch of the map, its low 8 bits, at which the scan of this node
//   began bits  0-39  the node's own cursor (Redis's grow with its table: 40 bits are 10^12
//   buckets)
// A node that joins or leaves in between shifts ranks: such a scan may show keys twice, or miss
// those of a node that moved to a lower rank. The epoch bits tell that the map has changed
// meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slots/result.h"
#include "slots/slot_map.h"

namespace proxy::route {

struct ScanCursor {
  std::uint16_t node_rank = 0;
  std::uint64_t node_cursor = 0;
  std::uint8_t epoch_bits = 0;

  friend bool operator==(const ScanCursor&, const ScanCursor&) = default;
};

// Errors: LimitExceeded for a node cursor above 40 bits; the caller names the node.
[[nodiscard]] slots::Result<std::uint64_t> encode_scan_cursor(const ScanCursor& cursor);
// 0 is the start. Errors: InvalidArgument for a cursor that no proxy gave out.
[[nodiscard]] slots::Result<ScanCursor> decode_scan_cursor(std::uint64_t value);

// Node indexes in the order of their ids.
[[nodiscard]] std::vector<slots::NodeIndex> nodes_by_rank(const std::vector<std::string>& ids);

}  // namespace proxy::route
