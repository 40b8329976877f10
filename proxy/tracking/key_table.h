// KeyTable: which clients have read which keys, so that each can be told when one changes.
//
// Pure. A key is told of once: whoever wants to hear of it again has to read it again.
//
// Thread:  one worker's.
// Limits:  the caller's: weight() grows with keys, their length and their readers; pop_oldest()
//          makes room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace proxy::tracking {

class KeyTable {
 public:
  using Reader = std::uint64_t;  // A client's id.

  // A key counts as one, and once more for each so many bytes of it, and for each so many readers.
  static constexpr std::size_t kBytesPerUnit = 256;
  static constexpr std::size_t kReadersPerUnit = 16;

  KeyTable() = default;
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  void add(std::string_view key, Reader reader);

  // Calls stays(reader) for each reader of the key; those for whom it says no are taken out. It
  // may not change the table.
  template <class Stays>
  void visit(std::string_view key, Stays stays) {
    auto found = keys_.find(key);
    if (found == keys_.end()) return;
    Entry& entry = found->second;
    const std::size_t before = weight_of(entry);
    readers_ -= std::erase_if(entry.readers, [&](Reader reader) { return !stays(reader); });
    weight_ -= before;
    if (entry.readers.empty()) {
      unlink(entry);
      keys_.erase(found);
    } else {
      weight_ += weight_of(entry);
    }
  }

  // When the key came into the table, as a number that grows; 0: it is not in it.
  [[nodiscard]] std::uint64_t number_of(std::string_view key) const {
    auto found = keys_.find(key);
    return found == keys_.end() ? 0 : found->second.number;
  }

  struct Oldest {
    std::string key;
    std::vector<Reader> readers;
  };
  // Takes out the key that has been in it for longest. Requires that it is not empty.
  [[nodiscard]] Oldest pop_oldest();
  void clear();

  [[nodiscard]] bool empty() const { return keys_.empty(); }
  [[nodiscard]] std::size_t keys() const { return keys_.size(); }
  [[nodiscard]] std::size_t readers() const { return readers_; }  // Of all keys.
  [[nodiscard]] std::size_t weight() const { return weight_; }

 private:
  struct Hash {
    // The standard library's name for it. NOLINTNEXTLINE(readability-identifier-naming)
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>{}(key);
    }
  };
  struct Entry {
    std::string_view key;  // The map's own.
    std::vector<Reader> readers;
    std::uint64_t number = 0;  // Grows: the order of coming.
    Entry* older = nullptr;
    Entry* newer = nullptr;
  };

  [[nodiscard]] static std::size_t weight_of(const Entry& entry) {
    return 1 + entry.key.size() / kBytesPerUnit + entry.readers.size() / kReadersPerUnit;
  }
  void unlink(Entry& entry);

  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> keys_;
  Entry* oldest_ = nullptr;
  Entry* newest_ = nullptr;
  std::size_t readers_ = 0;
  std::size_t weight_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace proxy::tracking
