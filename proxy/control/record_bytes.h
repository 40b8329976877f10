// The bytes of journal records: integers little-endian, texts with their length before them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace proxy::control {

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFFU));
  }
}

inline void put_double(std::string& out, double value) {
  put(out, std::bit_cast<std::uint64_t>(value));
}

inline void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

// Takes values off the front of bytes. Once they have run out every further value is zero, and
// failed() stays true; a loop over a count that was taken has to look at it.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T take() {
    const std::string_view bytes = take_bytes(sizeof(T));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return static_cast<T>(value);
  }
  double take_double() { return std::bit_cast<double>(take<std::uint64_t>()); }
  std::string take_text() { return std::string(take_bytes(take<std::uint32_t>())); }
  // What was taken is not what it should be.
  void fail() { failed_ = true; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool is_at_end() const { return rest_.empty() && !failed_; }

 private:
  std::string_view take_bytes(std::size_t count) {
    if (failed_ || count > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace proxy::control
