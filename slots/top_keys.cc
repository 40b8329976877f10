#include "slots/top_keys.h"

#include <algorithm>
#include <functional>

namespace slots {

namespace {

constexpr std::uint64_t kEveryMax = 1U << 16;

}  // namespace

// Evenly between 1 and twice the mean: a fixed gap could fall in step with a client's pattern.
std::uint64_t TopKeys::next_gap() {
  if (every_ == 1) return 1;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return 1 + random_ % (2 * every_ - 1);
}

void TopKeys::pace() {
  if (drawn_ > kDrawnPerPace && every_ < kEveryMax) {
    every_ *= 2;
    was_sampled_ = true;
  } else if (drawn_ < kDrawnPerPace / 4 && every_ > 1) {
    every_ /= 2;
  }
  passed_over_ = std::min(passed_over_, 2 * every_);
  drawn_ = 0;
}

void TopKeys::count(std::string_view key, bool is_cut, SlotId slot, std::uint64_t times,
                    std::uint64_t error) {
  ++drawn_;
  total_ += times;
  const std::uint64_t hash = std::hash<std::string_view>{}(key);
  std::size_t place = 0;
  if (const auto known = places_.find(hash); known != places_.end()) {
    place = known->second;
  } else {
    place = place_of_new();
    places_[hash] = place;
    hashes_[place] = hash;
    keys_[place].name = key.substr(0, kKeyBytesMax);
    keys_[place].is_cut = is_cut || key.size() > kKeyBytesMax;
    keys_[place].slot = slot;
    keys_[place].error = keys_[place].count;
  }
  keys_[place].count += times;
  keys_[place].error += error;
}

// An empty one, or that of the key with the smallest count, whose count stays.
std::size_t TopKeys::place_of_new() {
  if (keys_.size() < kKept) {
    keys_.emplace_back();
    hashes_.push_back(0);
    return keys_.size() - 1;
  }
  const auto smallest = std::ranges::min_element(keys_, {}, &Key::count);
  const auto place = static_cast<std::size_t>(smallest - keys_.begin());
  places_.erase(hashes_[place]);
  return place;
}

void TopKeys::merge(const TopKeys& other) {
  std::uint64_t counted = 0;
  // The frequent ones first: what comes last may push another out.
  for (const Key& key : other.top(kKept)) {
    count(key.name, key.is_cut, key.slot, key.count, key.error);
    counted += key.count;
  }
  // Space saving hands counts down, so that all together they are the total.
  total_ += other.total_ - std::min(counted, other.total_);
  was_sampled_ = was_sampled_ || other.was_sampled_;
}

std::vector<TopKeys::Key> TopKeys::top(std::size_t count) const {
  std::vector<Key> sorted = keys_;
  std::ranges::sort(sorted, [](const Key& a, const Key& b) {
    return a.count != b.count ? a.count > b.count : a.name < b.name;
  });
  if (sorted.size() > count) sorted.resize(count);
  return sorted;
}

}  // namespace slots
