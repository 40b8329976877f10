#include "proxy/mover/dirty_keys.h"

namespace proxy::mover {
namespace {

// A name's share of its tree's node, roughly.
std::uint64_t memory_of(const std::string& name) { return name.size() + 80; }

}  // namespace

void DirtyKeys::add(const std::string& name, slots::SlotId slot) {
  if (!names_[slot].insert(name).second) return;
  ++size_;
  bytes_ += memory_of(name);
}

void DirtyKeys::put_back(const std::string& name, slots::SlotId slot) {
  taken_at_.erase(name);
  add(name, slot);
}

bool DirtyKeys::remove(const std::string& name, slots::SlotId slot) {
  auto of_slot = names_.find(slot);
  if (of_slot == names_.end() || of_slot->second.erase(name) == 0) return false;
  --size_;
  bytes_ -= memory_of(name);
  if (of_slot->second.empty()) names_.erase(of_slot);
  return true;
}

void DirtyKeys::remove_slots(const slots::SlotSet& slots) {
  for (auto of_slot = names_.begin(); of_slot != names_.end();) {
    if (!slots.contains(of_slot->first)) {
      ++of_slot;
      continue;
    }
    size_ -= of_slot->second.size();
    for (const std::string& name : of_slot->second) bytes_ -= memory_of(name);
    of_slot = names_.erase(of_slot);
  }
}

void DirtyKeys::clear() {
  names_.clear();
  size_ = 0;
  bytes_ = 0;
}

std::vector<std::string> DirtyKeys::take_cool(std::size_t count, std::uint64_t now_ms) {
  forget_old(now_ms);
  std::vector<std::string> taken;
  auto of_slot = names_.lower_bound(next_slot_);
  for (std::size_t left = names_.size(); left > 0 && taken.size() < count; --left) {
    if (of_slot == names_.end()) of_slot = names_.begin();
    Names& names = of_slot->second;
    for (auto name = names.begin(); name != names.end() && taken.size() < count;) {
      if (taken_at_.contains(*name)) {
        ++name;
        continue;
      }
      --size_;
      bytes_ -= memory_of(*name);
      taken.push_back(std::move(names.extract(name++).value()));
    }
    next_slot_ = static_cast<slots::SlotId>(of_slot->first + 1);
    of_slot = names.empty() ? names_.erase(of_slot) : std::next(of_slot);
  }
  for (const std::string& name : taken) {
    taken_at_[name] = now_ms;
    taken_.emplace_back(now_ms, name);
  }
  return taken;
}

std::vector<std::string> DirtyKeys::take_of(const slots::SlotSet& slots, std::size_t count) {
  std::vector<std::string> taken;
  for (auto of_slot = names_.begin(); of_slot != names_.end() && taken.size() < count;) {
    Names& names = of_slot->second;
    if (slots.contains(of_slot->first)) {
      while (!names.empty() && taken.size() < count) {
        --size_;
        bytes_ -= memory_of(*names.begin());
        taken.push_back(std::move(names.extract(names.begin()).value()));
      }
    }
    of_slot = names.empty() ? names_.erase(of_slot) : std::next(of_slot);
  }
  return taken;
}

bool DirtyKeys::has(const std::string& name, slots::SlotId slot) const {
  auto of_slot = names_.find(slot);
  return of_slot != names_.end() && of_slot->second.contains(name);
}

std::size_t DirtyKeys::size_of(slots::SlotId slot) const {
  auto of_slot = names_.find(slot);
  return of_slot == names_.end() ? 0 : of_slot->second.size();
}

std::size_t DirtyKeys::size_of(const slots::SlotSet& slots) const {
  std::size_t size = 0;
  for (const auto& [slot, names] : names_) {
    if (slots.contains(slot)) size += names.size();
  }
  return size;
}

void DirtyKeys::forget_old(std::uint64_t now_ms) {
  while (!taken_.empty() && taken_.front().first + kHotMs <= now_ms) {
    auto at = taken_at_.find(taken_.front().second);
    if (at != taken_at_.end() && at->second == taken_.front().first) taken_at_.erase(at);
    taken_.pop_front();
  }
}

}  // namespace proxy::mover
