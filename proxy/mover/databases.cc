#include "proxy/mover/databases.h"

#include "proxy/resp/keyspace_info.h"

namespace proxy::mover {

Databases databases_in(std::string_view info) {
  Databases databases;
  for (const auto& [database, keys] : resp::keys_by_database(info)) databases.insert(database);
  return databases;
}

}  // namespace proxy::mover
