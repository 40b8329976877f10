#include "proxy/route/info_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <unordered_map>

namespace proxy::route {
namespace {

using Lines = std::vector<std::pair<std::string_view, std::string_view>>;

// One node's INFO, apart.
struct NodeFields {
  explicit NodeFields(std::string_view info) {
    while (!info.empty()) {
      std::size_t length = info.find('\n');
      std::string_view line = info.substr(0, length);
      info.remove_prefix(length == std::string_view::npos ? info.size() : length + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      std::size_t colon = line.find(':');
      if (line.starts_with('#') || colon == 0 || colon == std::string_view::npos) continue;
      lines.emplace_back(line.substr(0, colon), line.substr(colon + 1));
      by_name.emplace(lines.back());
    }
  }

  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const {
    auto found = by_name.find(name);
    if (found == by_name.end()) return std::nullopt;
    return found->second;
  }

  Lines lines;
  std::unordered_map<std::string_view, std::string_view> by_name;
};

std::int64_t whole(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double decimal(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

// As bytesToHuman() of Redis spells it.
std::string human(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{}B", bytes);
  double value = static_cast<double>(bytes);
  for (char unit : {'K', 'M', 'G', 'T'}) {
    value /= 1024;
    if (value < 1024) return fmt::format("{:.2f}{}", value, unit);
  }
  return fmt::format("{:.2f}P", value / 1024);
}

// "keys=3,expires=0": the value of `name`, 0 without it.
std::string_view part_of(std::string_view value, std::string_view name) {
  while (!value.empty()) {
    std::string_view part = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), part.size() + 1));
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=') {
      return part.substr(name.size() + 1);
    }
  }
  return "0";
}

std::uint64_t count_of(std::string_view value, std::string_view name) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole(part_of(value, name))));
}

bool is_database(std::string_view field) {
  return field.size() > 2 && field.starts_with("db") &&
         field.find_first_not_of("0123456789", 2) == std::string_view::npos;
}

struct Database {
  std::uint64_t keys = 0;
  std::uint64_t expires = 0;
  double ttl_sum = 0;  // Of all keys that expire, in ms.
};

enum class Rule : std::uint8_t {
  Sum,
  Seconds,  // Sum of decimals, 6 digits.
  Rate,     // Sum of decimals, 2 digits.
  Max,
  First,  // The first node's that says it.
  Worst,  // The first node's that differs from the fallback.
  Human,  // Of the field without "_human", which stands before it.
  Fixed,  // The fallback.
  Own,
};

class Merge;
using OwnText = std::string (*)(const Merge&);

struct Field {
  std::string_view name;
  Rule rule = Rule::Sum;
  std::string_view fallback = {};  // When no node says it; empty: the field is left out.
  OwnText own = nullptr;           // Empty text: left out.
};

struct Section {
  std::string_view name;
  std::string_view title;
  std::span<const Field> fields;
  bool in_default = true;
  void (*lines)(const Merge&, std::string&) = nullptr;  // Instead of fields.
};

class Merge {
 public:
  Merge(const ProxyFacts& the_facts, const std::vector<NodeInfo>& the_nodes)
      : facts(the_facts), nodes(the_nodes) {
    for (const NodeInfo& node : nodes) fields_.push_back(NodeFields(node.info.value_or("")));
  }

  [[nodiscard]] std::int64_t sum(std::string_view name) const {
    std::int64_t sum = 0;
    for (const NodeFields& node : fields_) sum = add(sum, whole(node.find(name).value_or("0")));
    return sum;
  }
  [[nodiscard]] std::string text(const Field& field) const;
  void databases(std::size_t node, std::map<std::uint64_t, Database>& sums) const;
  [[nodiscard]] const std::vector<NodeFields>& fields() const { return fields_; }

  const ProxyFacts& facts;
  const std::vector<NodeInfo>& nodes;

 private:
  [[nodiscard]] std::string merged(const Field& field) const;

  std::vector<NodeFields> fields_;
};

std::string Merge::text(const Field& field) const {
  switch (field.rule) {
    case Rule::Fixed:
      return std::string(field.fallback);
    case Rule::Own:
      return field.own(*this);
    case Rule::Human:
      return human(
          sum(field.name.substr(0, field.name.size() - std::string_view("_human").size())));
    default:
      return merged(field);
  }
}

std::string Merge::merged(const Field& field) const {
  std::optional<std::string_view> chosen;
  double decimals = 0;
  for (const NodeFields& node : fields_) {
    std::optional<std::string_view> value = node.find(field.name);
    if (!value) continue;
    decimals += decimal(*value);
    bool better = !chosen || (field.rule == Rule::Max && whole(*value) > whole(*chosen)) ||
                  (field.rule == Rule::Worst && *chosen == field.fallback);
    if (better) chosen = value;
  }
  if (!chosen) return std::string(field.fallback);
  if (field.rule == Rule::Sum) return fmt::to_string(sum(field.name));
  if (field.rule == Rule::Seconds) return fmt::format("{:.6f}", decimals);
  if (field.rule == Rule::Rate) return fmt::format("{:.2f}", decimals);
  return std::string(*chosen);
}

// Adds a node's databases to `sums`, without the keys that clients can't see.
void Merge::databases(std::size_t node, std::map<std::uint64_t, Database>& sums) const {
  for (const auto& [name, value] : fields_[node].lines) {
    if (!is_database(name)) continue;
    auto number = static_cast<std::uint64_t>(whole(name.substr(2)));
    std::uint64_t keys = count_of(value, "keys");
    if (number == 0) keys -= std::min(keys, nodes[node].hidden_keys);
    std::uint64_t expires = std::min(keys, count_of(value, "expires"));
    Database& database = sums[number];
    database.keys += keys;
    database.expires += expires;
    database.ttl_sum +=
        static_cast<double>(expires) * static_cast<double>(count_of(value, "avg_ttl"));
  }
}

std::string maxmemory(const Merge& merge) {
  // One node without a limit makes the whole unlimited.
  for (const NodeFields& node : merge.fields()) {
    if (node.find("maxmemory") == "0") return "0";
  }
  return fmt::to_string(merge.sum("maxmemory"));
}

std::string fragmentation(const Merge& merge) {
  auto used = static_cast<double>(merge.sum("used_memory"));
  if (used <= 0) return {};
  return fmt::format("{:.2f}", static_cast<double>(merge.sum("used_memory_rss")) / used);
}

constexpr Field own(std::string_view name, OwnText text) { return {name, Rule::Own, {}, text}; }
constexpr Field fixed(std::string_view name, std::string_view text) {
  return {name, Rule::Fixed, text};
}

constexpr Field kServer[] = {
    own("redis_version", [](const Merge& m) { return m.facts.redis_version; }),
    own("slotproxy_version", [](const Merge& m) { return m.facts.slotproxy_version; }),
    own("slotproxy_epoch", [](const Merge& m) { return fmt::to_string(m.facts.epoch); }),
    own("slotproxy_workers", [](const Merge& m) { return fmt::to_string(m.facts.workers); }),
    own("slotproxy_nodes", [](const Merge& m) { return fmt::to_string(m.nodes.size()); }),
    own("redis_mode",
        [](const Merge& m) {
          return std::string(m.facts.cluster_mode ? "cluster" : "standalone");
        }),
    {"os", Rule::First},
    fixed("arch_bits", "64"),
    fixed("multiplexing_api", "epoll"),
    own("process_id", [](const Merge& m) { return fmt::to_string(m.facts.process_id); }),
    own("run_id", [](const Merge& m) { return m.facts.run_id; }),
    own("tcp_port", [](const Merge& m) { return fmt::to_string(m.facts.tcp_port); }),
    {"server_time_usec", Rule::Max},
    own("uptime_in_seconds", [](const Merge& m) { return fmt::to_string(m.facts.uptime_seconds); }),
    own("uptime_in_days",
        [](const Merge& m) { return fmt::to_string(m.facts.uptime_seconds / 86400); }),
};

constexpr Field kClients[] = {
    own("connected_clients", [](const Merge& m) { return fmt::to_string(m.facts.clients); }),
    fixed("cluster_connections", "0"),
    own("maxclients",
        [](const Merge& m) {
          return m.facts.clients_max == 0 ? "" : fmt::to_string(m.facts.clients_max);
        }),
    own("blocked_clients", [](const Merge& m) { return fmt::to_string(m.facts.blocked_clients); }),
    own("tracking_clients",
        [](const Merge& m) { return fmt::to_string(m.facts.tracking_clients); }),
};

constexpr Field kMemory[] = {
    {"used_memory", Rule::Sum, "0"},
    {"used_memory_human", Rule::Human},
    {"used_memory_rss", Rule::Sum, "0"},
    {"used_memory_rss_human", Rule::Human},
    {"used_memory_peak", Rule::Sum, "0"},
    {"used_memory_peak_human", Rule::Human},
    {"used_memory_overhead"},
    {"used_memory_startup"},
    {"used_memory_dataset"},
    {"total_system_memory", Rule::Max},
    {"used_memory_lua"},
    {"used_memory_scripts"},
    {"number_of_cached_scripts", Rule::Max},  // The same ones at all nodes.
    {"number_of_functions", Rule::Max},
    {"number_of_libraries", Rule::Max},
    own("maxmemory", maxmemory),
    own("maxmemory_human", [](const Merge& m) { return human(whole(maxmemory(m))); }),
    {"maxmemory_policy", Rule::First, "noeviction"},
    own("mem_fragmentation_ratio", fragmentation),
    {"mem_fragmentation_bytes"},
    {"mem_clients_normal"},
    {"mem_aof_buffer"},
    {"mem_allocator", Rule::First},
    {"lazyfree_pending_objects"},
    {"lazyfreed_objects"},
};

constexpr Field kPersistence[] = {
    // A node that loads its data makes its slots unavailable, not the proxy: libraries wait while
    // this is 1.
    fixed("loading", "0"),
    fixed("async_loading", "0"),
    {"rdb_changes_since_last_save", Rule::Sum, "0"},
    {"rdb_bgsave_in_progress", Rule::Max, "0"},
    {"rdb_last_save_time", Rule::Max},
    {"rdb_last_bgsave_status", Rule::Worst, "ok"},
    {"rdb_last_bgsave_time_sec", Rule::Max},
    {"rdb_current_bgsave_time_sec", Rule::Max},
    {"rdb_saves"},
    {"rdb_last_cow_size"},
    {"aof_enabled", Rule::Max, "0"},
    {"aof_rewrite_in_progress", Rule::Max, "0"},
    {"aof_rewrite_scheduled", Rule::Max},
    {"aof_last_rewrite_time_sec", Rule::Max},
    {"aof_last_bgrewrite_status", Rule::Worst, "ok"},
    {"aof_last_write_status", Rule::Worst, "ok"},
    {"aof_current_size"},
    {"aof_base_size"},
};

constexpr Field kStats[] = {
    own("total_connections_received",
        [](const Merge& m) { return fmt::to_string(m.facts.connections_total); }),
    own("total_commands_processed",
        [](const Merge& m) { return fmt::to_string(m.facts.requests_total); }),
    {"instantaneous_ops_per_sec", Rule::Sum, "0"},
    {"total_net_input_bytes", Rule::Sum, "0"},
    {"total_net_output_bytes", Rule::Sum, "0"},
    {"instantaneous_input_kbps", Rule::Rate, "0.00"},
    {"instantaneous_output_kbps", Rule::Rate, "0.00"},
    {"rejected_connections", Rule::Sum, "0"},
    {"expired_keys", Rule::Sum, "0"},
    {"expired_time_cap_reached_count"},
    {"evicted_keys", Rule::Sum, "0"},
    {"evicted_clients"},
    {"keyspace_hits", Rule::Sum, "0"},
    {"keyspace_misses", Rule::Sum, "0"},
    own("pubsub_channels", [](const Merge& m) { return fmt::to_string(m.facts.channels); }),
    own("pubsub_patterns", [](const Merge& m) { return fmt::to_string(m.facts.patterns); }),
    own("pubsubshard_channels",
        [](const Merge& m) { return fmt::to_string(m.facts.sharded_channels); }),
    {"latest_fork_usec", Rule::Max},
    {"total_forks"},
    own("tracking_total_keys", [](const Merge& m) { return fmt::to_string(m.facts.tracked_keys); }),
    own("tracking_total_items",
        [](const Merge& m) { return fmt::to_string(m.facts.tracked_items); }),
    own("tracking_total_prefixes",
        [](const Merge& m) { return fmt::to_string(m.facts.tracked_prefixes); }),
    own("total_error_replies", [](const Merge& m) { return fmt::to_string(m.facts.errors_total); }),
    {"total_reads_processed"},
    {"total_writes_processed"},
};

constexpr Field kReplication[] = {
    fixed("role", "master"),
    fixed("connected_slaves", "0"),
    fixed("master_failover_state", "no-failover"),
    own("master_replid", [](const Merge& m) { return m.facts.run_id; }),
    fixed("master_replid2", "0000000000000000000000000000000000000000"),
    {"master_repl_offset", Rule::Sum, "0"},
    fixed("second_repl_offset", "-1"),
    fixed("repl_backlog_active", "0"),
    fixed("repl_backlog_size", "1048576"),
    fixed("repl_backlog_first_byte_offset", "0"),
    fixed("repl_backlog_histlen", "0"),
};

constexpr Field kCpu[] = {
    {"used_cpu_sys", Rule::Seconds, "0.000000"},
    {"used_cpu_user", Rule::Seconds, "0.000000"},
    {"used_cpu_sys_children", Rule::Seconds, "0.000000"},
    {"used_cpu_user_children", Rule::Seconds, "0.000000"},
    {"used_cpu_sys_main_thread", Rule::Seconds},
    {"used_cpu_user_main_thread", Rule::Seconds},
};

constexpr Field kCluster[] = {
    own("cluster_enabled",
        [](const Merge& m) { return std::string(m.facts.cluster_mode ? "1" : "0"); }),
};

// Modules that any node has, once each.
void module_lines(const Merge& merge, std::string& out) {
  std::vector<std::string_view> seen;
  for (const NodeFields& node : merge.fields()) {
    for (const auto& [name, value] : node.lines) {
      if (name != "module" || std::ranges::find(seen, value) != seen.end()) continue;
      seen.push_back(value);
      out += fmt::format("module:{}\r\n", value);
    }
  }
}

void command_lines(const Merge& merge, std::string& out) {
  struct Calls {
    std::uint64_t calls = 0, usec = 0, rejected = 0, failed = 0;
  };
  std::map<std::string_view, Calls> sums;
  for (const NodeFields& node : merge.fields()) {
    for (const auto& [name, value] : node.lines) {
      if (!name.starts_with("cmdstat_")) continue;
      Calls& sum = sums[name];
      sum.calls += count_of(value, "calls");
      sum.usec += count_of(value, "usec");
      sum.rejected += count_of(value, "rejected_calls");
      sum.failed += count_of(value, "failed_calls");
    }
  }
  for (const auto& [name, sum] : sums) {
    double each =
        sum.calls == 0 ? 0 : static_cast<double>(sum.usec) / static_cast<double>(sum.calls);
    out += fmt::format(
        "{}:calls={},usec={},usec_per_call={:.2f},rejected_calls={},failed_calls={}\r\n", name,
        sum.calls, sum.usec, each, sum.rejected, sum.failed);
  }
}

void error_lines(const Merge& merge, std::string& out) {
  std::map<std::string_view, std::uint64_t> sums;
  for (const NodeFields& node : merge.fields()) {
    for (const auto& [name, value] : node.lines) {
      if (name.starts_with("errorstat_")) sums[name] += count_of(value, "count");
    }
  }
  for (const auto& [name, count] : sums) out += fmt::format("{}:count={}\r\n", name, count);
}

// Percentiles of several nodes can't be added up: the slowest node's is said, which none exceeds.
void latency_lines(const Merge& merge, std::string& out) {
  std::map<std::string_view, std::map<std::string_view, std::string_view>> slowest;
  for (const NodeFields& node : merge.fields()) {
    for (const auto& [name, value] : node.lines) {
      if (!name.starts_with("latency_percentiles_usec_")) continue;
      std::string_view rest = value;
      while (!rest.empty()) {
        std::string_view part = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), part.size() + 1));
        std::size_t equals = part.find('=');
        if (equals == std::string_view::npos) continue;
        std::string_view& known = slowest[name][part.substr(0, equals)];
        if (decimal(part.substr(equals + 1)) >= decimal(known)) known = part.substr(equals + 1);
      }
    }
  }
  for (const auto& [name, parts] : slowest) {
    char before = ':';
    out += name;
    for (const auto& [percentile, usec] : parts) {
      out += fmt::format("{}{}={}", before, percentile, usec);
      before = ',';
    }
    out += "\r\n";
  }
}

void keyspace_lines(const Merge& merge, std::string& out) {
  std::map<std::uint64_t, Database> sums;
  for (std::size_t node = 0; node < merge.nodes.size(); ++node) merge.databases(node, sums);
  for (const auto& [number, sum] : sums) {
    if (sum.keys == 0) continue;
    double ttl = sum.expires == 0 ? 0 : sum.ttl_sum / static_cast<double>(sum.expires);
    out += fmt::format("db{}:keys={},expires={},avg_ttl={:.0f}\r\n", number, sum.keys, sum.expires,
                       ttl);
  }
}

constexpr Section kSections[] = {
    {"server", "Server", kServer},
    {"clients", "Clients", kClients},
    {"memory", "Memory", kMemory},
    {"persistence", "Persistence", kPersistence},
    {"stats", "Stats", kStats},
    {"replication", "Replication", kReplication},
    {"cpu", "CPU", kCpu},
    {"modules", "Modules", {}, true, module_lines},
    {"commandstats", "Commandstats", {}, false, command_lines},
    {"errorstats", "Errorstats", {}, true, error_lines},
    {"latencystats", "Latencystats", {}, false, latency_lines},
    {"cluster", "Cluster", kCluster},
    {"keyspace", "Keyspace", {}, true, keyspace_lines},
};

void begin_section(std::string& out, std::string_view title) {
  if (!out.empty()) out += "\r\n";
  out += fmt::format("# {}\r\n", title);
}

void append_node(const Merge& merge, std::size_t place, std::string& out) {
  const NodeInfo& node = merge.nodes[place];
  const NodeFields& fields = merge.fields()[place];
  begin_section(out, fmt::format("Node {}", node.name));
  auto line = [&](std::string_view field, std::string_view value) {
    out += fmt::format("node{}_{}:{}\r\n", place, field, value);
  };
  line("name", node.name);
  line("address", node.address);
  line("state", node.state);
  line("slots", fmt::to_string(node.slots));
  if (!node.info) return;
  line("version", fields.find("redis_version").value_or("unknown"));
  line("uptime_in_seconds", fields.find("uptime_in_seconds").value_or("0"));
  line("used_memory", fields.find("used_memory").value_or("0"));
  line("maxmemory", fields.find("maxmemory").value_or("0"));
  line("ops_per_sec", fields.find("instantaneous_ops_per_sec").value_or("0"));
  std::map<std::uint64_t, Database> databases;
  merge.databases(place, databases);
  std::uint64_t keys = 0;
  for (const auto& [number, database] : databases) keys += database.keys;
  line("keys", fmt::to_string(keys));
  line("hidden_keys", fmt::to_string(node.hidden_keys));
}

}  // namespace

std::string merge_info(const ProxyFacts& facts, const std::vector<NodeInfo>& nodes,
                       const std::vector<std::string>& sections) {
  Merge merge(facts, nodes);
  auto named = [&](std::string_view name) {
    return std::ranges::find(sections, name) != sections.end();
  };
  bool everything = named("all") || named("everything");
  bool defaults = everything || sections.empty() || named("default");
  std::string out;
  for (const Section& section : kSections) {
    if (!everything && !named(section.name) && !(defaults && section.in_default)) continue;
    begin_section(out, section.title);
    if (section.lines != nullptr) section.lines(merge, out);
    for (const Field& field : section.fields) {
      std::string text = merge.text(field);
      if (!text.empty()) out += fmt::format("{}:{}\r\n", field.name, text);
    }
  }
  if (defaults || named("nodes")) {
    for (std::size_t place = 0; place < nodes.size(); ++place) append_node(merge, place, out);
  }
  return out;
}

}  // namespace proxy::route
