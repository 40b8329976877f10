// The admin protocol: what slotctl asks and what the daemon answers. RESP carries it, so that
// redis-cli can talk to the daemon too; the body of an answer is one bulk string of JSON on one
// line.
//
// Request:  an array of bulk strings or an inline command, at most kRequestBytesMax: a verb of
//           kVerbs in any case and its arguments. One request is answered before the next is read.
// Answer:   +PONG and +OK for PING, AUTH and QUIT; -ERR, -NOAUTH or -WRONGPASS, ending with what to
//           do; everything else is the JSON of one of the reports below.
// JSON:     fields as written here, in this order; see json_fields.h for what is left out and how
//           daemon and slotctl of different versions understand each other.
// Shared by daemon and CLI, and header-only for that reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/json_fields.h"

namespace admin {

inline constexpr std::size_t kRequestBytesMax = std::size_t{64} << 10;

struct VerbHelp {
  std::string_view verb;
  std::string_view arguments;
  std::string_view help;
};

inline constexpr std::array<VerbHelp, 14> kVerbs{{
    {"AUTH", "PASSWORD", "log in; needed first over TCP for all but PING, HEALTH and QUIT"},
    {"PING", "", "a sign of life"},
    {"STATUS", "", "the cluster, its nodes, workers and totals"},
    {"NODES", "", "the nodes in detail"},
    {"SLOTS", "[HEAT [N]]", "the slots of each node; HEAT: the hottest and the largest slots"},
    {"HOTKEYS", "[SECONDS] [N]", "watch requests for so long, then name the keys used most"},
    {"EXPLAIN", "KEY... | --command COMMAND ARG...", "slot and owner of keys, or a command's way"},
    {"STRAYS", "[LIST]", "count, or list, keys on nodes that do not own their slots"},
    {"PLAN", "PROPOSE --GOAL... | LIST | SHOW N | APPROVE N --digest D | HELP | ...",
     "plans: moves of slots that wait for approval, and what becomes of them"},
    {"RELOAD", "", "read the configuration again and apply what can change"},
    {"HEALTH", "", "whether every node is up"},
    {"CONFIG", "", "the configuration in force and its drift from the map"},
    {"HELP", "", "this list"},
    {"QUIT", "", "close the connection"},
}};

// Each report names its fields once, in describe(): to_json() and from_json() are made from that.

struct NodeReport {
  std::string name = {};
  std::string id = {};  // 40 hex digits; what cluster clients know it by.
  std::string address = {};
  std::optional<std::string> endpoint = {};
  std::optional<std::string> announced = {};
  std::string state = {};           // "up", "down", "refused" or "unverified".
  std::string reason = {};          // Why it is not up; empty when it is.
  std::uint64_t since_seconds = 0;  // How long it has been in that state.
  double weight = 1;
  std::uint64_t slots = 0;
  // Of the server last verified, at most some seconds old while up; absent when none was.
  std::optional<std::string> version = {};
  std::optional<std::string> run_id = {};
  std::optional<std::uint64_t> keys = {};
  std::optional<std::uint64_t> used_memory = {};  // Bytes.
  std::optional<std::uint64_t> maxmemory = {};    // Bytes; 0: no limit.
  std::optional<std::string> maxmemory_policy = {};
  std::optional<std::uint64_t> ops_per_second = {};
  std::uint64_t incarnation = 0;

  [[nodiscard]] bool is_up() const { return state == "up"; }
  friend bool operator==(const NodeReport&, const NodeReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("name", self.name);
    field("id", self.id);
    field("address", self.address);
    field("endpoint", self.endpoint);
    field("announced", self.announced);
    field("state", self.state);
    field("reason", self.reason);
    field("since_seconds", self.since_seconds);
    field("weight", self.weight);
    field("slots", self.slots);
    field("version", self.version);
    field("run_id", self.run_id);
    field("keys", self.keys);
    field("used_memory", self.used_memory);
    field("maxmemory", self.maxmemory);
    field("maxmemory_policy", self.maxmemory_policy);
    field("ops_per_second", self.ops_per_second);
    field("incarnation", self.incarnation);
  }
};

struct WorkerReport {
  std::uint64_t clients = 0;
  std::uint64_t commands = 0;                          // Since the start, like the errors.
  std::uint64_t errors = 0;                            // Error replies of the proxy's own.
  std::map<std::string, std::uint64_t> counters = {};  // Whatever else a worker counts, by name.

  friend bool operator==(const WorkerReport&, const WorkerReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("clients", self.clients);
    field("commands", self.commands);
    field("errors", self.errors);
    field("counters", self.counters);
  }
};

// A plan that has not ended.
struct OpenPlanReport {
  std::uint64_t id = 0;
  std::string state = {};
  std::string purpose = {};
  std::string reason = {};  // Why it is in that state; may be empty.

  friend bool operator==(const OpenPlanReport&, const OpenPlanReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("id", self.id);
    field("state", self.state);
    field("purpose", self.purpose);
    field("reason", self.reason);
  }
};

struct StatusReport {
  std::string version = {};  // The daemon's.
  std::string cluster = {};
  std::uint64_t epoch = 0;
  std::uint64_t uptime_seconds = 0;
  bool is_draining = false;
  std::uint64_t clients = 0;
  double ops_per_second = 0;
  std::uint64_t commands = 0;
  std::uint64_t errors = 0;
  std::uint64_t bytes_in = 0;  // From clients, since the start.
  std::uint64_t bytes_out = 0;
  std::string config_path = {};
  std::vector<std::string> drift = {};
  std::vector<OpenPlanReport> plans = {};
  std::vector<WorkerReport> workers = {};
  std::vector<NodeReport> nodes = {};

  friend bool operator==(const StatusReport&, const StatusReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("version", self.version);
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("uptime_seconds", self.uptime_seconds);
    field("draining", self.is_draining);
    field("clients", self.clients);
    field("ops_per_second", self.ops_per_second);
    field("commands", self.commands);
    field("errors", self.errors);
    field("bytes_in", self.bytes_in);
    field("bytes_out", self.bytes_out);
    field("config_path", self.config_path);
    field("drift", self.drift);
    field("plans", self.plans);
    field("workers", self.workers);
    field("nodes", self.nodes);
  }
};

struct NodesReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  std::vector<NodeReport> nodes = {};

  friend bool operator==(const NodesReport&, const NodesReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("nodes", self.nodes);
  }
};

struct SlotOwner {
  std::string node = {};
  std::string address = {};
  std::string state = {};
  std::uint64_t slots = 0;
  std::vector<std::string> ranges = {};  // "0-5460" or "7000", ascending.

  friend bool operator==(const SlotOwner&, const SlotOwner&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("address", self.address);
    field("state", self.state);
    field("slots", self.slots);
    field("ranges", self.ranges);
  }
};

struct SlotsReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  std::vector<SlotOwner> owners = {};

  friend bool operator==(const SlotsReport&, const SlotsReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("owners", self.owners);
  }
};

struct KeyPlace {
  Bytes key = {};
  Bytes hashed_part = {};
  std::uint64_t slot = 0;
  std::string node = {};
  std::string address = {};
  std::optional<std::string> announced = {};  // Where MOVED sends cluster clients.
  std::string state = {};
  std::string reason = {};
  bool is_reserved = false;  // The proxy's own key, refused to clients.

  friend bool operator==(const KeyPlace&, const KeyPlace&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("key", self.key);
    field("hashed_part", self.hashed_part);
    field("slot", self.slot);
    field("node", self.node);
    field("address", self.address);
    field("announced", self.announced);
    field("state", self.state);
    field("reason", self.reason);
    field("reserved", self.is_reserved);
  }
};

// The part of a command that one node gets.
struct CommandPart {
  std::string node = {};
  std::string address = {};
  std::string state = {};
  std::string reason = {};
  std::vector<Bytes> keys = {};  // Of the command, in its order.

  friend bool operator==(const CommandPart&, const CommandPart&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("address", self.address);
    field("state", self.state);
    field("reason", self.reason);
    field("keys", self.keys);
  }
};

struct ExplainReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  // Of EXPLAIN --command only: the command's name, what becomes of it on the forward port
  // ("one_node", "split", "all_nodes", "any_node", "local", "cross_slot" or "refused"), and why, in
  // words.
  std::optional<std::string> command = {};
  std::optional<std::string> outcome = {};
  std::optional<std::string> why = {};
  std::vector<KeyPlace> keys = {};
  std::vector<CommandPart> parts = {};  // Empty when no node gets anything, or for plain keys.

  friend bool operator==(const ExplainReport&, const ExplainReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("command", self.command);
    field("outcome", self.outcome);
    field("why", self.why);
    field("keys", self.keys);
    field("parts", self.parts);
  }
};

struct NodeStrays {
  std::string node = {};
  std::uint64_t keys = 0;                // Seen.
  std::uint64_t strays = 0;              // Of them, keys of slots that other nodes own.
  std::vector<std::string> ranges = {};  // Of the strays' slots.
  std::vector<Bytes> names = {};         // With LIST: the first of them.
  bool is_exact = true;                  // False: so many that some may have been counted twice.
  std::string error = {};                // Why the node was not counted; empty when it was.

  friend bool operator==(const NodeStrays&, const NodeStrays&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("keys", self.keys);
    field("strays", self.strays);
    field("ranges", self.ranges);
    field("names", self.names);
    field("exact", self.is_exact);
    field("error", self.error);
  }
};

struct StraysReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  bool is_list = false;
  std::vector<NodeStrays> nodes = {};

  friend bool operator==(const StraysReport&, const StraysReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("list", self.is_list);
    field("nodes", self.nodes);
  }
};

struct ReloadReport {
  std::vector<std::string> notes = {};  // What changed, what needs a restart, what is drift.

  friend bool operator==(const ReloadReport&, const ReloadReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("notes", self.notes);
  }
};

// Says nothing that a stranger must not know: it is answered before AUTH.
struct HealthReport {
  std::string health = {};  // "ok", "degraded" (a node is not up) or "draining".
  std::uint64_t nodes = 0;
  std::uint64_t nodes_up = 0;
  std::uint64_t slots_served = 0;  // Slots whose owner is up.

  friend bool operator==(const HealthReport&, const HealthReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("health", self.health);
    field("nodes", self.nodes);
    field("nodes_up", self.nodes_up);
    field("slots_served", self.slots_served);
  }
};

struct ConfigOption {
  std::string path = {};                 // "limits.bulk", or "nodes[0].address".
  std::vector<std::string> values = {};  // Passwords are "(set)"; none: not set.

  friend bool operator==(const ConfigOption&, const ConfigOption&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("option", self.path);
    field("values", self.values);
  }
};

struct ConfigReport {
  std::string path = {};
  std::vector<std::string> drift = {};
  std::vector<ConfigOption> options = {};

  friend bool operator==(const ConfigReport&, const ConfigReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("path", self.path);
    field("drift", self.drift);
    field("options", self.options);
  }
};

struct HelpVerb {
  std::string verb = {};
  std::string arguments = {};
  std::string help = {};

  friend bool operator==(const HelpVerb&, const HelpVerb&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("verb", self.verb);
    field("arguments", self.arguments);
    field("help", self.help);
  }
};

struct HelpReport {
  std::vector<HelpVerb> verbs = {};

  friend bool operator==(const HelpReport&, const HelpReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("verbs", self.verbs);
  }
};

}  // namespace admin
