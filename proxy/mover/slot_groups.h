// SlotGroups: which slots to fence next, so that their last copy fits the pause. Pure.
//
// Under the fence all that is dirty of a group is copied, large keys too, and all its streams, for
// consumer groups change without notice. What that takes is estimated, and the estimate corrected
// by what it took. A group whose fence had to be lifted comes back later and split in two, so that
// a slot that can't be moved in one pause ends up alone and the others go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/dirty_keys.h"
#include "proxy/mover/large_keys.h"
#include "slots/slot.h"

namespace proxy::mover {

class SlotGroups {
 public:
  SlotGroups(std::uint32_t pause_ms, std::uint32_t group_slots)
      : pause_ms_(pause_ms), group_slots_(group_slots) {}

  // --- streams that are none of the large keys, as the copies show them
  void note_stream(const DbKey& key, slots::SlotId slot, std::size_t payload_bytes);
  void note_no_stream(const DbKey& key, slots::SlotId slot);
  [[nodiscard]] std::vector<DbKey> streams_of(const slots::SlotSet& slots) const;

  // Of `open`, the slots to fence now; nothing while none is quiet enough or all had to wait.
  [[nodiscard]] std::optional<slots::SlotSet> choose(const slots::SlotSet& open,
                                                     const DirtyKeys& dirty, const LargeKeys& large,
                                                     std::uint64_t now_ms);
  // What the last copy of these takes, about.
  [[nodiscard]] double cost_ms(const slots::SlotSet& slots, const DirtyKeys& dirty,
                               const LargeKeys& large) const;
  // What its streams and large keys take of that.
  [[nodiscard]] double steady_cost_ms(slots::SlotId slot, const LargeKeys& large) const;
  [[nodiscard]] double budget_ms() const { return pause_ms_ / 2.0; }
  // It has been tried often, and its streams and large keys alone are too much for a fence.
  [[nodiscard]] bool is_hopeless(slots::SlotId slot, const LargeKeys& large) const;

  void note_copied(double estimated_ms, std::uint64_t took_ms);
  void note_payload(std::size_t keys, std::size_t bytes);
  void note_failed(const slots::SlotSet& slots, std::uint64_t now_ms);
  void note_committed(const slots::SlotSet& slots);
  // From now on every key is copied in pieces.
  void note_pieces() { ms_per_key_ = LargeKeys::kMsPerKey; }
  void forget_streams() { streams_.clear(); }
  // A dirty name stands for its key in each of so many.
  void note_databases(std::size_t count) { databases_ = static_cast<double>(count); }

  // The slot whose fence was lifted most often, and how often; for people.
  struct Worst {
    slots::SlotId slot = 0;
    unsigned failures = 0;
  };
  [[nodiscard]] Worst worst() const;

 private:
  struct Tries {
    unsigned failures = 0;
    std::uint64_t not_before_ms = 0;
  };

  [[nodiscard]] double cost_ms(slots::SlotId slot, const DirtyKeys& dirty,
                               const LargeKeys& large) const;
  [[nodiscard]] std::size_t size_after(unsigned failures) const;

  std::uint32_t pause_ms_;
  std::uint32_t group_slots_;
  std::map<slots::SlotId, std::map<DbKey, std::size_t>> streams_;  // To payload bytes.
  std::map<slots::SlotId, Tries> tries_;                           // Of slots that failed.
  double databases_ = 1;
  double ms_per_key_ = 0.05;                    // To begin with; corrected by what copies took.
  double scale_ = 1;                            // What copies took against what was estimated.
  double payload_bytes_ = 100;                  // Of a key, on average.
  std::optional<std::uint64_t> idle_since_ms_;  // choose() has found nothing since.
};

}  // namespace proxy::mover
