// Registry: what the clients of this process have subscribed, all workers together, and how far
// that is in force at the nodes.
//
// It answers what a client may ask at once and exactly: how many receive what it publishes
// (PUBLISH), who has subscribed what (PUBSUB), whether a subscription is in force (SUBSCRIBE).
//
// Thread:  any. Workers write when a client subscribes or unsubscribes, the Hub when nodes have
//          confirmed; PUBLISH takes the shared side of the lock, and none at all while nobody in
//          the process subscribes anything.
// Limits:  names are held once per process; sessions bound what each client adds.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/pubsub/topic.h"

namespace proxy::pubsub {

// Topics with subscribers, of each kind.
struct TopicCounts {
  std::size_t channels = 0;
  std::size_t patterns = 0;
  std::size_t sharded = 0;
};

class Registry {
 public:
  explicit Registry(unsigned workers) : of_worker_(workers) {}

  // One more subscriber. Whether what is published from now on reaches it, at all nodes that a
  // worker with the table of this version may publish at; otherwise the Hub says when.
  [[nodiscard]] bool add(unsigned worker, Kind kind, std::string_view name,
                         std::uint64_t table_version);
  // A subscriber says that it will leave: it still takes what was published before, and counts no
  // more. `remove()` follows.
  void set_leaving(Kind kind, std::string_view name);
  // One less, which was `leaving` or not. Whether it was the last: then the Hub has to know.
  [[nodiscard]] bool remove(unsigned worker, Kind kind, std::string_view name, bool was_leaving);

  [[nodiscard]] bool is_wanted(Kind kind, std::string_view name) const;
  [[nodiscard]] std::size_t subscribers(Kind kind, std::string_view name) const;
  // Of a message to a channel: its subscribers and those of each pattern that it matches.
  [[nodiscard]] std::size_t receivers(std::string_view channel) const;
  // Topics with subscribers whose names match; in no particular order.
  [[nodiscard]] std::vector<std::string> names(Kind kind, std::string_view pattern) const;
  [[nodiscard]] TopicCounts counts() const;
  // Whether a worker's clients have subscribed anything.
  [[nodiscard]] bool has_any(unsigned worker) const {
    return of_worker_[worker].load(std::memory_order_relaxed) > 0;
  }
  [[nodiscard]] bool has_any() const { return total_.load(std::memory_order_relaxed) > 0; }

  // --- from the Hub ---
  void set_in_force(Kind kind, std::string_view name, bool is_in_force);
  // Everything in force is so at all nodes that the table of this version says are up; 0: not now.
  void set_whole(std::uint64_t table_version);
  // Nodes at which everything that is wanted is in force.
  void set_heard_nodes(std::vector<std::string> nodes);
  // Whether what is published at the node reaches everybody who has subscribed it; yes, too, while
  // nobody has subscribed anything.
  [[nodiscard]] bool hears(std::string_view node) const;

 private:
  struct Entry {
    std::size_t subscribers = 0;
    std::size_t leaving = 0;  // Of these.
    bool is_in_force = false;

    [[nodiscard]] std::size_t staying() const { return subscribers - leaving; }
  };

  mutable std::shared_mutex mutex_;
  ByTopic<Entry> entries_;
  std::uint64_t whole_at_ = 0;
  std::vector<std::string> heard_nodes_;
  std::vector<std::atomic<std::size_t>> of_worker_;
  std::atomic<std::size_t> total_{0};
};

}  // namespace proxy::pubsub
