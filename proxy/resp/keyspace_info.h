// Which numbered databases of a server hold keys: out of the text of INFO keyspace. Pure.
//
// Keys that have expired and are still there count too.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace proxy::resp {

// Database to number of keys. Lines of other sections are passed over.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> keys_by_database(std::string_view info);

}  // namespace proxy::resp
