// load(): a YAML file becomes a checked Config, or all of its mistakes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/config.h"
#include "slots/result.h"

namespace conf {

struct Mistake {
  int line = 0;         // From 1; 0 when the mistake has no place (a file that can't be read).
  int column = 0;       // From 1.
  std::string message;  // What is wrong, at which key with which value, and what would be right.
};

struct Mistakes {
  std::string file;
  std::vector<Mistake> list;  // Never empty; in file order.
  // One "file:line:column: message" per line, none after the last.
  [[nodiscard]] std::string text() const;
};

// Reads and checks everything in `path`; password files are read too. Touches nothing.
[[nodiscard]] std::expected<Config, Mistakes> load(const std::string& path);
// The same for text at hand; `file` names it in messages, and password files that are not absolute
// are looked for in its folder. Any bytes are fine as input: nothing throws, nesting and size are
// bounded.
[[nodiscard]] std::expected<Config, Mistakes> parse(const std::string& file, std::string_view yaml);

// "127.0.0.1:6400", "[::1]:6400", "host:6400" or "/path". Used for the command line too.
[[nodiscard]] slots::Result<Address> parse_address(std::string_view text);

}  // namespace conf
