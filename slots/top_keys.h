// TopKeys: the keys that come most often, in bounded memory, of a stream of any length.
//
// The "space saving" sketch (Metwally, Agrawal, El Abbadi, 2005): it keeps kKept keys with counts;
// a key that is not among them takes the place of the one with the smallest count, and inherits
// that count as its possible error. A key with more than 1/kKept of all is always among them.
// Of a fast stream only a part is looked at, drawn at random; each then stands for as many as were
// passed over.
//
// Pure: no clock, no I/O. Not for several threads; each thread has its own, and they are merged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "slots/slot.h"

namespace slots {

class TopKeys {
 public:
  static constexpr std::size_t kKept = 512;
  static constexpr std::size_t kKeyBytesMax = 256;  // Of a longer key, so much is remembered.

  struct Key {
    std::string name;
    bool is_cut = false;  // `name` is only its beginning.
    SlotId slot = 0;
    std::uint64_t count = 0;  // Estimated; at most `error` too many.
    std::uint64_t error = 0;

    friend bool operator==(const Key&, const Key&) = default;
  };

  explicit TopKeys(std::uint64_t seed) : random_(seed | 1) { keys_.reserve(kKept); }

  // True: this one is to be given to add(). Called once for each of the stream.
  bool is_drawn() {
    if (--passed_over_ > 0) [[likely]]
      return false;
    passed_over_ = next_gap();
    return true;
  }
  void add(std::string_view key, SlotId slot) { count(key, false, slot, every_, 0); }
  // A tenth of a second or so has passed: looks at fewer when there were many, at more when few.
  void pace();

  void merge(const TopKeys& other);
  // All that were given or passed over.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  // Whether some were passed over, so that all counts are estimates.
  [[nodiscard]] bool is_sampled() const { return was_sampled_; }
  // The most frequent first; of equals the one that sorts first.
  [[nodiscard]] std::vector<Key> top(std::size_t count) const;

 private:
  static constexpr std::uint64_t kDrawnPerPace = 2000;

  std::uint64_t next_gap();
  void count(std::string_view key, bool is_cut, SlotId slot, std::uint64_t times,
             std::uint64_t error);
  std::size_t place_of_new();

  std::vector<Key> keys_;
  std::unordered_map<std::uint64_t, std::size_t> places_;  // By the key's hash.
  std::vector<std::uint64_t> hashes_;                      // Beside keys_.
  std::uint64_t total_ = 0;
  std::uint64_t drawn_ = 0;  // Since the last pace().
  std::uint64_t every_ = 1;  // One in so many is drawn.
  std::uint64_t passed_over_ = 1;
  std::uint64_t random_;
  bool was_sampled_ = false;
};

}  // namespace slots
