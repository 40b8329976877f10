// RoutingTable: everything a worker needs to route, as one immutable snapshot.
//
// The control thread makes a new one whenever the map, a node's state, an address or a limit
// changes, and posts it to every worker. A worker keeps the snapshot it applied last; nothing in it
// changes afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/slot_map.h"

namespace proxy {

namespace resp {
class CommandTable;
}
namespace route {
class ClusterReplies;
}
namespace acl {
class Users;
std::shared_ptr<const Users> anybody();
}  // namespace acl

enum class NodeState : std::uint8_t {
  Unverified,  // Not reached yet since the start.
  Up,          // Answers, and is the server that it should be.
  Down,        // Does not answer.
  Refused,     // Answers, but is not the server that it should be (identity, role, cluster mode).
};

[[nodiscard]] std::string to_string(NodeState state);  // "unverified", "up", "down", "refused".

// While a snapshot carries a fence, workers keep back new requests for its slots (and those that
// name no keys and may write any), and say when all that they had sent to `source` before is
// answered (FenceAck). The next snapshot without it ends it: what was kept back goes to the slots'
// owners of that snapshot. One that is published meanwhile for other reasons carries it along.
struct Fence {
  std::uint64_t id = 0;  // Above 0, and never used for another one.
  slots::SlotSet slots;
  std::string source;  // The node that owns them, by name.
  std::string target;  // The one that is to own them.
};

// Every request that this worker had sent to the fence's source when the fence began is answered,
// or was lost with its connection; so is every flush, of whichever node.
struct FenceAck {
  std::uint64_t fence = 0;  // Fence::id.
  unsigned worker = 0;
  // Of connections to the source that were lost with unanswered requests on them: those may be
  // executed until each is ended at the server. They are named again until a fence that named them
  // has ended with its slots moved. 0: one that can't be named, so that nobody can end it.
  std::vector<std::uint64_t> lost_client_ids;
};

// A node as the workers see it; its place in RoutingTable::nodes is its NodeIndex in the map.
struct NodeRoute {
  std::string name;
  std::string id;  // 40 hex digits.
  conf::Address address;
  std::string username;
  std::string password;
  std::optional<conf::Address> endpoint;
  std::optional<conf::Address> announced;
  NodeState state = NodeState::Unverified;
  bool is_busy = false;           // Up, but a long script lets it answer nothing but BUSY.
  std::string identity;           // What its identity key must say; empty: not known yet.
  std::string reason;             // Why it is not Up, in words for a client; empty when Up.
  std::uint64_t incarnation = 0;  // Grows whenever the node comes Up with another run_id.
  // The one process of its server that may be sent anything; empty: any. A restarted one may have
  // lost slots that the node was given, and nobody else knows of the restart as soon as a worker.
  std::string only_run_id;
};

struct RoutingTable {
  std::uint64_t version = 0;  // Grows with every snapshot; the map's epoch only with its ownership.
  std::string cluster;
  std::shared_ptr<const slots::SlotMap> map;
  std::vector<NodeRoute> nodes;
  std::shared_ptr<const resp::CommandTable> commands;
  std::shared_ptr<const route::ClusterReplies>
      cluster_replies;                 // Null when no node has an endpoint.
  std::shared_ptr<const Fence> fence;  // Null: none.
  conf::Limits limits;
  conf::Timeouts timeouts;
  std::shared_ptr<const acl::Users> users = acl::anybody();  // Made for `commands`.
  bool forward_cluster = false;
  bool allow_config = false;
  bool ping_nodes = false;
  unsigned databases = 16;                    // That clients of the forward port may SELECT.
  std::vector<std::string> allowed_commands;  // Of those that act on one server.
  std::string redis_version;                  // Of the nodes; empty until one was verified.

  // Clients expect some version: until one is known, the one that the command table is made from.
  [[nodiscard]] std::string version_for_clients() const {
    return redis_version.empty() ? "7.0.15" : redis_version;
  }
};

// The next snapshot's beginning: nodes in the map's order with what the configuration says of them;
// states, identities and whatever else only `before` (may be null) knows are kept. `commands` and
// the version are the caller's to set.
[[nodiscard]] std::shared_ptr<RoutingTable> make_routing_table(
    const conf::Config& config, std::shared_ptr<const slots::SlotMap> map,
    const RoutingTable* before);
// Makes table.cluster_replies when every node has an endpoint; call it last. Where they would be
// the same as those of `before` (may be null), these are taken over.
void make_cluster_replies(RoutingTable& table, const RoutingTable* before);

}  // namespace proxy
