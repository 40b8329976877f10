// Keys of the proxy's own on the nodes: clients can't name them and never see them, and no move
// touches them.
#pragma once

#include <cstring>
#include <string_view>

namespace proxy::resp {

inline constexpr std::string_view kReservedPrefix = "__slotproxy:";
// Says which node of which cluster a server is.
inline constexpr std::string_view kIdentityKey = "__slotproxy:identity";

inline bool is_reserved_key(std::string_view key) {
  return key.size() >= kReservedPrefix.size() &&
         std::memcmp(key.data(), kReservedPrefix.data(), kReservedPrefix.size()) == 0;
}

}  // namespace proxy::resp
