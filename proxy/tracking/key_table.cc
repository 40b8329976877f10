#include "proxy/tracking/key_table.h"

#include <utility>

namespace proxy::tracking {

void KeyTable::add(std::string_view key, Reader reader) {
  auto found = keys_.find(key);
  if (found == keys_.end()) {
    found = keys_.emplace(key, Entry{}).first;
    Entry& entry = found->second;
    entry.key = found->first;
    entry.number = ++last_number_;
    entry.older = newest_;
    (newest_ == nullptr ? oldest_ : newest_->newer) = &entry;
    newest_ = &entry;
    weight_ += weight_of(entry);
  }
  Entry& entry = found->second;
  auto place = std::ranges::lower_bound(entry.readers, reader);
  if (place != entry.readers.end() && *place == reader) return;
  weight_ -= weight_of(entry);
  entry.readers.insert(place, reader);
  weight_ += weight_of(entry);
  ++readers_;
}

void KeyTable::unlink(Entry& entry) {
  (entry.older == nullptr ? oldest_ : entry.older->newer) = entry.newer;
  (entry.newer == nullptr ? newest_ : entry.newer->older) = entry.older;
}

KeyTable::Oldest KeyTable::pop_oldest() {
  Entry& entry = *oldest_;
  Oldest oldest{std::string(entry.key), std::move(entry.readers)};
  weight_ -= 1 + entry.key.size() / kBytesPerUnit + oldest.readers.size() / kReadersPerUnit;
  readers_ -= oldest.readers.size();
  unlink(entry);
  keys_.erase(oldest.key);
  return oldest;
}

void KeyTable::clear() {
  keys_.clear();
  oldest_ = newest_ = nullptr;
  readers_ = weight_ = 0;
}

}  // namespace proxy::tracking
