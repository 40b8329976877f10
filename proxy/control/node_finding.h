// NodeFinding: what a node said of itself before a plan is approved, put together from its answers.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/control/needed_rights.h"
#include "proxy/control/node_reply.h"
#include "proxy/control/node_verifier.h"

namespace proxy::control {

struct NodeFinding {
  std::string problem = {};  // Why it could not be asked; empty when it answered.
  NodeFacts facts = {};
  std::string user = "default";                     // Whose rights these are.
  std::int64_t clock_ms_ahead = 0;                  // Of this proxy's clock,
  std::int64_t clock_ms_doubt = 0;                  // give or take: half of the way there and back.
  std::uint64_t machine_memory = 0;                 // Bytes; 0: it does not say.
  std::vector<std::uint64_t> other_databases = {};  // With keys, database 0 excepted; ascending.
  std::uint64_t databases = 0;                      // That it has; 0: it does not say.
  bool is_persistent = false;                       // AOF, RDB or a replica.
  std::vector<std::string> persistence_problems = {};  // "its last write to the AOF failed".
  std::vector<std::string> late_replicas = {};         // "10.0.0.9:6379 is 12 s behind".
  // Bytes of replies that may wait for a normal client before it is cut off; 0: any number.
  std::uint64_t reply_limit = 0;
  bool evicts_clients = false;                        // maxmemory-clients.
  std::optional<unsigned> payload_version;            // Of what DUMP makes; none: unknown.
  std::map<std::string, std::string> libraries = {};  // Of functions: name -> code.
  std::string identity = {};                          // What its identity key says; empty: nothing.
  Rights rights = {};
};
using Findings = std::map<std::string, NodeFinding>;

// What each answer says.
void take_info(NodeFinding& finding, const Reply& reply);
// `sent_at_ms`, `now_ms`: of this proxy's clock.
void take_time(NodeFinding& finding, const Reply& reply, std::int64_t sent_at_ms,
               std::int64_t now_ms);
// Of CONFIG GET with one name; a server that does not let us ask says nothing.
void take_config(NodeFinding& finding, const Reply& reply);
// Of DUMP of the identity key.
void take_payload(NodeFinding& finding, const Reply& reply);
// Of FUNCTION LIST WITHCODE; older servers have none.
void take_libraries(NodeFinding& finding, const Reply& reply);

// Of the server's version; 0: it says none.
[[nodiscard]] int major_version(const NodeFinding& finding);
// The version of the payloads that a server dumps and the newest that it reads.
[[nodiscard]] std::optional<unsigned> payload_version_of(const NodeFinding& finding);

}  // namespace proxy::control
