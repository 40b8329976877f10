#include "proxy/session/request_stream.h"

#include <algorithm>

namespace proxy::session {

// "$<length>\r\n", as strictly as parse_request() takes it.
bool FrameSkipper::take_header_byte(char c) {
  constexpr std::uint64_t kBulkMax = 512ULL << 20;
  std::uint8_t at = header_bytes_++;
  if (at == 0) return c == '$';
  if (after_return_) {
    bytes_left_ = length_ + 2;
    length_ = 0;
    header_bytes_ = 0;
    after_return_ = false;
    return c == '\n';
  }
  if (c == '\r') {
    after_return_ = true;
    return at >= 2;
  }
  if (c < '0' || c > '9' || (at >= 2 && length_ == 0)) return false;
  length_ = length_ * 10 + static_cast<std::uint64_t>(c - '0');
  return length_ <= kBulkMax;
}

// Behind an argument.
bool FrameSkipper::take_end_byte(char c) {
  if (c != (bytes_left_ == 2 ? '\r' : '\n')) return false;
  if (--bytes_left_ == 0) --args_left_;
  return true;
}

std::size_t FrameSkipper::take(const char* bytes, std::size_t size) {
  std::size_t taken = 0;
  while (taken < size && args_left_ > 0 && !failed_) {
    if (bytes_left_ > 2) {
      std::size_t part = std::min<std::uint64_t>(bytes_left_ - 2, size - taken);
      taken += part;
      bytes_left_ -= part;
      continue;
    }
    char c = bytes[taken];
    failed_ = !(bytes_left_ == 0 ? take_header_byte(c) : take_end_byte(c));
    if (!failed_) ++taken;
  }
  return taken;
}

}  // namespace proxy::session
