#include "slots/slot_census.h"

#include <algorithm>
#include <numeric>

namespace slots {

std::vector<SlotId> SlotCensus::largest(std::size_t count) const {
  std::vector<SlotId> found;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    const auto id = static_cast<SlotId>(slot);
    if (counted.contains(id) && keys[slot] > 0) found.push_back(id);
  }
  std::ranges::stable_sort(found, [this](SlotId a, SlotId b) { return keys[a] > keys[b]; });
  if (found.size() > count) found.resize(count);
  return found;
}

bool SlotTally::add_key(SlotId slot) {
  if (!owned_.contains(slot)) return false;
  ++keys_[slot];
  ++all_keys_;
  return true;
}

void SlotTally::add_size(SlotId slot, double bytes) {
  ++sized_keys_[slot];
  sized_bytes_[slot] += bytes;
}

void SlotTally::add_to(SlotCensus& census, bool is_whole, double all_keys,
                       double bytes_per_key) const {
  const double sized_keys = std::accumulate(sized_keys_.begin(), sized_keys_.end(), 0.0);
  const double sized_bytes = std::accumulate(sized_bytes_.begin(), sized_bytes_.end(), 0.0);
  const double mean = sized_keys > 0 ? sized_bytes / sized_keys : bytes_per_key;
  const double scale = is_whole || all_keys_ == 0 ? 1 : std::max(1.0, all_keys / all_keys_);
  for (const SlotRange& range : owned_.ranges()) {
    for (std::size_t slot = range.first; slot <= range.last; ++slot) {
      const double size = sized_keys_[slot] > 0 ? sized_bytes_[slot] / sized_keys_[slot] : mean;
      census.keys[slot] = keys_[slot] * scale;
      census.bytes[slot] = census.keys[slot] * size;
    }
  }
  census.counted.add(owned_);
  census.is_exact = census.is_exact && is_whole;
}

}  // namespace slots
