// The names of keys that a collection of strays has given to their owner, while the copies where
// they lay before are still there: a set on the owner, of the proxy's own. Pure.
#pragma once

#include <string>
#include <string_view>

namespace proxy::resp {

inline constexpr std::string_view kNotedKey = "__slotproxy:strays";

// A member: whose stray it was. Names of nodes have no colon.
[[nodiscard]] inline std::string noted_name(std::string_view source, std::string_view key) {
  std::string name(source);
  name += ':';
  name += key;
  return name;
}

// The key of a member that is of this source; empty for others.
[[nodiscard]] inline std::string_view key_of_note(std::string_view source, std::string_view note) {
  const bool is_of_source =
      note.size() > source.size() && note.starts_with(source) && note[source.size()] == ':';
  return is_of_source ? note.substr(source.size() + 1) : std::string_view{};
}

}  // namespace proxy::resp
