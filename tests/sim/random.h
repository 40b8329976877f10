// Random: all chance in a run comes from one seed, so that the seed replays the run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) { state_ = next() ^ next() << 1; }

  std::uint64_t next() {  // SplitMix64.
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t count) { return next() % count; }
  std::size_t between(std::size_t least, std::size_t most) {
    return least + below(most - least + 1);
  }
  bool chance(double percent) {
    return static_cast<double>(next() >> 11) * 0x1p-53 * 100 < percent;
  }

 private:
  std::uint64_t state_;
};

}  // namespace sim
