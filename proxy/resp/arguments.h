// Words and numbers among a command's arguments, as Redis reads them. Pure.
#pragma once

#include <strings.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace proxy::resp {

// Options in any case.
inline bool is_word(std::string_view arg, std::string_view word) {
  return arg.size() == word.size() && ::strncasecmp(arg.data(), word.data(), word.size()) == 0;
}

// As string2ll() in Redis's util.c: no sign but '-', no leading zeros, no blanks.
inline std::optional<std::int64_t> integer_of(std::string_view arg) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(arg.data(), arg.data() + arg.size(), value);
  if (error != std::errc{} || end != arg.data() + arg.size()) return std::nullopt;
  if (std::to_string(value) != arg) return std::nullopt;
  return value;
}

}  // namespace proxy::resp
