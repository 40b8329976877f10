#include "proxy/resp/reply_cursor.h"

#include <charconv>

#include "proxy/resp/reply_parser.h"

namespace proxy::resp {

namespace {

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string_view> ReplyCursor::read_line() {
  std::size_t end = bytes_.find("\r\n", at_);
  if (end == std::string_view::npos || end == at_) return std::nullopt;
  std::string_view line = bytes_.substr(at_, end - at_);
  at_ = end + 2;
  return line;
}

// A count that is more than the bytes behind it can hold is a lie, told before anybody reserves for
// it.
std::optional<ReplyHeader> ReplyCursor::read_header() {
  constexpr std::size_t kValueMin = 3;  // "_\r\n"
  auto line = read_line();
  if (!line) return std::nullopt;
  char type = line->front();
  if (type == '_') return ReplyHeader{type, -1};
  bool is_bulk = type == '$' || type == '=' || type == '!';
  bool is_list = type == '*' || type == '~' || type == '>';
  bool is_pairs = type == '%' || type == '|';
  if (!is_bulk && !is_list && !is_pairs) return ReplyHeader{type, 0};
  auto count = number_of(line->substr(1));
  if (!count) return std::nullopt;
  if (*count == -1 && (type == '$' || type == '*')) return ReplyHeader{type, -1};
  std::size_t left = bytes_.size() - at_;
  std::size_t count_max = is_bulk ? left : left / (is_list ? kValueMin : 2 * kValueMin);
  if (*count < 0 || static_cast<std::uint64_t>(*count) > count_max) return std::nullopt;
  return ReplyHeader{type, *count};
}

std::optional<std::string_view> ReplyCursor::read_bulk() {
  std::size_t before = at_;
  auto header = read_header();
  if (!header) return std::nullopt;
  if (header->type == '+') return bytes_.substr(before + 1, at_ - before - 3);
  bool is_bulk = header->type == '$' || header->type == '=' || header->type == '!';
  if (!is_bulk || header->count < 0) return std::nullopt;
  auto count = static_cast<std::size_t>(header->count);
  if (bytes_.size() - at_ < count + 2 || bytes_.substr(at_ + count, 2) != "\r\n")
    return std::nullopt;
  std::string_view text = bytes_.substr(at_, count);
  at_ += count + 2;
  if (header->type != '=') return text;
  if (text.size() < 4 || text[3] != ':') return std::nullopt;
  return text.substr(4);  // "txt:"
}

std::optional<std::int64_t> ReplyCursor::read_integer() {
  auto line = read_line();
  if (!line || line->front() != ':') return std::nullopt;
  return number_of(line->substr(1));
}

std::string_view ReplyCursor::read_raw() {
  ReplyParser parser;
  const char* begin = bytes_.data() + at_;
  const char* end = parser.next(begin, bytes_.data() + bytes_.size());
  if (end == nullptr) return {};
  auto count = static_cast<std::size_t>(end - begin);
  at_ += count;
  return {begin, count};
}

}  // namespace proxy::resp
