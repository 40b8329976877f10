// KeyPattern: numbered key names such as "P-2026-%06d", without ever handing an operator's text to
// printf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "slots/result.h"

namespace slots {

class KeyPattern {
 public:
  static constexpr std::size_t kWidthMax = 64;

  // Text with exactly one %d, %Nd (padded with blanks) or %0Nd (padded with zeros); %% is a percent
  // sign. Errors: InvalidArgument, saying what stands there and what would be right.
  [[nodiscard]] static Result<KeyPattern> parse(std::string_view text);

  void write_key(std::uint64_t number, std::string& out) const;  // Replaces what `out` held.
  [[nodiscard]] std::string key(std::uint64_t number) const;

 private:
  std::string before_;
  std::string after_;
  std::size_t width_ = 0;
  char padding_ = ' ';
};

}  // namespace slots
