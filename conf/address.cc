#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "conf/config.h"
#include "conf/loader.h"
#include "conf/words.h"

namespace conf {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un.sun_path less its final zero.
constexpr std::size_t kHostBytesMax = 253;
constexpr std::string_view kForm =
    "write host:port, such as 127.0.0.1:7001, or an absolute path to a Unix socket";

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool is_ip(int family, const std::string& text) {
  in6_addr scratch;  // Large enough for both families.
  return inet_pton(family, text.c_str(), &scratch) == 1;
}

// What is wrong with the host, in words; empty when nothing is.
std::string wrong_host(const std::string& host) {
  if (host.empty()) return "the host is missing; for all interfaces write 0.0.0.0 or [::]";
  if (host == "*") return "\"*\" is not a host; for all interfaces write 0.0.0.0 or [::]";
  if (host.find(':') != std::string::npos) {
    return is_ip(AF_INET6, host.substr(0, host.find('%')))
               ? ""
               : in_quotes(host) + " is not an IPv6 address";
  }
  if (host.size() > kHostBytesMax) return "the host is longer than 253 characters";
  if (host.find("${") != std::string::npos)
    return "variables such as \"${…}\" are not expanded; write the host itself";
  if (!std::ranges::all_of(host, is_host_character))
    return in_quotes(host) + " is neither a host name nor an IP address";
  const bool numeric = host.find_first_not_of("0123456789.") == std::string::npos;
  if (numeric && !is_ip(AF_INET, host)) return in_quotes(host) + " is not an IPv4 address";
  return {};
}

Result<Address> parse_socket_path(std::string_view text) {
  if (text.size() > kSocketPathBytesMax) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is {} bytes long; a Unix socket path has at most {}",
                            in_quotes(text), text.size(), kSocketPathBytesMax));
  }
  if (text.find('\0') != std::string_view::npos)
    return fail(Errc::InvalidArgument, in_quotes(text) + " holds a zero byte; no path can");
  if (text.back() == '/') {
    return fail(Errc::InvalidArgument,
                in_quotes(text) + " names a folder; a Unix socket path names the socket itself");
  }
  return Address{.host = {}, .port = 0, .path = std::string(text)};
}

}  // namespace

std::string Address::text() const {
  if (is_unix()) return path;
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  if (text.empty())
    return fail(Errc::InvalidArgument, fmt::format("the address is empty; {}", kForm));
  if (text.front() == '/') return parse_socket_path(text);
  if (text.find('/') != std::string_view::npos) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is not an address: {}", in_quotes(text), kForm));
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.back() == ']') {
    return fail(Errc::InvalidArgument, fmt::format("{} has no port; {}", in_quotes(text), kForm));
  }
  std::string host(text.substr(0, colon));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string::npos) {
      return fail(Errc::InvalidArgument,
                  in_quotes(text) + ": brackets stand around IPv6 addresses only");
    }
  }
  if (std::string wrong = wrong_host(host); !wrong.empty()) {
    return fail(Errc::InvalidArgument, in_quotes(text) + ": " + wrong);
  }
  const std::string_view digits = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port < 1 || port > 65535) {
    return fail(Errc::InvalidArgument, fmt::format("{}: port {} is not a number from 1 to 65535",
                                                   in_quotes(text), in_quotes(digits)));
  }
  return Address{.host = std::move(host), .port = static_cast<std::uint16_t>(port), .path = {}};
}

}  // namespace conf
