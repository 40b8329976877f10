// Pacer: holds what all movers together exchange with one node to a limit in bytes per second.
//
// A token bucket with debt. Whoever wants to move bytes asks first with an estimate, and settles
// afterwards with what it was. Whatever has been moved without asking (notices of a feed, the last
// copy inside a fence) counts as debt: those who ask next wait for it.
//
// Limits:  bytes in any window of w seconds <= limit * w + burst(), if the estimates were right and
//          no step was larger than chunk(). burst() holds one such step.
// Thread:  any. Time is passed in: microseconds of a clock that never goes back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace proxy::mover {

class Pacer {
 public:
  static constexpr std::uint64_t kUnlimited = 0;

  explicit Pacer(std::uint64_t bytes_per_second = kUnlimited) : limit_(bytes_per_second) {}

  // Counts from now on; debt made before stays.
  void set_limit(std::uint64_t bytes_per_second, std::uint64_t now_us);
  [[nodiscard]] std::uint64_t limit() const;

  // 0: the bytes may be moved, and are counted. Else nothing is counted, and asking again makes
  // sense after so many microseconds.
  [[nodiscard]] std::uint64_t ask(std::uint64_t bytes, std::uint64_t now_us);
  // More (or fewer, below 0) bytes than asked for were moved.
  void settle(std::int64_t bytes, std::uint64_t now_us);

  // What one step should move at most: half of the burst, so that steps can follow each other while
  // the bucket neither runs over nor is in debt.
  [[nodiscard]] std::uint64_t chunk() const;
  // The larger of 64 KiB and what the limit allows in 50 ms.
  [[nodiscard]] std::uint64_t burst() const;

 private:
  [[nodiscard]] double capacity() const;
  void accrue(std::uint64_t now_us);

  mutable std::mutex mutex_;
  std::uint64_t limit_;
  double balance_ = 0;  // Bytes; below 0: debt.
  std::uint64_t counted_until_us_ = 0;
};

// One Pacer per node, shared by all movers that have to do with it.
class Pacers {
 public:
  [[nodiscard]] std::shared_ptr<Pacer> of(const std::string& node);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Pacer>> pacers_;
};

}  // namespace proxy::mover
