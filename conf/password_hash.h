// Passwords as Redis keeps them: their SHA-256. Pure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace conf {

using PasswordHash = std::array<unsigned char, 32>;

[[nodiscard]] PasswordHash hash_of(std::string_view password);
// 64 hexadecimal digits in lower case; nothing for anything else.
[[nodiscard]] std::optional<PasswordHash> hash_of_hex(std::string_view hex);
[[nodiscard]] std::string hex_of(const PasswordHash& hash);

}  // namespace conf
