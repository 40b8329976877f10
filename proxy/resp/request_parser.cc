#include "proxy/resp/request_parser.h"

#include <cctype>
#include <climits>
#include <cstring>

namespace proxy::resp {

namespace {

constexpr std::size_t kInlineMax = 64 * 1024;  // PROTO_INLINE_MAX_SIZE

enum class LineOutcome : std::uint8_t { Number, NeedMore, Bad, TooLong };

// string2ll's rules: an optional '-', no plus, no blank, no leading zero.
bool strict_number(const char* p, const char* end, std::int64_t& value) {
  bool negative = p < end && *p == '-';
  if (negative) ++p;
  std::size_t digits = static_cast<std::size_t>(end - p);
  if (digits == 0 || digits > 18 || (*p == '0' && (digits > 1 || negative))) return false;
  std::int64_t result = 0;
  for (; p < end; ++p) {
    if (*p < '0' || *p > '9') return false;
    result = result * 10 + (*p - '0');
  }
  value = negative ? -result : result;
  return true;
}

// A header's number and its CRLF; `p` moves behind them on Number.
LineOutcome read_number_slowly(const char*& p, const char* end, std::int64_t& value) {
  const auto* line_end =
      static_cast<const char*>(std::memchr(p, '\r', static_cast<std::size_t>(end - p)));
  if (line_end == nullptr) {
    return static_cast<std::size_t>(end - p) > kInlineMax ? LineOutcome::TooLong
                                                          : LineOutcome::NeedMore;
  }
  if (line_end + 1 == end) return LineOutcome::NeedMore;
  if (line_end[1] != '\n' || !strict_number(p, line_end, value)) return LineOutcome::Bad;
  p = line_end + 2;
  return LineOutcome::Number;
}

[[gnu::always_inline]] inline LineOutcome read_number(const char*& p, const char* end,
                                                      std::int64_t& value) {
  // One to four digits and CRLF, all at hand: nearly every header there is.
  if (end - p >= 6) [[likely]] {
    const char* q = p;
    std::uint32_t result = static_cast<std::uint8_t>(*q) - '0';
    if (result - 1 < 9) [[likely]] {
      ++q;
      for (int i = 0; i < 3; ++i) {
        std::uint32_t digit = static_cast<std::uint8_t>(*q) - '0';
        if (digit > 9) break;
        result = result * 10 + digit;
        ++q;
      }
      if (q[0] == '\r' && q[1] == '\n') [[likely]] {
        value = result;
        p = q + 2;
        return LineOutcome::Number;
      }
    }
  }
  return read_number_slowly(p, end, value);
}

FrameOutcome invalid(FrameState& frame, std::string text) {
  frame.error = "Protocol error: " + std::move(text);
  return FrameOutcome::Invalid;
}

FrameOutcome read_array_header(FrameState& frame, const char*& p, const char* end,
                               const RequestLimits& limits) {
  const char* q = p + 1;
  std::int64_t count = 0;
  switch (read_number(q, end, count)) {
    case LineOutcome::NeedMore:
      return FrameOutcome::NeedMore;
    case LineOutcome::TooLong:
      return invalid(frame, "too big mbulk count string");
    case LineOutcome::Bad:
      return invalid(frame, "invalid multibulk length");
    case LineOutcome::Number:
      break;
  }
  if (count > INT_MAX) return invalid(frame, "invalid multibulk length");
  if (!limits.authenticated && count > 10)
    return invalid(frame, "unauthenticated multibulk length");
  p = q;
  frame.args_left = count > 0 ? count : 0;
  return FrameOutcome::Complete;
}

FrameOutcome read_bulk_header(FrameState& frame, const char*& p, const char* end,
                              const RequestLimits& limits) {
  const char* q = p;
  if (*q != '$') {
    // Redis looks at the type only once the line is whole.
    if (std::memchr(q, '\r', static_cast<std::size_t>(end - q)) == nullptr) {
      return static_cast<std::size_t>(end - q) > kInlineMax
                 ? invalid(frame, "too big bulk count string")
                 : FrameOutcome::NeedMore;
    }
    return invalid(frame, std::string("expected '$', got '") + *q + "'");
  }
  ++q;
  std::int64_t length = 0;
  switch (read_number(q, end, length)) {
    case LineOutcome::NeedMore:
      return FrameOutcome::NeedMore;
    case LineOutcome::TooLong:
      return invalid(frame, "too big bulk count string");
    case LineOutcome::Bad:
      return invalid(frame, "invalid bulk length");
    case LineOutcome::Number:
      break;
  }
  if (length < 0 || length > limits.bulk_bytes_max) return invalid(frame, "invalid bulk length");
  if (!limits.authenticated && length > 16384) return invalid(frame, "unauthenticated bulk length");
  p = q;
  frame.bulk_length = length;
  return FrameOutcome::Complete;
}

// An argument that lies there whole, its header of one to three digits: nearly all of them. False:
// anything else.
[[gnu::always_inline]] inline bool take_whole_argument(FrameState& frame, const char*& p,
                                                       const char* end,
                                                       const RequestLimits& limits) {
  if (frame.bulk_length >= 0 || end - p < 8 || *p != '$') return false;
  const char* q = p + 1;
  std::size_t length = static_cast<std::uint8_t>(*q) - '0';
  if (length - 1 > 8) return false;  // No leading zero: 0 goes the long way.
  for (++q; q < p + 4; ++q) {
    std::size_t digit = static_cast<std::uint8_t>(*q) - '0';
    if (digit > 9) break;
    length = length * 10 + digit;
  }
  if (q[0] != '\r' || q[1] != '\n' || static_cast<std::size_t>(end - q) < length + 4) return false;
  if (static_cast<std::int64_t>(length) > limits.bulk_bytes_max) return false;
  q += 2;
  if (q[length] != '\r' || q[length + 1] != '\n') return false;
  frame.args.emplace_back(q, length);
  p = q + length + 2;
  --frame.args_left;
  return true;
}

// The escapes inside double quotes (sdssplitargs in Redis's sds.c).
char unescape(const char*& p, const char* end) {
  auto hex = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) ? c - '0' : (c | 0x20) - 'a' + 10;
  };
  if (*p == 'x' && end - p >= 3 && std::isxdigit(static_cast<unsigned char>(p[1])) &&
      std::isxdigit(static_cast<unsigned char>(p[2]))) {
    int value = hex(p[1]) * 16 + hex(p[2]);
    p += 2;
    return static_cast<char>(value);
  }
  switch (*p) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return *p;
  }
}

// A quoted word from behind its opening quote; false when it does not end, or does not end a word.
bool read_quoted(const char*& p, const char* end, char quote, std::string& word) {
  for (; p < end; ++p) {
    if (quote == '"' && *p == '\\' && p + 1 < end) {
      ++p;
      word.push_back(unescape(p, end));
    } else if (quote == '\'' && *p == '\\' && p + 1 < end && p[1] == '\'') {
      word.push_back('\'');
      ++p;
    } else if (*p == quote) {
      ++p;
      return p == end || std::isspace(static_cast<unsigned char>(*p));
    } else {
      word.push_back(*p);
    }
  }
  return false;
}

// Fewer characters end a word than may stand between words.
bool ends_word(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool split_words(std::string_view line, std::vector<std::string>& words) {
  const char* p = line.data();
  const char* end = p + line.size();
  for (;;) {
    while (p < end && std::isspace(static_cast<unsigned char>(*p))) ++p;
    if (p == end) return true;
    std::string word;
    while (p < end && !ends_word(*p)) {
      char c = *p++;
      if (c != '"' && c != '\'') {
        word.push_back(c);
      } else if (!read_quoted(p, end, c, word)) {
        return false;
      } else {
        break;
      }
    }
    words.push_back(std::move(word));
  }
}

}  // namespace

void FrameState::rebase(const char* from, const char* to) {
  for (std::string_view& arg : args) arg = {to + (arg.data() - from), arg.size()};
}

FrameOutcome parse_request(FrameState& frame, const char* bytes, std::size_t size,
                           const RequestLimits& limits) {
  const char* p = bytes + frame.position;
  const char* end = bytes + size;
  auto stop_at = [&](const char* place) {
    frame.position = static_cast<std::size_t>(place - bytes);
  };

  if (frame.args_left < 0) {
    FrameOutcome outcome = read_array_header(frame, p, end, limits);
    if (outcome != FrameOutcome::Complete) return outcome;
  }
  while (frame.args_left > 0) {
    if (take_whole_argument(frame, p, end, limits)) [[likely]]
      continue;
    if (frame.bulk_length < 0) {
      FrameOutcome outcome = FrameOutcome::NeedMore;
      if (p < end) outcome = read_bulk_header(frame, p, end, limits);
      if (outcome != FrameOutcome::Complete) {
        stop_at(p);
        return outcome;
      }
    }
    auto length = static_cast<std::size_t>(frame.bulk_length);
    if (static_cast<std::size_t>(end - p) < length + 2) {
      stop_at(p);
      return FrameOutcome::NeedMore;
    }
    if (p[length] != '\r' || p[length + 1] != '\n') [[unlikely]] {
      return invalid(frame, "expected CRLF behind an argument");
    }
    frame.args.emplace_back(p, length);
    p += length + 2;
    frame.bulk_length = -1;
    --frame.args_left;
  }
  stop_at(p);
  return FrameOutcome::Complete;
}

FrameOutcome parse_inline(const char* bytes, std::size_t size, std::vector<std::string>& words,
                          std::size_t& consumed, std::string& error) {
  const auto* newline = static_cast<const char*>(std::memchr(bytes, '\n', size));
  if (newline == nullptr) {
    if (size <= kInlineMax) return FrameOutcome::NeedMore;
    error = "Protocol error: too big inline request";
    return FrameOutcome::Invalid;
  }
  consumed = static_cast<std::size_t>(newline - bytes) + 1;
  std::string_view line(bytes, consumed - 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  words.clear();
  if (split_words(line, words)) return FrameOutcome::Complete;
  error = "Protocol error: unbalanced quotes in request";
  return FrameOutcome::Invalid;
}

}  // namespace proxy::resp
