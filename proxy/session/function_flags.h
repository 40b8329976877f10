// Which functions declare that they don't write, from FUNCTION LIST. Pure.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace proxy::session {

// The names of functions flagged no-writes in a node's whole RESP2 reply to FUNCTION LIST. From a
// reply that is none: those before the place where that shows.
[[nodiscard]] std::unordered_set<std::string> read_only_functions(std::string_view reply);

}  // namespace proxy::session
