#include "proxy/mover/throttle.h"

#include <fmt/format.h>

#include <algorithm>

namespace proxy::mover {

namespace {

constexpr double kCreepPerSecond = 0.05;
constexpr double kStepSecondsMax = 5;  // A caller that was away for longer knows nothing of it.

double slowness(const Throttle::Latency& latency) {
  return static_cast<double>(latency.p99_us) / static_cast<double>(latency.target_us);
}

std::string milliseconds(std::uint64_t microseconds) {
  const double value = static_cast<double>(microseconds) / 1000;
  return value < 9.95 && microseconds % 1000 != 0 ? fmt::format("{:.1f} ms", value)
                                                  : fmt::format("{:.0f} ms", value);
}

}  // namespace

void Throttle::step(const std::vector<Latency>& latencies, std::uint64_t speed,
                    std::uint64_t now_ms) {
  const double seconds =
      std::min(static_cast<double>(now_ms - stepped_at_ms_) / 1000, kStepSecondsMax);
  stepped_at_ms_ = now_ms;
  for (const Latency& latency : latencies) {
    if (latency.node == culprit_.node) culprit_ = latency;
  }
  const auto worst = std::ranges::max_element(latencies, {}, slowness);
  if (worst == latencies.end() || slowness(*worst) <= 1) {
    over_since_ms_.reset();
    return creep_up(speed, seconds);
  }
  if (!over_since_ms_) over_since_ms_ = now_ms;
  if (now_ms - *over_since_ms_ < kPatienceMs) return;
  over_since_ms_ = now_ms;
  culprit_ = *worst;
  slow_down(speed);
}

// Half of what it does: half of a limit that it does not reach would change nothing. A moment's
// speed may be next to nothing, as while slots are fenced, and is not trusted below a part of the
// limit.
void Throttle::slow_down(std::uint64_t speed) {
  const double now = static_cast<double>(speed);
  const auto before = static_cast<double>(limit());
  const double base = limit() == 0 ? now : std::min(before, std::max(now, before / 4));
  const auto floor = static_cast<double>(approved_ == 0 ? kFloor : std::min(kFloor, approved_));
  slowed_to_ = std::max(base / 2, floor);
}

void Throttle::creep_up(std::uint64_t speed, double seconds) {
  if (!slowed_to_) return;
  *slowed_to_ *= 1 + kCreepPerSecond * seconds;
  // Without an approved limit: until it does not bear on the speed any more.
  const bool is_free = approved_ == 0 ? *slowed_to_ > 4 * static_cast<double>(speed) &&
                                            *slowed_to_ > 4 * static_cast<double>(kFloor)
                                      : *slowed_to_ >= static_cast<double>(approved_);
  if (is_free) slowed_to_.reset();
}

std::uint64_t Throttle::limit() const {
  if (!slowed_to_) return approved_;
  const auto slowed = static_cast<std::uint64_t>(*slowed_to_);
  return approved_ == 0 ? slowed : std::min(slowed, approved_);
}

std::string Throttle::reason() const {
  if (!slowed_to_) return "";
  return fmt::format("slowed: p99 of {} {}, target {}", culprit_.node,
                     milliseconds(culprit_.p99_us), milliseconds(culprit_.target_us));
}

}  // namespace proxy::mover
