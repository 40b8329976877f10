#include "proxy/mover/pacer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace proxy::mover {

namespace {

constexpr std::uint64_t kBurstBytesMin = 64U << 10;
constexpr std::uint64_t kBurstsPerSecond = 20;  // One in 50 ms.
constexpr double kMicroseconds = 1e6;           // In a second.
// However long a node did not answer: that it stood still says little of what a step costs.
constexpr std::uint64_t kRestUsMax = 1'000'000;

std::uint64_t burst_of(std::uint64_t limit) {
  return std::max(limit / kBurstsPerSecond, kBurstBytesMin);
}

}  // namespace

void Pacer::set_limits(Limits limits, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  limits_ = limits;
  balance_ = std::min(balance_, capacity());
  rest_until_us_ = std::min(rest_until_us_, now_us + kRestUsMax);
}

// A step may begin as soon as nothing is owed. Waiting for its whole estimate instead would let
// small steps of another mover starve a large one.
std::uint64_t Pacer::ask(std::uint64_t bytes, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  if (is_unlimited()) return 0;
  if (balance_ < 0) {
    return static_cast<std::uint64_t>(
        std::ceil(-balance_ * kMicroseconds / static_cast<double>(limits_.bytes_per_second)));
  }
  if (now_us < rest_until_us_) return rest_until_us_ - now_us;
  balance_ -= static_cast<double>(bytes);
  return 0;
}

void Pacer::settle(std::int64_t bytes, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  if (!is_unlimited()) balance_ = std::min(balance_ - static_cast<double>(bytes), capacity());
}

void Pacer::note_busy(std::uint64_t us, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  if (is_unlimited()) return;
  const std::uint64_t rest_us = us * (kWhole - limits_.node_share) / limits_.node_share;
  rest_until_us_ = std::max(rest_until_us_, now_us) + rest_us;
  rest_until_us_ = std::min(rest_until_us_, now_us + kRestUsMax);
}

bool Pacer::is_resting(std::uint64_t now_us) const {
  const std::lock_guard lock(mutex_);
  return !is_unlimited() && balance_ >= 0 && now_us < rest_until_us_;
}

bool Pacer::is_gentle() const {
  const std::lock_guard lock(mutex_);
  return !is_unlimited() && limits_.node_share < kWhole;
}

std::uint64_t Pacer::chunk() const {
  const std::lock_guard lock(mutex_);
  return is_unlimited() ? std::numeric_limits<std::uint64_t>::max()
                        : burst_of(limits_.bytes_per_second) / 2;
}

std::uint64_t Pacer::burst() const {
  const std::lock_guard lock(mutex_);
  return burst_of(limits_.bytes_per_second);
}

// Half of the burst: the step that begins on a full bucket is the other half.
double Pacer::capacity() const {
  return static_cast<double>(burst_of(limits_.bytes_per_second)) / 2;
}

void Pacer::accrue(std::uint64_t now_us) {
  if (now_us <= counted_until_us_) return;
  const auto elapsed = static_cast<double>(now_us - counted_until_us_);
  counted_until_us_ = now_us;
  if (is_unlimited()) return;
  balance_ =
      std::min(balance_ + elapsed * static_cast<double>(limits_.bytes_per_second) / kMicroseconds,
               capacity());
}

std::shared_ptr<Pacer> Pacers::of(const std::string& node) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Pacer>& pacer = pacers_[node];
  if (pacer == nullptr) pacer = std::make_shared<Pacer>();
  return pacer;
}

}  // namespace proxy::mover
