// Refusals: whether nodes have refused commands lately for what they are, not for what the command
// is (out of memory, a full disk, too few replicas, a script that does not end), or may do so now
// because clients have changed their configuration.
//
// Redis says such a thing when a command is queued in a transaction. The proxy queues by itself,
// and asks the node only while it has to expect one.
//
// Thread:  any. One for all workers: the client that meets the refusal, and the one that queues,
//          may be of different ones.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace proxy::backend {

class Refusals {
 public:
  // Longer than an operator or a script that tries again takes to come back.
  static constexpr std::uint64_t kMemoryMs = 10'000;

  void note(std::uint64_t now_ms) { last_ms_.store(now_ms, std::memory_order_relaxed); }
  [[nodiscard]] bool are_expected(std::uint64_t now_ms) const {
    const std::uint64_t last_ms = last_ms_.load(std::memory_order_relaxed);
    return last_ms != 0 && now_ms < last_ms + kMemoryMs;
  }

 private:
  std::atomic<std::uint64_t> last_ms_{0};  // On the loops' clock, which all of them share.
};

// Whether an error reply says such a thing, and with which words Redis begins it.
[[nodiscard]] inline bool is_refusal(std::string_view reply) {
  static constexpr std::array<std::string_view, 7> kWords{
      "-OOM ", "-MISCONF ", "-NOREPLICAS ", "-READONLY ", "-BUSY ", "-LOADING ", "-MASTERDOWN "};
  for (std::string_view word : kWords) {
    if (reply.starts_with(word)) return true;
  }
  return false;
}

}  // namespace proxy::backend
