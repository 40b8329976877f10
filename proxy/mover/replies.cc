#include "proxy/mover/replies.h"

#include <fmt/format.h>

#include <charconv>

#include "proxy/mover/node_link.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string_view bulk_of(std::string_view reply) {
  return resp::ReplyCursor(reply).read_bulk().value_or(std::string_view{});
}

std::int64_t integer_of(std::string_view reply) {
  return resp::ReplyCursor(reply).read_integer().value_or(-1);
}

bool is_null(std::string_view reply) {
  return reply.starts_with('_') || reply.starts_with("$-1") || reply.starts_with("*-1");
}

std::optional<std::int64_t> time_of(std::string_view reply) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  const auto seconds = cursor.read_bulk();
  const auto microseconds = cursor.read_bulk();
  if (!header || header->type != '*' || !seconds || !microseconds) return std::nullopt;
  return static_cast<std::int64_t>(number_of(*seconds) * 1000 + number_of(*microseconds) / 1000);
}

bool is_executed(std::string_view exec) {
  const auto header = resp::ReplyCursor(exec).read_header();
  return header && header->type == '*' && header->count >= 0;
}

WriteFate fate_of(std::string_view error_text) {
  const std::string_view word = error_text.substr(0, error_text.find(' '));
  if (word == "OOM") return WriteFate::OutOfMemory;
  for (const std::string_view passing :
       {"LOADING", "MISCONF", "READONLY", "BUSY", "NOREPLICAS", "MASTERDOWN"}) {
    if (word == passing) return WriteFate::NotNow;
  }
  if (error_text.find("DUMP payload version") != std::string_view::npos) return WriteFate::TooNew;
  if (error_text.find("Bad data format") != std::string_view::npos) return WriteFate::Unreadable;
  return WriteFate::Failed;
}

NodeLost refused(Side side, std::string_view command, std::string_view reply) {
  return {side, fmt::format("{} says: {}", command,
                            is_error(reply) ? error_text(reply) : reply.substr(0, 40))};
}

}  // namespace proxy::mover
