// LatencyHistogram: how long answers took, in buckets an eighth wide, from 8 microseconds to a
// minute. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace proxy {

class LatencyHistogram {
 public:
  void add(std::uint64_t microseconds) {
    ++counts_[bucket_of(microseconds)];
    ++total_;
  }
  void merge(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  // What was added so far counts half from now on.
  void fade() {
    total_ = 0;
    for (std::uint32_t& count : counts_) total_ += count /= 2;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  // The microseconds that this part of the answers (0.99) did not take longer than; 0 without any.
  [[nodiscard]] std::uint64_t quantile(double part) const {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(total_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted) return end_of(i);
    }
    return total_ == 0 ? 0 : end_of(counts_.size() - 1);
  }

 private:
  static constexpr unsigned kSubBits = 3;  // Eight buckets for each power of two.
  static constexpr std::size_t kBuckets = 192;

  static std::size_t bucket_of(std::uint64_t microseconds) {
    const std::uint64_t value = microseconds < 8 ? 8 : microseconds;
    const auto power = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBits;
    const std::size_t bucket = (std::size_t{power} << kSubBits) + ((value >> power) - 8);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  // Where the bucket ends.
  static std::uint64_t end_of(std::size_t bucket) {
    return (std::uint64_t{9} + bucket % 8) << (bucket / 8);
  }

  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace proxy
