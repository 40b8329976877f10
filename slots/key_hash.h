// key_hash(): tells keys apart where their names would take too much room. Two keys may have the
// same. The same on every machine and in every version, so that it may be kept in files. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace slots {

// FNV-1a of 64 bits.
[[nodiscard]] constexpr std::uint64_t key_hash(std::string_view key) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : key) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace slots
