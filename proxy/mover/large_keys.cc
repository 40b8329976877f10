#include "proxy/mover/large_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "conf/words.h"

namespace proxy::mover {
namespace {

constexpr std::uint64_t kAgainMs = 1000;       // After the first vain try; doubled each time,
constexpr std::uint64_t kAgainMsMax = 30'000;  // up to this.
constexpr unsigned kTriesTold = 2;             // In vain; then people are told.

// Under a fence; corrected by what copies took (SlotGroups).
constexpr double kMsPerByte = 2e-5;
constexpr double kMsPerPending = 0.005;

std::uint64_t wait_after(unsigned times) {
  return std::min(kAgainMs << std::min(times - 1, 5U), kAgainMsMax);
}

}  // namespace

LargeKeys::Key& LargeKeys::note(const DbKey& key, slots::SlotId slot, std::uint64_t bytes) {
  Key& noted = keys_[slot][key];
  noted.key = key;
  noted.slot = slot;
  noted.bytes = bytes;
  noted.is_copied = false;
  return noted;
}

bool LargeKeys::note_changed(const std::string& name, slots::SlotId slot, std::uint64_t now_ms) {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return false;
  bool is_any = false;
  for (auto found = of_slot->second.lower_bound({name, 0});
       found != of_slot->second.end() && found->first.name == name; ++found) {
    Key& key = found->second;
    if (key.is_copied) key.not_before_ms = now_ms + wait_after(std::max(key.copies, 1U));
    key.is_copied = false;
    key.has_changed = true;
    is_any = true;
  }
  return is_any;
}

void LargeKeys::note_vain_try(Key& key, std::uint64_t now_ms, const std::string& why) {
  ++key.tries;
  key.not_before_ms = now_ms + wait_after(key.tries);
  key.why = why;
}

LargeKeys::Key* LargeKeys::find(const DbKey& key, slots::SlotId slot) {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return nullptr;
  auto found = of_slot->second.find(key);
  return found == of_slot->second.end() ? nullptr : &found->second;
}

bool LargeKeys::has(const DbKey& key, slots::SlotId slot) const {
  auto of_slot = keys_.find(slot);
  return of_slot != keys_.end() && of_slot->second.contains(key);
}

void LargeKeys::forget(const DbKey& key, slots::SlotId slot) {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return;
  of_slot->second.erase(key);
  if (of_slot->second.empty()) keys_.erase(of_slot);
}

void LargeKeys::remove_slots(const slots::SlotSet& slots) {
  std::erase_if(keys_, [&](const auto& of_slot) { return slots.contains(of_slot.first); });
}

// Small ones first: they make slots ready soon.
LargeKeys::Key* LargeKeys::next(std::uint64_t now_ms) {
  Key* best = nullptr;
  for (auto& [slot, keys] : keys_) {
    for (auto& [name, key] : keys) {
      if (key.is_copied && !key.must_renew) continue;
      if (is_given_up(key) || key.not_before_ms > now_ms) continue;
      if (best == nullptr || key.tries < best->tries ||
          (key.tries == best->tries && key.bytes < best->bytes)) {
        best = &key;
      }
    }
  }
  return best;
}

LargeKeys::Key* LargeKeys::next_of(const slots::SlotSet& slots) {
  for (auto& [slot, keys] : keys_) {
    if (!slots.contains(slot)) continue;
    for (auto& [name, key] : keys) {
      if (!key.is_copied) return &key;
    }
  }
  return nullptr;
}

std::vector<DbKey> LargeKeys::streams_of(const slots::SlotSet& slots) const {
  std::vector<DbKey> streams;
  for (const auto& [slot, keys] : keys_) {
    if (!slots.contains(slot)) continue;
    for (const auto& [name, key] : keys) {
      if (key.is_stream()) streams.push_back(name);
    }
  }
  return streams;
}

double LargeKeys::cost_ms(slots::SlotId slot) const {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return 0;
  double cost = 0;
  for (const auto& [name, key] : of_slot->second) cost += cost_ms(key);
  return cost;
}

double LargeKeys::cost_ms(const Key& key) {
  if (!key.is_copied) {
    return kMsPerKey + static_cast<double>(key.bytes) * kMsPerByte +
           static_cast<double>(key.pending) * kMsPerPending;
  }
  if (!key.is_stream()) return 0;
  return kMsPerKey + (key.must_renew ? static_cast<double>(key.pending) * kMsPerPending : 0);
}

std::uint64_t LargeKeys::pending_for(double budget_ms) {
  return static_cast<std::uint64_t>(std::max(budget_ms, 1.0) / kMsPerPending);
}

bool LargeKeys::is_open(slots::SlotId slot) const {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return false;
  return std::any_of(of_slot->second.begin(), of_slot->second.end(),
                     [](const auto& item) { return !item.second.is_copied; });
}

slots::SlotSet LargeKeys::open_slots() const {
  slots::SlotSet slots;
  for (const auto& [slot, keys] : keys_) {
    if (is_open(slot)) slots.add(slot);
  }
  return slots;
}

const LargeKeys::Key* LargeKeys::given_up(slots::SlotId slot) const {
  auto of_slot = keys_.find(slot);
  if (of_slot == keys_.end()) return nullptr;
  for (const auto& [name, key] : of_slot->second) {
    if ((!key.is_copied || key.must_renew) && is_given_up(key)) return &key;
  }
  return nullptr;
}

const LargeKeys::Key* LargeKeys::restless() const {
  const Key* found = nullptr;
  for (const auto& [slot, keys] : keys_) {
    for (const auto& [name, key] : keys) {
      if (key.is_copied && !key.must_renew) continue;
      if (key.tries < kTriesTold || (found != nullptr && key.tries <= found->tries)) continue;
      found = &key;
    }
  }
  return found;
}

bool LargeKeys::is_given_up(const Key& key) {
  return key.tries >= kTriesMax || key.copies >= kCopiesMax;
}

std::string words_of(const LargeKeys::Key& key) {
  return fmt::format("key {} ({}{}{}) of slot {}", conf::in_quotes(key.key.name),
                     key.key.database == 0 ? "" : fmt::format("database {}, ", key.key.database),
                     key.type.empty() ? "" : key.type + ", ", megabytes(key.bytes), key.slot);
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace proxy::mover
