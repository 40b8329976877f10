// Numbered databases: a key is a name in one of them, and a slot's keys lie in all of them.
//
// Servers report changes of a name, not of a key; which databases hold keys at all, INFO keyspace
// says. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace proxy::mover {

using Database = std::uint32_t;

struct DbKey {
  std::string name;
  Database database = 0;

  auto operator<=>(const DbKey&) const = default;
};

using Databases = std::set<Database>;

// Those that held keys when each node was asked.
struct UsedDatabases {
  Databases source = {};
  Databases target = {};
};

// Out of INFO keyspace. Keys that have expired and are still there count too.
[[nodiscard]] Databases databases_in(std::string_view info);

}  // namespace proxy::mover
