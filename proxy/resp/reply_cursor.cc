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

std::optional<ReplyHeader> ReplyCursor::read_header() {
  auto line = read_line();
  if (!line) return std::nullopt;
  char type = line->front();
  if (type == '_') return ReplyHeader{type, -1};
  if (std::string_view("*~>%|$=!").find(type) == std::string_view::npos) return ReplyHeader{type, 0};
  auto count = number_of(line->substr(1));
  if (!count || *count < -1) return std::nullopt;
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
  if (bytes_.size() - at_ < 2 || bytes_.size() - at_ - 2 < count) return std::nullopt;
  std::string_view text = bytes_.substr(at_, count);
  at_ += count + 2;
  if (header->type == '=' && text.size() >= 4) text.remove_prefix(4);  // "txt:"
  return text;
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
