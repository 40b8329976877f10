// Counter: a number that one thread changes and any thread reads: no lock prefix, no torn read.
#pragma once

#include <atomic>
#include <cstdint>

namespace proxy {

class Counter {
 public:
  void add(std::uint64_t count = 1) { value_.store(get() + count, std::memory_order_relaxed); }
  void set(std::uint64_t count) { value_.store(count, std::memory_order_relaxed); }
  void subtract(std::uint64_t count) { value_.store(get() - count, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace proxy
