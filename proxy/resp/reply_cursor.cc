#include "proxy/resp/reply_cursor.h"

#include <charconv>

namespace proxy::resp {
namespace {

std::optional<std::int64_t> to_integer(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return value;
}

constexpr std::size_t kVerbatimPrefix = 4;  // "txt:"

}  // namespace

std::nullopt_t ReplyCursor::fail() {
  failed_ = true;
  return std::nullopt;
}

std::optional<std::string_view> ReplyCursor::read_line() {
  const std::size_t end = bytes_.find('\r', position_);
  if (end == std::string_view::npos || end + 1 >= bytes_.size() || bytes_[end + 1] != '\n') {
    return fail();
  }
  const std::string_view line = bytes_.substr(position_, end - position_);
  position_ = end + 2;
  return line;
}

std::optional<std::string_view> ReplyCursor::read_payload(std::size_t length) {
  const std::size_t left = bytes_.size() - position_;
  if (left < 2 || length > left - 2 || bytes_.substr(position_ + length, 2) != "\r\n") {
    return fail();
  }
  const std::string_view payload = bytes_.substr(position_, length);
  position_ += length + 2;
  return payload;
}

// A child takes three bytes at least ("_\r\n"), which bounds a count that can be true before anybody reserves for it.
bool ReplyCursor::read_children(ReplyHeader& header, std::size_t per_item) {
  const auto count = to_integer(header.text);
  if (count && *count == -1 && header.type == ReplyType::Array) {
    header.is_null = true;
    return true;
  }
  const std::size_t children_max = (bytes_.size() - position_) / 3;
  if (!count || *count < 0 || static_cast<std::uint64_t>(*count) > children_max / per_item) {
    fail();
    return false;
  }
  header.children = static_cast<std::size_t>(*count) * per_item;
  return true;
}

std::optional<ReplyHeader> ReplyCursor::read_own_part() {
  if (failed_ || at_end()) {
    return fail();
  }
  ReplyHeader header;
  header.type = static_cast<ReplyType>(bytes_[position_++]);
  const auto line = read_line();
  if (!line) {
    return std::nullopt;
  }
  header.text = *line;
  switch (header.type) {
    case ReplyType::Simple:
    case ReplyType::Error:
    case ReplyType::Double:
    case ReplyType::BigNumber:
      return header;
    case ReplyType::Boolean:
      return *line == "t" || *line == "f" ? std::optional(header) : fail();
    case ReplyType::Null:
      header.is_null = true;
      return line->empty() ? std::optional(header) : fail();
    case ReplyType::Integer: {
      const auto value = to_integer(*line);
      if (!value) {
        return fail();
      }
      header.integer = *value;
      return header;
    }
    case ReplyType::Bulk:
    case ReplyType::BulkError:
    case ReplyType::Verbatim: {
      const auto length = to_integer(*line);
      if (length && *length == -1 && header.type == ReplyType::Bulk) {
        header.is_null = true;
        return header;
      }
      const auto payload =
          length && *length >= 0 ? read_payload(static_cast<std::size_t>(*length)) : std::nullopt;
      if (!payload) {
        return fail();
      }
      header.text = *payload;
      if (header.type == ReplyType::Verbatim) {
        if (payload->size() < kVerbatimPrefix || (*payload)[kVerbatimPrefix - 1] != ':') {
          return fail();
        }
        header.text.remove_prefix(kVerbatimPrefix);
      }
      return header;
    }
    case ReplyType::Array:
    case ReplyType::Set:
    case ReplyType::Push:
      return read_children(header, 1) ? std::optional(header) : std::nullopt;
    case ReplyType::Map:
    case ReplyType::Attribute:
      return read_children(header, 2) ? std::optional(header) : std::nullopt;
  }
  return fail();
}

std::optional<ReplyHeader> ReplyCursor::read_header() {
  while (true) {
    const auto header = read_own_part();
    if (!header || header->type != ReplyType::Attribute) {
      return header;
    }
    for (std::size_t i = 0; i < header->children; ++i) {
      if (!skip()) {
        return std::nullopt;
      }
    }
  }
}

std::optional<std::string_view> ReplyCursor::read_string() {
  const auto header = read_header();
  if (!header) {
    return std::nullopt;
  }
  const bool is_string = header->type == ReplyType::Bulk || header->type == ReplyType::Simple ||
                         header->type == ReplyType::Verbatim;
  return is_string && !header->is_null ? std::optional(header->text) : fail();
}

std::optional<std::int64_t> ReplyCursor::read_integer() {
  const auto header = read_header();
  if (!header) {
    return std::nullopt;
  }
  return header->type == ReplyType::Integer ? std::optional(header->integer) : fail();
}

std::optional<std::size_t> ReplyCursor::read_array() {
  const auto header = read_header();
  if (!header) {
    return std::nullopt;
  }
  const bool is_aggregate = header->type == ReplyType::Array || header->type == ReplyType::Set ||
                            header->type == ReplyType::Push || header->type == ReplyType::Map;
  return is_aggregate && !header->is_null ? std::optional(header->children) : fail();
}

// Depth costs nothing: what is still owed is a number, not a stack. Each value read pays for itself and adds its
// children; an attribute also owes the value that it decorates. No sum can overflow, since a value owes less than
// there are bytes behind it.
bool ReplyCursor::skip() {
  for (std::size_t owed = 1; owed > 0; --owed) {
    const auto header = read_own_part();
    if (!header || owed > bytes_.size()) {
      failed_ = true;
      return false;
    }
    owed += header->children + (header->type == ReplyType::Attribute ? 1 : 0);
  }
  return true;
}

std::optional<std::string_view> ReplyCursor::read_value() {
  const std::size_t start = position_;
  return skip() ? std::optional(bytes_.substr(start, position_ - start)) : std::nullopt;
}

}  // namespace proxy::resp
