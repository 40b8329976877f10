// Slots, slot ranges and sets of slots, with their text form "0-5460,7000" both ways.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slots/result.h"

namespace slots {

using SlotId = std::uint16_t;                     // 0 .. kSlotCount - 1
inline constexpr std::size_t kSlotCount = 16384;  // Fixed by Redis Cluster's specification.

struct SlotRange {
  SlotId first = 0;
  SlotId last = 0;  // Inclusive; first <= last.

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(last - first) + 1; }
  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// "0-5460" or "7000". Errors: InvalidArgument, naming the text and what is wrong with it.
[[nodiscard]] Result<SlotRange> parse_slot_range(std::string_view text);
[[nodiscard]] std::string to_string(const SlotRange& range);

// A set of slots. Copies are 2 KB; iteration is in slot order.
class SlotSet {
 public:
  SlotSet() = default;
  explicit SlotSet(const SlotRange& range) { add(range); }

  void add(SlotId slot) { bits_.set(slot); }
  void add(const SlotRange& range);
  void add(const SlotSet& other) { bits_ |= other.bits_; }
  void remove(SlotId slot) { bits_.reset(slot); }
  [[nodiscard]] bool contains(SlotId slot) const { return bits_.test(slot); }
  [[nodiscard]] bool intersects(const SlotSet& other) const { return (bits_ & other.bits_).any(); }
  [[nodiscard]] std::size_t size() const { return bits_.count(); }
  [[nodiscard]] bool empty() const { return bits_.none(); }
  [[nodiscard]] std::vector<SlotRange> ranges() const;  // Maximal ranges, ascending.

  friend bool operator==(const SlotSet&, const SlotSet&) = default;

 private:
  std::bitset<kSlotCount> bits_;
};

// Ranges and single slots parted by commas, blanks around them allowed; "" is the empty set. A slot
// named twice is an error: it is a slip of the pen far more often than an intention.
[[nodiscard]] Result<SlotSet> parse_slot_set(std::string_view text);
[[nodiscard]] std::string to_string(const SlotSet& set);  // "" for the empty set.

}  // namespace slots
