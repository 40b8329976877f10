// Config: what the configuration file says, checked, with the units in the types.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slots/measure.h"
#include "slots/placement/placement.h"
#include "slots/slot.h"

namespace conf {

using Milliseconds = std::chrono::milliseconds;
using ByteCount = std::uint64_t;

// "host:port" (IPv6 in brackets or split at the last colon) or a Unix socket path (begins with
// '/').
struct Address {
  std::string host;  // Name or IP, without brackets. Empty for a Unix socket.
  std::uint16_t port = 0;
  std::string path;  // Unix socket path. Empty for TCP.

  [[nodiscard]] bool is_unix() const { return !path.empty(); }
  [[nodiscard]] std::string text() const;  // As written in YAML; IPv6 in brackets.
  friend bool operator==(const Address&, const Address&) = default;
};

struct NodeConfig {
  std::string name;
  Address address;
  std::optional<Address> endpoint;  // A listener of this proxy; TCP.
  std::optional<Address> announce;  // What MOVED and CLUSTER say instead of the endpoint.
  double weight = 1.0;
  std::optional<slots::SlotSet> slots;
  std::string username;
  std::string password;       // From password or password_file.
  std::string password_file;  // As written; the loader has already read it into password.

  // What cluster-aware clients are told; empty when the node has no endpoint.
  [[nodiscard]] std::optional<Address> announced() const { return announce ? announce : endpoint; }
  friend bool operator==(const NodeConfig&, const NodeConfig&) = default;
};

// Whoever logs in to the admin port with this password; so that two persons can be told apart.
struct AdminUser {
  std::string name;
  std::string password;

  friend bool operator==(const AdminUser&, const AdminUser&) = default;
};

struct ListenConfig {
  std::vector<Address> forward;
  bool forward_cluster = false;  // The forward port answers CLUSTER as a seed for cluster clients.
  std::string password;          // What clients must AUTH with; empty: none.
  Address admin{.host = {}, .port = 0, .path = "/tmp/slotproxy/admin.sock"};
  std::string admin_password;
  std::vector<AdminUser> admin_users;
  std::string password_file;  // As written; the loader has already read them into the passwords.
  std::string admin_password_file;

  friend bool operator==(const ListenConfig&, const ListenConfig&) = default;
};

struct Timeouts {
  Milliseconds connect{1000};
  Milliseconds node_silent{3000};
  Milliseconds request{0};  // 0: no limit, since long scripts are legitimate.
  Milliseconds stalled_client{60000};
  Milliseconds drain{10000};

  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

struct Limits {
  std::uint64_t clients = 10000;            // Client sessions of this proxy.
  ByteCount bulk = 512ULL << 20;            // One argument (Redis's proto-max-bulk-len).
  ByteCount buffered_request = 64'000'000;  // A request whose keys are known only at its end.
  ByteCount stream_request = 64ULL
                             << 10;    // Larger requests are streamed on a connection of their own.
  ByteCount stream_reply = 1'000'000;  // A larger reply takes its connection for itself.
  std::uint64_t inflight_requests = 1024;  // Per client: sent to nodes and not yet answered.
  ByteCount inflight_bytes = 1'000'000;    // Per client: request bytes of those.
  ByteCount unread_replies =
      48'000'000;  // Per client: replies it has not read; then its requests wait.
  ByteCount unread_replies_total =
      512'000'000;                          // All clients: beyond it the one with most is closed.
  ByteCount unread_messages = 32ULL << 20;  // Per client: pub/sub messages; beyond it it is closed.
  ByteCount subscribed_names = 16'000'000;  // Per client: what it has subscribed, by name.
  std::uint64_t tracked_keys = 1'000'000;   // Per worker: keys that CLIENT TRACKING remembers.
  ByteCount node_queue = 64'000'000;        // Per worker and node: request bytes not yet sent.
  ByteCount merged_reply = 64'000'000;      // A reply put together from several nodes.
  std::uint64_t large_connections = 16;  // Per worker and node: connections for streamed requests.
  std::uint64_t pinned_connections = 100;     // Per worker and node: of sessions that watch keys.
  std::uint64_t blocking_connections = 1000;  // Per worker and node: of requests that may block.
  ByteCount script_cache = 64'000'000;        // Script sources remembered.
  std::uint64_t slot_scan_keys =
      10'000'000;  // CLUSTER COUNTKEYSINSLOT is refused on a larger node.

  friend bool operator==(const Limits&, const Limits&) = default;
};

// How slow nodes may answer clients while a plan moves slots; neither: it does not matter.
struct LatencyTarget {
  Milliseconds at_most{0};  // Of the p99.
  double times_usual = 0;   // Of the p99 before the plan.

  [[nodiscard]] bool is_set() const { return at_most.count() > 0 || times_usual > 0; }
  friend bool operator==(const LatencyTarget&, const LatencyTarget&) = default;
};

struct Rebalance {
  ByteCount bandwidth = 20'000'000;  // Bytes per second that a plan may move; 0: no limit.
  Milliseconds pause{50};            // The longest pause of a group of slots.
  unsigned node_share = 6;           // Percent of a node's time that a plan with a limit may take.
  // How long a source keeps its copies when the target has neither AOF, RDB nor a replica.
  Milliseconds grace{10000};
  LatencyTarget latency;
  double propose_at = 0;               // A spread, largest over fair share; 0: never.
  Milliseconds propose_after{600000};  // For so long above it.
  slots::Measure propose_by = slots::Measure::Keys;

  friend bool operator==(const Rebalance&, const Rebalance&) = default;
};

// Where something stands in the file. What is equal is so wherever it stands.
struct Whereabouts {
  int line = 0;  // From 1; 0: nowhere.
  int column = 0;

  friend bool operator==(const Whereabouts&, const Whereabouts&) { return true; }
};

struct PlacedText {
  std::string text;
  Whereabouts where;

  friend bool operator==(const PlacedText&, const PlacedText&) = default;
};

// Whom clients may log in as. What the rules mean is not known here.
struct UserConfig {
  std::string name;
  bool enabled = true;
  bool nopass = false;
  std::vector<std::string> passwords;  // SHA-256: 64 hex digits; from passwords or passwords_file.
  std::string passwords_file;          // As written; the loader has already read it.
  std::vector<PlacedText> rules;       // In the words of Redis's ACL SETUSER, parted by blanks.
  std::uint64_t connections = 0;       // At once; 0: any number.
  Whereabouts where;

  friend bool operator==(const UserConfig&, const UserConfig&) = default;
};

enum class Approval {
  OnePerson,
  TwoPerson,  // Who approves a plan has other credentials than who proposed it.
};

enum class LogLevel { Debug, Info, Warn, Error };

constexpr unsigned kDatabasesMax = 64;

struct LogConfig {
  LogLevel level = LogLevel::Info;
  std::string file;  // Empty: stderr.

  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

struct Config {
  std::string cluster;
  ListenConfig listen;
  std::optional<unsigned> workers;  // Empty: auto, the number of cores.
  std::string state_dir = "/var/lib/slotproxy";
  slots::PlacementKind placement = slots::PlacementKind::Balanced;
  bool allow_config = false;  // CONFIG SET and RESETSTAT of clients go to all nodes.
  bool ping_nodes = false;    // A client's PING asks all nodes.
  unsigned databases = 16;    // That clients of the forward port may SELECT; 1 to kDatabasesMax.
  std::vector<PlacedText> refused_commands;  // "keys", "config|set": no client may.
  std::vector<PlacedText> allowed_commands;  // Of those that are refused otherwise.
  std::vector<UserConfig> users;
  std::vector<NodeConfig> nodes;
  Limits limits;
  Timeouts timeouts;
  Rebalance rebalance;
  Approval approval = Approval::OnePerson;
  LogConfig log;

  [[nodiscard]] bool has_endpoints() const {
    return !nodes.empty() && nodes.front().endpoint.has_value();
  }
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace conf
