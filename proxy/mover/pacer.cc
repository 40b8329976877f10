#include "proxy/mover/pacer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace proxy::mover {

namespace {

constexpr std::uint64_t kBurstBytesMin = 64U << 10;
constexpr std::uint64_t kBurstsPerSecond = 20;  // One in 50 ms.
constexpr double kMicroseconds = 1e6;           // In a second.

std::uint64_t burst_of(std::uint64_t limit) {
  return std::max(limit / kBurstsPerSecond, kBurstBytesMin);
}

}  // namespace

void Pacer::set_limit(std::uint64_t bytes_per_second, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  limit_ = bytes_per_second;
  balance_ = std::min(balance_, capacity());
}

std::uint64_t Pacer::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

// A step may begin as soon as nothing is owed. Waiting for its whole estimate instead would let
// small steps of another mover starve a large one.
std::uint64_t Pacer::ask(std::uint64_t bytes, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  if (limit_ == kUnlimited) return 0;
  if (balance_ < 0) {
    return static_cast<std::uint64_t>(
        std::ceil(-balance_ * kMicroseconds / static_cast<double>(limit_)));
  }
  balance_ -= static_cast<double>(bytes);
  return 0;
}

void Pacer::settle(std::int64_t bytes, std::uint64_t now_us) {
  const std::lock_guard lock(mutex_);
  accrue(now_us);
  if (limit_ != kUnlimited) balance_ = std::min(balance_ - static_cast<double>(bytes), capacity());
}

std::uint64_t Pacer::chunk() const {
  const std::lock_guard lock(mutex_);
  return limit_ == kUnlimited ? std::numeric_limits<std::uint64_t>::max() : burst_of(limit_) / 2;
}

std::uint64_t Pacer::burst() const {
  const std::lock_guard lock(mutex_);
  return burst_of(limit_);
}

// Half of the burst: the step that begins on a full bucket is the other half.
double Pacer::capacity() const { return static_cast<double>(burst_of(limit_)) / 2; }

void Pacer::accrue(std::uint64_t now_us) {
  if (now_us <= counted_until_us_) return;
  const auto elapsed = static_cast<double>(now_us - counted_until_us_);
  counted_until_us_ = now_us;
  if (limit_ == kUnlimited) return;
  balance_ = std::min(balance_ + elapsed * static_cast<double>(limit_) / kMicroseconds, capacity());
}

std::shared_ptr<Pacer> Pacers::of(const std::string& node) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Pacer>& pacer = pacers_[node];
  if (pacer == nullptr) pacer = std::make_shared<Pacer>();
  return pacer;
}

}  // namespace proxy::mover
