#include "proxy/resp/keyspace_info.h"

#include <algorithm>
#include <charconv>

namespace proxy::resp {

std::map<std::uint32_t, std::uint64_t> keys_by_database(std::string_view info) {
  constexpr std::string_view kKeys = ":keys=";
  std::map<std::uint32_t, std::uint64_t> databases;
  while (!info.empty()) {
    std::string_view line = info.substr(0, info.find('\n'));
    info.remove_prefix(std::min(line.size() + 1, info.size()));
    if (!line.starts_with("db")) continue;
    line.remove_prefix(2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !line.substr(colon).starts_with(kKeys)) continue;
    std::uint32_t database = 0;
    const auto number = std::from_chars(line.data(), line.data() + colon, database);
    if (number.ec != std::errc{} || number.ptr != line.data() + colon) continue;
    std::uint64_t keys = 0;
    const char* digits = line.data() + colon + kKeys.size();
    std::from_chars(digits, line.data() + line.size(), keys);
    databases[database] = keys;
  }
  return databases;
}

}  // namespace proxy::resp
