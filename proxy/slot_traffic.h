// SlotTraffic: what one worker's requests came to, slot by slot, since its start.
//
// Thread:  the worker's adds; any thread reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/counter.h"
#include "slots/key_slot.h"
#include "slots/slot.h"
#include "slots/slot_heat.h"

namespace proxy {

class SlotTraffic {
 public:
  // A request that was answered, with the bytes of both. kNoSlot counts too, and nobody looks at
  // it: that is cheaper than to ask.
  void add(slots::SlotId slot, std::uint64_t bytes) {
    Count& count = counts_[slot];
    count.operations.add();
    count.bytes.add(bytes);
  }
  // Of a request that is counted elsewhere.
  void add_bytes(slots::SlotId slot, std::uint64_t bytes) { counts_[slot].bytes.add(bytes); }

  void add_to(slots::SlotTotals& totals) const {
    for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot) {
      totals[slot].operations += counts_[slot].operations.get();
      totals[slot].bytes += counts_[slot].bytes.get();
    }
  }

 private:
  struct Count {  // Four to a cache line.
    Counter operations;
    Counter bytes;
  };

  std::array<Count, slots::kSlotCount + 1> counts_{};
};

}  // namespace proxy
