#include "proxy/session/function_flags.h"

#include "proxy/resp/reply_cursor.h"

namespace proxy::session {

namespace {

// A flat list of names and values, as RESP2 writes maps: `take` consumes the value of each, and
// says whether it was what it should be.
template <typename Take>
bool read_fields(resp::ReplyCursor& cursor, Take take) {
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return false;
  for (std::int64_t i = 0; i + 1 < header->count; i += 2) {
    const auto name = cursor.read_bulk();
    if (!name || !take(*name)) return false;
  }
  return true;
}

template <typename Take>
bool read_list(resp::ReplyCursor& cursor, Take take) {
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return false;
  for (std::int64_t i = 0; i < header->count; ++i) {
    if (!take()) return false;
  }
  return true;
}

bool read_function(resp::ReplyCursor& cursor, std::unordered_set<std::string>& names) {
  std::string_view name;
  bool is_read_only = false;
  const bool is_whole = read_fields(cursor, [&](std::string_view field) {
    if (field == "name") {
      const auto text = cursor.read_bulk();
      name = text.value_or("");
      return text.has_value();
    }
    if (field != "flags") return cursor.skip();
    return read_list(cursor, [&] {
      const auto flag = cursor.read_bulk();
      is_read_only = is_read_only || flag == "no-writes";
      return flag.has_value();
    });
  });
  if (is_whole && is_read_only) names.emplace(name);
  return is_whole;
}

}  // namespace

std::unordered_set<std::string> read_only_functions(std::string_view reply) {
  std::unordered_set<std::string> names;
  resp::ReplyCursor cursor(reply);
  read_list(cursor, [&] {
    return read_fields(cursor, [&](std::string_view field) {
      if (field != "functions") return cursor.skip();
      return read_list(cursor, [&] { return read_function(cursor, names); });
    });
  });
  return names;
}

}  // namespace proxy::session
