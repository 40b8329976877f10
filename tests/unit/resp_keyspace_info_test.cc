#include <doctest/doctest.h>

#include "proxy/resp/keyspace_info.h"

using proxy::resp::keys_by_database;

TEST_CASE("INFO keyspace says which databases hold keys, and how many") {
  const auto databases = keys_by_database(
      "# Keyspace\r\ndb0:keys=12,expires=0,avg_ttl=0\r\ndb15:keys=3,expires=1,avg_ttl=9\r\n");
  CHECK(databases == std::map<std::uint32_t, std::uint64_t>{{0, 12}, {15, 3}});
  CHECK(keys_by_database("# Keyspace\r\n").empty());
}

TEST_CASE("other lines of INFO that begin with db are none") {
  CHECK(keys_by_database("db_version:1\r\ndbx:keys=3\r\ndb:keys=3\r\ndb1\r\n").empty());
}
