// What slots do: how many operations and bytes go to each. SlotHistory remembers counts that only
// grow, and makes rates of their differences. Pure: the caller says what time it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "slots/leveling.h"
#include "slots/slot.h"

namespace slots {

struct SlotTotal {
  std::uint64_t operations = 0;  // Requests, reads and writes alike, that a node has answered.
  std::uint64_t bytes = 0;       // Of them and their replies.
};
using SlotTotals = std::vector<SlotTotal>;  // By slot, since some beginning.

struct SlotRate {
  double operations = 0;  // Per second.
  double bytes = 0;
};

// Means over the last ten to twenty seconds (what is going on) and over the last minute or little
// more (what plans are made from); over all the time there was, while that is less.
class SlotRates {
 public:
  enum class Over : std::uint8_t { TenSeconds, Minute };

  [[nodiscard]] const SlotRate& of(SlotId slot, Over span) const { return rates(span)[slot]; }
  [[nodiscard]] SlotLoads operations(Over span) const;
  // The slots with most operations (or bytes) a second, those without any left out; of equals the
  // lower slot first.
  [[nodiscard]] std::vector<SlotId> hottest(double SlotRate::* measure, Over span,
                                            std::size_t count) const;

 private:
  friend class SlotHistory;
  [[nodiscard]] const std::vector<SlotRate>& rates(Over span) const {
    return rates_[static_cast<std::size_t>(span)];
  }

  std::array<std::vector<SlotRate>, 2> rates_{std::vector<SlotRate>(kSlotCount),
                                              std::vector<SlotRate>(kSlotCount)};  // By Over.
};

class SlotHistory {
 public:
  // Seconds between two marks.
  static constexpr double kInterval = 10;

  // All counts are 0 at `now`, in seconds on any clock.
  explicit SlotHistory(double now) { mark(SlotTotals(kSlotCount), now); }

  [[nodiscard]] bool is_due(double now) const { return now - marks_.back().at >= kInterval; }
  // Remembers these totals: each kInterval.
  void mark(SlotTotals totals, double now);
  [[nodiscard]] SlotRates rates(const SlotTotals& totals, double now) const;

 private:
  struct Mark {
    double at = 0;
    SlotTotals totals;
  };

  // The latest that is so many seconds old, or else the oldest.
  [[nodiscard]] const Mark& before(double seconds, double now) const;

  std::deque<Mark> marks_;  // The oldest first.
};

}  // namespace slots
