// Throttle: how fast a plan may move while clients wait for the same nodes.
//
// The speed halves when answers of a node that takes part have been slower than their target for
// two seconds, and again each two seconds that they stay so; else it creeps back up by 5 % a
// second. It is never above what was approved, and never so low that the plan stands still.
// Pure: the caller says what time it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace proxy::mover {

class Throttle {
 public:
  // A plan does not get slower than this (or what was approved, if that is less).
  static constexpr std::uint64_t kFloor = 100'000;
  static constexpr std::uint64_t kPatienceMs = 2000;

  // How a node answers clients now. Both in microseconds.
  struct Latency {
    std::string node;
    std::uint64_t p99_us = 0;
    std::uint64_t target_us = 0;
  };

  // 0: no limit. Of another limit than before too: what slows the plan stays in force.
  void approve(std::uint64_t bytes_per_second) { approved_ = bytes_per_second; }

  // To be called every second or so. `latencies`: of the nodes whose answers were measured;
  // `speed`: bytes per second that are moved now.
  void step(const std::vector<Latency>& latencies, std::uint64_t speed, std::uint64_t now_ms);

  // What is in force; 0: no limit.
  [[nodiscard]] std::uint64_t limit() const;
  [[nodiscard]] bool is_slowed() const { return slowed_to_.has_value(); }
  // "slowed: p99 of inv-bcn 4.6 ms, target 5 ms"; empty when it is not.
  [[nodiscard]] std::string reason() const;

 private:
  void slow_down(std::uint64_t speed);
  void creep_up(std::uint64_t speed, double seconds);

  std::uint64_t approved_ = 0;
  std::optional<double> slowed_to_;  // Bytes per second.
  Latency culprit_;                  // What slowed it, as it is now.
  std::optional<std::uint64_t> over_since_ms_;
  std::uint64_t stepped_at_ms_ = 0;
};

}  // namespace proxy::mover
