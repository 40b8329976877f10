// ScanPlace: where in a scan over all nodes a call of SCAN is, under the map of now.
//
// A scan is a pass over the nodes, in the order of their ids. Slots that move meanwhile could be
// missed: when they go from a node still to come to one that was passed, or that is being scanned.
// So that no key is missed which is there from the scan's beginning to its end:
//   - A pass during which the map stays as it is meets every such key, and ends the scan.
//   - When the map changes during the first pass, that pass goes on to its end and a second one
//     follows, which ends the scan. What moved during the first is met in the second, what moves
//     during the second was met in the first. Keys are shown twice then, as SCAN may.
//   - When nodes have joined or left, ranks mean other nodes: the scan begins anew.
// More passes would be no better for a client: a scan must end while a plan moves slots for hours.
// The price: a slot that moves in both passes, each time backwards in the order of nodes, may be
// missed. No plan moves a slot twice.
//
// Pure. The cursor carries all that is to be known, so each call may go through another proxy.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/route/scan_cursor.h"
#include "slots/slot_map.h"

namespace proxy::route {

class ScanPlace {
 public:
  // `cursor`: the client's, 0 to begin. `ids`: of the map's nodes, in the map's order.
  // Errors: InvalidArgument for a cursor that no proxy gave out.
  [[nodiscard]] static slots::Result<ScanPlace> find(std::uint64_t cursor,
                                                     const slots::SlotMap& map,
                                                     const std::vector<std::string_view>& ids);

  // Nothing is left to ask: the nodes that were still to come own no slots any more.
  [[nodiscard]] bool is_over() const { return cursor_.node_rank >= by_rank_.size(); }
  // What to ask, and whom. A node that owns no slots is never asked.
  [[nodiscard]] slots::NodeIndex node() const { return by_rank_[cursor_.node_rank]; }
  [[nodiscard]] std::uint64_t node_cursor() const { return cursor_.node_cursor; }

  // The client's next cursor once the node has answered with this one; 0: the scan is over. `map`
  // is that of find(). Errors: LimitExceeded, see encode_scan_cursor().
  [[nodiscard]] slots::Result<std::uint64_t> next(std::uint64_t node_cursor,
                                                  const slots::SlotMap& map);

 private:
  void seek_owner(const slots::SlotMap& map);

  std::vector<slots::NodeIndex> by_rank_;
  ScanCursor cursor_;
};

// Node indexes in the order of their ids.
[[nodiscard]] std::vector<slots::NodeIndex> nodes_by_rank(const std::vector<std::string_view>& ids);

}  // namespace proxy::route
