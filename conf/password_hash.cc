#include "conf/password_hash.h"

#include <openssl/sha.h>

namespace conf {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

PasswordHash hash_of(std::string_view password) {
  PasswordHash hash{};
  ::SHA256(reinterpret_cast<const unsigned char*>(password.data()), password.size(), hash.data());
  return hash;
}

std::optional<PasswordHash> hash_of_hex(std::string_view hex) {
  PasswordHash hash{};
  if (hex.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = digit_of(hex[2 * i]);
    const int low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return hash;
}

std::string hex_of(const PasswordHash& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : hash) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace conf
