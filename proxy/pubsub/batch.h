// Batch: messages as a node has sent them, from the Hub to the workers; the bytes are held once for
// all of them, and stay as they are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/pubsub/topic.h"

namespace proxy::pubsub {

class Batch {
 public:
  // `under_way`: bytes of all batches that somebody still holds.
  explicit Batch(std::shared_ptr<std::atomic<std::size_t>> under_way)
      : under_way_(std::move(under_way)) {}
  ~Batch() { under_way_->fetch_sub(bytes_.size(), std::memory_order_relaxed); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // `message`: whole, in RESP2; `name`, a part of it, is what was subscribed: of a pmessage the
  // pattern.
  void add(Kind kind, std::string_view name, std::string_view message) {
    under_way_->fetch_add(message.size(), std::memory_order_relaxed);
    messages_.push_back({kind, bytes_.size(), message.size(),
                         static_cast<std::size_t>(name.data() - message.data()), name.size()});
    bytes_.append(message);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return messages_.empty(); }

  // Calls visit(kind, name, message) for each.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Place& place : messages_) {
      std::string_view message = std::string_view(bytes_).substr(place.begin, place.size);
      visit(place.kind, message.substr(place.name_begin, place.name_size), message);
    }
  }

 private:
  struct Place {
    Kind kind;
    std::size_t begin;
    std::size_t size;
    std::size_t name_begin;  // In the message.
    std::size_t name_size;
  };

  std::shared_ptr<std::atomic<std::size_t>> under_way_;
  std::string bytes_;
  std::vector<Place> messages_;
};

}  // namespace proxy::pubsub
