#include "slots/key_pattern.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace slots {
namespace {

std::unexpected<Error> refused(std::string_view text, const std::string& why) {
  return fail(Errc::InvalidArgument, "key pattern \"" + std::string(text) + "\" " + why +
                                         "; write one %d or %06d where the number goes");
}

// The digits between '%' and 'd'.
std::string_view digits_at(std::string_view text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

}  // namespace

Result<KeyPattern> KeyPattern::parse(std::string_view text) {
  KeyPattern pattern;
  bool has_number = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string& side = has_number ? pattern.after_ : pattern.before_;
    if (text[at] != '%') {
      side += text[at];
      continue;
    }
    const std::string_view rest = text.substr(at + 1);
    if (rest.starts_with('%')) {
      side += '%';
      ++at;
      continue;
    }
    const std::string_view digits = digits_at(rest);
    if (digits.size() == rest.size() || rest[digits.size()] != 'd') {
      return refused(text, "has a % that begins neither %d nor %%");
    }
    if (has_number) return refused(text, "has two numbers");
    has_number = true;
    if (!digits.empty()) {
      if (digits.front() == '0') pattern.padding_ = '0';
      const auto parsed =
          std::from_chars(digits.data(), digits.data() + digits.size(), pattern.width_);
      if (parsed.ec != std::errc() || pattern.width_ > kWidthMax) {
        return refused(text, "pads to more than " + std::to_string(kWidthMax) + " digits");
      }
    }
    at += digits.size() + 1;
  }
  if (!has_number) return refused(text, "has no number, so all keys would be one");
  return pattern;
}

void KeyPattern::write_key(std::uint64_t number, std::string& out) const {
  std::array<char, 20> digits;  // 2^64 has 20.
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  const auto size = static_cast<std::size_t>(written.ptr - digits.data());
  out.assign(before_);
  if (size < width_) out.append(width_ - size, padding_);
  out.append(digits.data(), size).append(after_);
}

std::string KeyPattern::key(std::uint64_t number) const {
  std::string out;
  write_key(number, out);
  return out;
}

}  // namespace slots
