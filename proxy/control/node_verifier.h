// NodeVerifier: is the server behind a connection the one that a node's name stands for? Pure:
// replies in, commands out.
//
// The conversation: AUTH, CLIENT SETNAME, INFO, GET (and SET NX) of the identity key; at the first
// verification by this process CLIENT LIST and CLIENT KILL of what its previous incarnation left;
// COMMAND when it is wanted.
//
// Thread:  any; no I/O, no clock, no randomness of its own.
// Why:     a proxy that sends a slot's commands to a server that merely answers at the right
//          address (a replica, a cluster node, another node's server after addresses were mixed up,
//          an old copy) loses data silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/control/node_reply.h"

namespace proxy::control {

// What INFO said. Numbers are 0 and texts empty where it said nothing.
struct NodeFacts {
  std::string version;  // redis_version; of Valkey, the Redis version that it is compatible with.
  std::string run_id;
  std::string role;
  bool cluster_enabled = false;
  bool loading = false;
  std::uint64_t used_memory = 0;  // Bytes.
  std::uint64_t dataset = 0;      // Bytes of it that are data.
  std::uint64_t maxmemory = 0;    // Bytes; 0: no limit.
  std::string maxmemory_policy;
  std::uint64_t keys = 0;  // Of all databases, the proxy's own included.
  std::uint64_t ops_per_second = 0;
  std::uint64_t connected_clients = 0;
};

[[nodiscard]] NodeFacts parse_info(std::string_view info);
[[nodiscard]] std::uint64_t number_of(std::string_view text);  // 0 when it is none.

// Why a server with these facts can't be a node ("is a replica of another server"); nothing when it
// can.
[[nodiscard]] std::optional<std::string> why_unsuitable(const NodeFacts& facts);

// Why a server with this identity is not that node ("belongs to cluster ..."); nothing when it is.
[[nodiscard]] std::optional<std::string> why_foreign(std::string_view identity,
                                                     std::string_view cluster,
                                                     std::string_view node);

// "<cluster>/<node>/<16 hex digits>".
[[nodiscard]] std::string identity_of(std::string_view cluster, std::string_view node,
                                      std::uint64_t random);

struct VerifyOptions {
  std::string cluster;
  std::string node;
  std::string username;
  std::string password;            // Sent unless it and the user are empty.
  std::string expected_identity;   // As recorded; empty: none yet.
  std::string new_identity;        // What to give the node if it has none and none is recorded.
  std::string client_name_prefix;  // Connections are named prefix + incarnation, e.g.
                                   // "slotproxy:shop:5f3a:" + "7".
  std::string incarnation;
  bool kill_predecessors = false;  // End connections of the same prefix and another incarnation.
  bool fetch_commands = false;
  // Claims a run_id for this node; says which other node holds it, if one does. May be null.
  std::function<std::optional<std::string>(const std::string& run_id)> claim_run_id;
};

enum class VerifyOutcome : std::uint8_t {
  Verified,  // It is the right server.
  Refused,   // It is not; asking again makes sense only after somebody has changed something.
  Alive,   // It answers, but can't be judged now (LOADING, BUSY): ask again on the same connection.
  Failed,  // It will not serve this connection (no room for clients): connect again later.
};

struct Verdict {
  VerifyOutcome outcome = VerifyOutcome::Failed;
  std::string reason;  // In words, after the node's name ("is a replica …"); empty when verified.
};

class NodeVerifier {
 public:
  using Step = std::variant<Command, Verdict>;

  explicit NodeVerifier(VerifyOptions options);

  [[nodiscard]] Command first_command();
  // The reply to the last command: what to send next, or the verdict. Not to be called after the
  // verdict.
  [[nodiscard]] Step on_reply(const Reply& reply);

  // Known once INFO was answered, whatever the verdict.
  [[nodiscard]] const NodeFacts& facts() const { return facts_; }
  // The identity found or given; empty when it was not reached, or could not be written.
  [[nodiscard]] const std::string& identity() const { return identity_; }
  // Something an operator should read although the node is usable; empty: nothing.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  [[nodiscard]] std::size_t killed_connections() const { return killed_; }
  // COMMAND's reply as RESP2 bytes; empty when it was not asked for or not answered.
  [[nodiscard]] std::string take_commands() { return std::move(commands_); }

 private:
  enum class Asking : std::uint8_t {
    Auth,
    SetName,
    Info,
    GetIdentity,
    SetIdentity,
    ClientList,
    ClientKill,
    Commands
  };

  Command ask(Asking what, Command command);
  Command ask_name();
  Step on_error(const Reply& error);
  Step on_info(const Reply& reply);
  Step on_identity(const Reply& reply);
  Step on_identity_set(const Reply& reply);
  Step on_client_list(const Reply& reply);
  Step after_identity();
  Step next_kill();
  Step after_kills();

  VerifyOptions options_;
  Asking asking_ = Asking::Auth;
  NodeFacts facts_;
  std::string identity_;
  std::string warning_;
  std::string commands_;
  std::vector<std::string> to_kill_;  // Client ids.
  std::size_t killed_ = 0;
  bool set_tried_ = false;
};

}  // namespace proxy::control
