// Pacer: holds what all movers together do with one node to two limits: bytes per second, and a
// share of the node's time.
//
// The first is a token bucket with debt. Whoever wants to move bytes asks first with an estimate,
// and settles afterwards with what it was. Whatever has been moved without asking (notices of a
// feed, the last copy inside a fence) counts as debt: those who ask next wait for it.
//
// The second is for the node's clients: a server does one thing at a time, so a step makes all
// others wait. After each step the node has rest, so long that steps take no more than their share
// of the time. Whoever keeps to it makes small steps, too: is_gentle().
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
  static constexpr unsigned kWhole = 100;  // Percent.

  struct Limits {
    std::uint64_t bytes_per_second = kUnlimited;
    unsigned node_share = kWhole;  // Percent; means nothing without a limit on bytes.
  };

  Pacer() = default;
  explicit Pacer(Limits limits) : limits_(limits) {}

  // Counts from now on; debt made before stays.
  void set_limits(Limits limits, std::uint64_t now_us);

  // 0: the bytes may be moved, and are counted. Else nothing is counted, and asking again makes
  // sense after so many microseconds.
  [[nodiscard]] std::uint64_t ask(std::uint64_t bytes, std::uint64_t now_us);
  // More (or fewer, below 0) bytes than asked for were moved.
  void settle(std::int64_t bytes, std::uint64_t now_us);
  // So much of the node's time has just been taken, microseconds; or its clients had to wait.
  void note_busy(std::uint64_t us, std::uint64_t now_us);

  // Whether it is for the node's rest that ask() lets wait.
  [[nodiscard]] bool is_resting(std::uint64_t now_us) const;
  // Whether the node's time is limited.
  [[nodiscard]] bool is_gentle() const;
  // What one step should move at most: half of the burst, so that steps can follow each other while
  // the bucket neither runs over nor is in debt.
  [[nodiscard]] std::uint64_t chunk() const;
  // The larger of 64 KiB and what the limit allows in 50 ms.
  [[nodiscard]] std::uint64_t burst() const;

 private:
  [[nodiscard]] bool is_unlimited() const { return limits_.bytes_per_second == kUnlimited; }
  [[nodiscard]] double capacity() const;
  void accrue(std::uint64_t now_us);

  mutable std::mutex mutex_;
  Limits limits_;
  double balance_ = 0;  // Bytes; below 0: debt.
  std::uint64_t counted_until_us_ = 0;
  std::uint64_t rest_until_us_ = 0;
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
