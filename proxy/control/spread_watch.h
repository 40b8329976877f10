// SpreadWatch: when an uneven cluster is worth a proposal: its spread has been above a threshold
// for some time. Pure: the caller says what time it is.
//
// One stretch above the threshold is worth one proposal, whatever becomes of it: who has rejected
// it is not asked again before the spread has been below.
#pragma once

#include <cstdint>
#include <optional>

namespace proxy::control {

class SpreadWatch {
 public:
  struct Rule {
    double above = 0;  // 0: never.
    std::uint64_t for_ms = 0;
  };

  // To be called every second or so. `is_busy`: a plan waits or runs, which is looked at first.
  // True: propose now.
  [[nodiscard]] bool step(const Rule& rule, double spread, bool is_busy, std::uint64_t now_ms) {
    if (rule.above <= 0 || spread <= rule.above) {
      above_since_ms_.reset();
      has_proposed_ = false;
      return false;
    }
    if (is_busy || !above_since_ms_) {
      above_since_ms_ = now_ms;
      return false;
    }
    if (has_proposed_ || now_ms - *above_since_ms_ < rule.for_ms) return false;
    has_proposed_ = true;
    return true;
  }

 private:
  std::optional<std::uint64_t> above_since_ms_;
  bool has_proposed_ = false;
};

}  // namespace proxy::control
