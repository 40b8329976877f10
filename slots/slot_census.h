// SlotCensus: how many keys, and how many bytes, slots hold, as they were counted. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "slots/leveling.h"
#include "slots/slot.h"

namespace slots {

struct SlotCensus {
  SlotLoads keys{};
  SlotLoads bytes{};     // As the servers account for them; estimated from a part of the keys.
  SlotSet counted;       // The slots whose owners could be asked; of the others nothing is known.
  bool is_exact = true;  // Every key was seen; false: estimated from those that were.

  // Of the counted ones, those with most keys first; of equals the lower slot first.
  [[nodiscard]] std::vector<SlotId> largest(std::size_t count) const;
};

// Counts the keys of one node, seen one by one, and the sizes of some of them.
class SlotTally {
 public:
  explicit SlotTally(const SlotSet& owned) : owned_(owned) {}

  // False: it is no key of a slot that the node owns.
  bool add_key(SlotId slot);
  void add_size(SlotId slot, double bytes);
  [[nodiscard]] double keys() const { return all_keys_; }
  // Adds what this comes to. `all_keys`: that the node has, seen or not; `bytes_per_key`: of slots
  // of which no key was measured while none of the node's was.
  void add_to(SlotCensus& census, bool is_whole, double all_keys, double bytes_per_key) const;

 private:
  SlotSet owned_;
  SlotLoads keys_{};
  SlotLoads sized_keys_{};
  SlotLoads sized_bytes_{};
  double all_keys_ = 0;
};

}  // namespace slots
