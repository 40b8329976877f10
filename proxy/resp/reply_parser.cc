#include "proxy/resp/reply_parser.h"

#include <algorithm>
#include <cstring>

namespace proxy::resp {

// What a header announces. False: no such header.
bool ReplyParser::take_header(char type, std::int64_t number, bool empty_number) {
  if (empty_number || number < -1) return false;
  std::uint64_t count = number > 0 ? static_cast<std::uint64_t>(number) : 0;
  switch (type) {
    case '$':
    case '=':
    case '!':
      if (number >= 0) {
        skip_ = count + 2;
        return true;
      }
      break;
    case '*':
    case '~':
    case '>':
      values_left_ += count;
      break;
    case '%':
      values_left_ += 2 * count;
      break;
    case '|':
      values_left_ += 2 * count + 1;  // The value that the attribute belongs to is still to come.
      break;
    default:
      return false;
  }
  --values_left_;
  return values_left_ < kValuesMax;
}

// Goes on in a header or a line that may have been cut. Null: more must come, or failed.
const char* ReplyParser::header_or_line(const char* p, const char* end) {
  if (place_ == Place::Line) {
    const auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    if (newline == nullptr) return nullptr;
    place_ = Place::Value;
    --values_left_;
    return newline + 1;
  }
  for (; p < end; ++p) {
    char c = *p;
    if (c >= '0' && c <= '9' && digits_ < 18) {
      number_ = number_ * 10 + static_cast<std::uint64_t>(c - '0');
      ++digits_;
    } else if (c == '-' && digits_ == 0 && !negative_) {
      negative_ = true;
    } else if (c == '\n') {
      place_ = Place::Value;
      auto number = static_cast<std::int64_t>(number_);
      failed_ = !take_header(header_type_, negative_ ? -number : number, digits_ == 0);
      return failed_ ? nullptr : p + 1;
    } else if (c != '\r') {
      failed_ = true;
      return nullptr;
    }
  }
  return nullptr;
}

const char* ReplyParser::next_slowly(const char* p, const char* end) {
  if (!inside_) {
    if (p == end) return nullptr;
    inside_ = true;
    type_ = *p;
    values_left_ = 1;
  }
  for (;;) {
    if (skip_ > 0) {
      std::uint64_t part = std::min(skip_, static_cast<std::uint64_t>(end - p));
      p += part;
      skip_ -= part;
      if (skip_ > 0) return nullptr;
      --values_left_;
    } else if (place_ != Place::Value) {
      p = header_or_line(p, end);
      if (p == nullptr) return nullptr;
    }
    if (skip_ == 0 && values_left_ == 0) {
      inside_ = false;
      return p;
    }
    if (skip_ > 0) continue;
    if (p == end) return nullptr;
    switch (*p) {
      case '+':
      case '-':
      case ':':
      case '_':
      case ',':
      case '#':
      case '(':
        place_ = Place::Line;
        break;
      case '$':
      case '*':
      case '%':
      case '~':
      case '>':
      case '|':
      case '=':
      case '!':
        place_ = Place::Header;
        header_type_ = *p;
        number_ = 0;
        digits_ = 0;
        negative_ = false;
        break;
      default:
        failed_ = true;
        return nullptr;
    }
    ++p;
    if (p == end) return nullptr;
  }
}

}  // namespace proxy::resp
