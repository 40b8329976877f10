#include "proxy/resp/reply_parser.h"

#include <algorithm>
#include <cstring>

namespace proxy::resp {

// What a header announces. False: no such header.
bool ReplyParser::take_header(char type, std::int64_t number, bool empty_number) {
  if (empty_number) return false;
  if (type == ':') {
    --values_left_;
    return true;
  }
  if (number < -1) return false;
  std::uint64_t count = number > 0 ? static_cast<std::uint64_t>(number) : 0;
  switch (type) {
    case '$':
    case '=':
    case '!':
      if (number >= 0) {
        skip_ = count;
        line_end_left_ = 2;
        place_ = Place::BulkEnd;
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

// Goes on in a line, a header or a bulk that may have been cut. Null: more must come, or failed.
const char* ReplyParser::go_on(const char* p, const char* end) {
  switch (place_) {
    case Place::Line:
      return line(p, end);
    case Place::BulkEnd:
      return bulk_end(p, end);
    default:
      return header(p, end);
  }
}

// CRLF ends it. A newline alone would be an end for some clients and none for others.
const char* ReplyParser::line(const char* p, const char* end) {
  const auto* newline =
      static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
  if (newline == nullptr) {
    if (p < end) after_return_ = end[-1] == '\r';
    return nullptr;
  }
  failed_ = newline > p ? newline[-1] != '\r' : !after_return_;
  after_return_ = false;
  if (failed_) return nullptr;
  place_ = Place::Value;
  --values_left_;
  return newline + 1;
}

const char* ReplyParser::bulk_end(const char* p, const char* end) {
  std::uint64_t part = std::min(skip_, static_cast<std::uint64_t>(end - p));
  p += part;
  skip_ -= part;
  for (; line_end_left_ > 0 && p < end; --line_end_left_, ++p) {
    if (*p == (line_end_left_ == 2 ? '\r' : '\n')) continue;
    failed_ = true;
    return nullptr;
  }
  if (line_end_left_ > 0) return nullptr;
  place_ = Place::Value;
  --values_left_;
  return p;
}

const char* ReplyParser::header(const char* p, const char* end) {
  for (; p < end; ++p) {
    char c = *p;
    if (after_return_) {
      after_return_ = false;
      place_ = Place::Value;
      auto number = static_cast<std::int64_t>(negative_ ? 0 - number_ : number_);
      failed_ = c != '\n' || !take_header(header_type_, number, digits_ == 0);
      return failed_ ? nullptr : p + 1;
    }
    if (c >= '0' && c <= '9' && digits_ < (header_type_ == ':' ? 19 : 18)) {
      number_ = number_ * 10 + static_cast<std::uint64_t>(c - '0');
      ++digits_;
    } else if (c == '-' && digits_ == 0 && !negative_) {
      negative_ = true;
    } else if (c == '\r') {
      after_return_ = true;
    } else {
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
    if (place_ != Place::Value) {
      p = go_on(p, end);
      if (p == nullptr) return nullptr;
      if (place_ != Place::Value) {
        if (p == end) return nullptr;
        continue;
      }
    }
    if (values_left_ == 0) {
      inside_ = false;
      return p;
    }
    if (p == end) return nullptr;
    switch (*p) {
      case '+':
      case '-':
      case '_':
      case ',':
      case '#':
      case '(':
        place_ = Place::Line;
        break;
      case ':':
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
