#include "proxy/route/scan_place.h"

#include <algorithm>
#include <numeric>

namespace proxy::route {

namespace {

// FNV-1a, folded: no more than a sign that other nodes are meant.
std::uint8_t nodes_bits_of(const std::vector<std::string_view>& ids,
                           const std::vector<slots::NodeIndex>& by_rank) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (slots::NodeIndex node : by_rank) {
    for (char c : ids[node]) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return static_cast<std::uint8_t>(hash >> (64 - kScanNodesBits));
}

bool owns_slots(const slots::SlotMap& map, slots::NodeIndex node) {
  return std::find(map.owners().begin(), map.owners().end(), node) != map.owners().end();
}

}  // namespace

std::vector<slots::NodeIndex> nodes_by_rank(const std::vector<std::string_view>& ids) {
  std::vector<slots::NodeIndex> order(ids.size());
  std::iota(order.begin(), order.end(), slots::NodeIndex{0});
  std::sort(order.begin(), order.end(),
            [&](slots::NodeIndex a, slots::NodeIndex b) { return ids[a] < ids[b]; });
  return order;
}

slots::Result<ScanPlace> ScanPlace::find(std::uint64_t cursor, const slots::SlotMap& map,
                                         const std::vector<std::string_view>& ids) {
  ScanPlace place;
  place.by_rank_ = nodes_by_rank(ids);
  ScanCursor begin;
  begin.nodes_bits = nodes_bits_of(ids, place.by_rank_);
  begin.epoch_bits = static_cast<std::uint8_t>(map.epoch());
  place.cursor_ = begin;
  if (cursor != 0) {
    auto decoded = decode_scan_cursor(cursor);
    if (!decoded) return std::unexpected(decoded.error());
    if (decoded->nodes_bits == begin.nodes_bits && decoded->node_rank < ids.size()) {
      place.cursor_ = *decoded;
      if (decoded->epoch_bits != begin.epoch_bits && decoded->pass == ScanPass::First)
        place.cursor_.pass = ScanPass::FirstChanged;
      place.cursor_.epoch_bits = begin.epoch_bits;
    }
  }
  place.seek_owner(map);
  return place;
}

slots::Result<std::uint64_t> ScanPlace::next(std::uint64_t node_cursor, const slots::SlotMap& map) {
  cursor_.node_cursor = node_cursor;
  if (node_cursor == 0) {
    ++cursor_.node_rank;
    seek_owner(map);
    if (is_over()) return std::uint64_t{0};
  }
  return encode_scan_cursor(cursor_);
}

// Goes on to the next node that owns slots, from the rank of now, and into the second pass if one
// is due.
void ScanPlace::seek_owner(const slots::SlotMap& map) {
  for (;;) {
    for (; !is_over(); ++cursor_.node_rank, cursor_.node_cursor = 0) {
      if (owns_slots(map, node())) return;
    }
    if (cursor_.pass != ScanPass::FirstChanged) return;
    cursor_.pass = ScanPass::Second;
    cursor_.node_rank = 0;
  }
}

}  // namespace proxy::route
