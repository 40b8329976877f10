// DirtyKeys: names of keys whose copies may be wrong, by slot. Pure.
//
// A key that changes all the time would be copied all the time: take_cool() leaves a name that it
// gave out less than kHotMs ago for later.
//
// Limits: as much memory as there are names; bytes() says how much, and who adds keeps a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "slots/slot.h"

namespace proxy::mover {

class DirtyKeys {
 public:
  static constexpr std::uint64_t kHotMs = 1000;

  void add(const std::string& name, slots::SlotId slot);
  // Taken, but not copied after all: it counts as never taken.
  void put_back(const std::string& name, slots::SlotId slot);
  bool remove(const std::string& name, slots::SlotId slot);  // Whether it was in here.
  void remove_slots(const slots::SlotSet& slots);
  void clear();

  // Up to `count` names, from other slots than the last time, and no longer in here.
  [[nodiscard]] std::vector<std::string> take_cool(std::size_t count, std::uint64_t now_ms);
  // Up to `count` names of these slots, hot or not.
  [[nodiscard]] std::vector<std::string> take_of(const slots::SlotSet& slots, std::size_t count);

  [[nodiscard]] bool has(const std::string& name, slots::SlotId slot) const;
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t size_of(slots::SlotId slot) const;
  [[nodiscard]] std::size_t size_of(const slots::SlotSet& slots) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  using Names = std::set<std::string, std::less<>>;

  void forget_old(std::uint64_t now_ms);

  std::map<slots::SlotId, Names> names_;  // No empty ones.
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;
  slots::SlotId next_slot_ = 0;                              // Where take_cool() goes on.
  std::unordered_map<std::string, std::uint64_t> taken_at_;  // By take_cool(), within kHotMs.
  std::deque<std::pair<std::uint64_t, std::string>> taken_;  // The same, oldest first.
};

}  // namespace proxy::mover
