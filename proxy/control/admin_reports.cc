#include "proxy/control/admin_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "conf/options.h"
#include "slots/slot_map.h"

namespace proxy::control {

namespace {

// Each verified node holds its identity key, which is nobody's data.
constexpr std::uint64_t kOwnKeys = 1;

std::optional<std::string> text_of(const std::optional<conf::Address>& address) {
  if (!address) return std::nullopt;
  return address->text();
}

std::vector<std::string> texts_of(const slots::SlotSet& set) {
  std::vector<std::string> texts;
  for (const slots::SlotRange& range : set.ranges()) texts.push_back(slots::to_string(range));
  return texts;
}

std::vector<std::uint64_t> slot_counts(const slots::SlotMap& map) {
  std::vector<std::uint64_t> counts(map.nodes().size());
  for (const slots::NodeIndex owner : map.owners()) ++counts[owner];
  return counts;
}

void add_facts(admin::NodeReport& report, const NodeStatus& status) {
  if (!status.version.empty()) report.version = status.version;
  if (!status.run_id.empty()) report.run_id = status.run_id;
  if (status.state != NodeState::Up) return;
  const NodeFacts& facts = status.facts;
  report.keys = facts.keys - std::min(facts.keys, kOwnKeys);
  report.used_memory = facts.used_memory;
  report.maxmemory = facts.maxmemory;
  report.maxmemory_policy = facts.maxmemory_policy;
  report.ops_per_second = facts.ops_per_second;
}

std::vector<admin::NodeReport> node_reports(const AdminSnapshot& snapshot) {
  const RoutingTable& table = *snapshot.table;
  const std::vector<std::uint64_t> counts = slot_counts(*table.map);
  std::vector<admin::NodeReport> reports;
  for (std::size_t i = 0; i < table.nodes.size(); ++i) {
    const NodeRoute& node = table.nodes[i];
    admin::NodeReport& report = reports.emplace_back();
    report.name = node.name;
    report.id = node.id;
    report.address = address_text(node);
    report.endpoint = text_of(node.endpoint);
    report.announced = text_of(node.announced);
    report.state = to_string(node.state);
    report.reason = node.reason;
    report.weight = table.map->nodes().at(i).weight;
    report.slots = counts.at(i);
    report.incarnation = node.incarnation;
    if (i >= snapshot.nodes.size()) continue;
    const NodeStatus& status = snapshot.nodes[i];
    const auto since = std::chrono::floor<std::chrono::seconds>(snapshot.taken_at - status.since);
    report.since_seconds = since.count() > 0 ? static_cast<std::uint64_t>(since.count()) : 0;
    add_facts(report, status);
  }
  return reports;
}

template <class Target>
void add_options(admin::ConfigReport& report, const std::string& prefix,
                 std::span<const conf::Option<Target>> options, const Target& target) {
  for (const conf::Option<Target>& option : options) {
    std::vector<std::string> values = option.get(target);
    if (option.path.ends_with("password") || option.path.ends_with("admin_users")) {
      for (std::string& value : values) value = "(set)";
    }
    report.options.push_back({prefix + std::string(option.path), std::move(values)});
  }
}

}  // namespace

std::string address_text(const NodeRoute& node) {
  return node.address == conf::Address{} ? "" : node.address.text();
}

admin::StatusReport status_report(const AdminSnapshot& snapshot) {
  admin::StatusReport report{.version = SLOTPROXY_VERSION,
                             .cluster = snapshot.table->cluster,
                             .epoch = snapshot.table->map->epoch(),
                             .uptime_seconds = static_cast<std::uint64_t>(snapshot.uptime.count()),
                             .is_draining = snapshot.is_draining,
                             .ops_per_second = snapshot.ops_per_second,
                             .config_path = snapshot.config_path,
                             .drift = snapshot.drift,
                             .nodes = node_reports(snapshot)};
  for (const OpenPlan& plan : snapshot.plans)
    report.plans.push_back({plan.id, plan.state, plan.purpose, plan.reason});
  for (const WorkerFacts& worker : snapshot.workers) {
    report.workers.push_back({worker.clients, worker.commands, worker.errors, worker.counters});
    report.clients += worker.clients;
    report.commands += worker.commands;
    report.errors += worker.errors;
    report.bytes_in += worker.bytes_in;
    report.bytes_out += worker.bytes_out;
  }
  return report;
}

admin::NodesReport nodes_report(const AdminSnapshot& snapshot) {
  return {snapshot.table->cluster, snapshot.table->map->epoch(), node_reports(snapshot)};
}

admin::SlotsReport slots_report(const AdminSnapshot& snapshot) {
  const RoutingTable& table = *snapshot.table;
  admin::SlotsReport report{table.cluster, table.map->epoch(), {}};
  for (std::size_t i = 0; i < table.nodes.size(); ++i) {
    const slots::SlotSet owned = table.map->slots_of(static_cast<slots::NodeIndex>(i));
    report.owners.push_back({table.nodes[i].name, address_text(table.nodes[i]),
                             to_string(table.nodes[i].state), owned.size(), texts_of(owned)});
  }
  return report;
}

admin::HealthReport health_report(const AdminSnapshot& snapshot) {
  const RoutingTable& table = *snapshot.table;
  admin::HealthReport report{.nodes = table.nodes.size()};
  const std::vector<std::uint64_t> counts = slot_counts(*table.map);
  for (std::size_t i = 0; i < table.nodes.size(); ++i) {
    if (table.nodes[i].state != NodeState::Up) continue;
    ++report.nodes_up;
    report.slots_served += counts.at(i);
  }
  if (snapshot.is_draining) {
    report.health = "draining";
  } else {
    report.health = report.nodes_up == report.nodes ? "ok" : "degraded";
  }
  return report;
}

admin::ConfigReport config_report(const AdminSnapshot& snapshot) {
  admin::ConfigReport report{snapshot.config_path, snapshot.drift, {}};
  add_options(report, "", conf::config_options(), *snapshot.config);
  for (std::size_t i = 0; i < snapshot.config->nodes.size(); ++i) {
    add_options(report, fmt::format("nodes[{}].", i), conf::node_options(),
                snapshot.config->nodes[i]);
  }
  for (std::size_t i = 0; i < snapshot.config->users.size(); ++i) {
    add_options(report, fmt::format("users[{}].", i), conf::user_options(),
                snapshot.config->users[i]);
  }
  return report;
}

admin::StraysReport strays_report(const AdminSnapshot& snapshot, bool list,
                                  const std::vector<NodeStrayCount>& counts) {
  admin::StraysReport report{snapshot.table->cluster, snapshot.table->map->epoch(), list, {}};
  for (const NodeStrayCount& count : counts) {
    admin::NodeStrays& node = report.nodes.emplace_back();
    node.node = count.node;
    if (!count.report) {
      node.error = count.report.error().message;
      continue;
    }
    node.keys = count.report->keys;
    node.strays = count.report->strays;
    node.ranges = texts_of(count.report->slots);
    node.is_exact = count.report->is_exact && count.report->is_whole;
    if (!list) continue;
    for (const std::string& name : count.report->names) node.names.push_back({name});
  }
  return report;
}

admin::HelpReport help_report() {
  admin::HelpReport report;
  for (const admin::VerbHelp& verb : admin::kVerbs) {
    report.verbs.push_back(
        {std::string(verb.verb), std::string(verb.arguments), std::string(verb.help)});
  }
  return report;
}

}  // namespace proxy::control
