#include "proxy/control/admin_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "proxy/control/admin_reports.h"
#include "proxy/control/stray_counter.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reserved_key.h"
#include "slots/key_slot.h"

namespace proxy::control {

namespace {

using resp::CommandFlag;
using resp::CommandId;
using resp::CommandSpec;

constexpr std::string_view kOneServer = "it acts on one server; connect to the node itself";
constexpr std::string_view kStaysInDatabase =
    "keys stay in their databases; use COPY with DB, and DEL";
constexpr std::string_view kSwapdb = "nodes can't exchange databases in one and the same instant";
constexpr std::string_view kReplication =
    "the proxy replicates nothing; connect to the node itself";
constexpr std::string_view kPlans = "keys move by plans; see slotctl --help";

struct SpecialWay {
  CommandId id{};
  CommandWay way = CommandWay::ByKeys;
  std::string_view why = "";  // Of a refusal.
};

// Commands that do not simply go to the owner of their keys.
constexpr SpecialWay kSpecialWays[] = {
    {CommandId::Del, CommandWay::Split},
    {CommandId::Exists, CommandWay::Split},
    {CommandId::Mget, CommandWay::Split},
    {CommandId::Mset, CommandWay::Split},
    {CommandId::Touch, CommandWay::Split},
    {CommandId::Unlink, CommandWay::Split},

    {CommandId::Dbsize, CommandWay::AllNodes},
    {CommandId::Flushall, CommandWay::AllNodes},
    {CommandId::Flushdb, CommandWay::AllNodes},
    {CommandId::FunctionDelete, CommandWay::AllNodes},
    {CommandId::FunctionFlush, CommandWay::AllNodes},
    {CommandId::FunctionKill, CommandWay::AllNodes},
    {CommandId::FunctionLoad, CommandWay::AllNodes},
    {CommandId::FunctionRestore, CommandWay::AllNodes},
    {CommandId::FunctionStats, CommandWay::AllNodes},
    {CommandId::Info, CommandWay::AllNodes},
    {CommandId::Keys, CommandWay::AllNodes},
    {CommandId::Randomkey, CommandWay::AllNodes},
    {CommandId::Scan, CommandWay::AllNodes},
    {CommandId::Psubscribe, CommandWay::AllNodes},
    {CommandId::Punsubscribe, CommandWay::AllNodes},
    {CommandId::Script, CommandWay::AllNodes},
    {CommandId::Wait, CommandWay::AllNodes},
    {CommandId::Subscribe, CommandWay::AllNodes},
    {CommandId::Unsubscribe, CommandWay::AllNodes},

    {CommandId::Command, CommandWay::AnyNode},
    {CommandId::Pfselftest, CommandWay::AnyNode},
    {CommandId::Function, CommandWay::AnyNode},
    {CommandId::Publish, CommandWay::AnyNode},
    {CommandId::ScriptHelp, CommandWay::AnyNode},

    {CommandId::Acl, CommandWay::Local},
    {CommandId::Asking, CommandWay::Local},
    {CommandId::Auth, CommandWay::Local},
    {CommandId::Client, CommandWay::Local},
    {CommandId::Cluster, CommandWay::Local},
    {CommandId::Config, CommandWay::Local},
    {CommandId::Discard, CommandWay::Local},
    {CommandId::Echo, CommandWay::Local},
    {CommandId::Exec, CommandWay::Local},
    {CommandId::Hello, CommandWay::Local},
    {CommandId::Latency, CommandWay::Local},
    {CommandId::Lolwut, CommandWay::Local},
    {CommandId::Module, CommandWay::Local},
    {CommandId::Multi, CommandWay::Local},
    {CommandId::Ping, CommandWay::Local},
    {CommandId::Pubsub, CommandWay::Local},
    {CommandId::Quit, CommandWay::Local},
    {CommandId::Readonly, CommandWay::Local},
    {CommandId::Readwrite, CommandWay::Local},
    {CommandId::Reset, CommandWay::Local},
    {CommandId::Monitor, CommandWay::Local},
    {CommandId::Role, CommandWay::Local},
    {CommandId::Select, CommandWay::Local},
    {CommandId::Slowlog, CommandWay::Local},
    {CommandId::Time, CommandWay::Local},
    {CommandId::Unwatch, CommandWay::Local},

    {CommandId::Bgrewriteaof, CommandWay::Refused, kOneServer},
    {CommandId::Bgsave, CommandWay::Refused, kOneServer},
    {CommandId::Debug, CommandWay::Refused, kOneServer},
    {CommandId::Failover, CommandWay::Refused, kOneServer},
    {CommandId::Lastsave, CommandWay::Refused, kOneServer},
    {CommandId::Save, CommandWay::Refused, kOneServer},
    {CommandId::Shutdown, CommandWay::Refused, kOneServer},
    {CommandId::Move, CommandWay::Refused, kStaysInDatabase},
    {CommandId::Swapdb, CommandWay::Refused, kSwapdb},
    {CommandId::Psync, CommandWay::Refused, kReplication},
    {CommandId::Replconf, CommandWay::Refused, kReplication},
    {CommandId::Replicaof, CommandWay::Refused, kReplication},
    {CommandId::Slaveof, CommandWay::Refused, kReplication},
    {CommandId::Sync, CommandWay::Refused, kReplication},
    {CommandId::Migrate, CommandWay::Refused, kPlans},
    {CommandId::RestoreAsking, CommandWay::Refused, kPlans},
};

const SpecialWay* find_special(const CommandSpec& spec) {
  const auto* const found = std::find_if(
      std::begin(kSpecialWays), std::end(kSpecialWays),
      [&](const SpecialWay& special) { return special.id == static_cast<CommandId>(spec.id); });
  return found == std::end(kSpecialWays) ? nullptr : found;
}

SpecialWay find_way(const CommandSpec& spec) {
  if (const SpecialWay* special = find_special(spec); special != nullptr) return *special;
  // A command without keys that administers acts on the server that happens to get it.
  const bool is_keyless = spec.rule == resp::KeyRule::None;
  const bool is_risky = spec.has(CommandFlag::Admin) || spec.has(CommandFlag::Blocking) ||
                        spec.has(CommandFlag::PubSub) || spec.has(CommandFlag::NoMulti);
  if (is_keyless && is_risky)
    return {static_cast<CommandId>(spec.id), CommandWay::Refused, kOneServer};
  return {static_cast<CommandId>(spec.id), CommandWay::ByKeys};
}

// Refusals that hang on arguments; empty: none.
std::string_view refused_argument(const CommandSpec& spec, resp::Args args) {
  const bool is_sort = spec.name == "sort" || spec.name == "sort_ro";
  if (is_sort && !resp::option_with_foreign_keys(args).empty()) {
    return "its BY or GET pattern names keys that may lie on any node; leave the pattern out";
  }
  return "";
}

admin::KeyPlace place_of(const RoutingTable& table, std::string_view key) {
  const slots::SlotId slot = slots::slot_of_key(key);
  const NodeRoute& owner = table.nodes.at(table.map->owner(slot));
  admin::KeyPlace place;
  place.key.raw = key;
  place.hashed_part.raw = slots::hashed_part(key);
  place.slot = slot;
  place.node = owner.name;
  place.address = address_text(owner);
  if (owner.announced) place.announced = owner.announced->text();
  place.state = to_string(owner.state);
  place.reason = owner.reason;
  place.is_reserved = resp::is_reserved_key(key);
  return place;
}

admin::CommandPart part_of(const NodeRoute& node) {
  return {node.name, address_text(node), to_string(node.state), node.reason, {}};
}

// One explanation under way: what is known of the command so far.
class CommandExplanation {
 public:
  CommandExplanation(const RoutingTable& table, resp::Args args) : table_(table), args_(args) {
    report_.cluster = table.cluster;
    report_.epoch = table.map->epoch();
    report_.command = std::string(args.front());
  }

  admin::ExplainReport make() {
    const CommandSpec* spec = find_spec();
    if (spec != nullptr) explain(*spec);
    return std::move(report_);
  }

 private:
  void conclude(std::string outcome, std::string why) {
    report_.outcome = std::move(outcome);
    report_.why = std::move(why);
  }
  // In the words of the error that a client gets.
  void reject(const std::string& error) {
    conclude("refused",
             error + "; correct the command" + (error.starts_with("ERR unknown") ? " name" : ""));
  }

  // Null: the command is rejected.
  const CommandSpec* find_spec() {
    const CommandSpec* spec = table_.commands->find(args_.front());
    if (spec == nullptr) {
      const std::string error = resp::unknown_command(args_);
      reject(error.substr(0, error.find(", with args")));
      return nullptr;
    }
    way_ = find_way(*spec);
    if (spec->rule == resp::KeyRule::Container && args_.size() > 1) {
      const CommandSpec* sub = table_.commands->find_sub(*spec, args_[1]);
      if (sub == nullptr) {
        reject(resp::unknown_subcommand(spec->name, args_[1]));
        return nullptr;
      }
      // A subcommand's own way counts; one without any follows its container.
      if (find_special(*sub) != nullptr || way_.way == CommandWay::ByKeys) way_ = find_way(*sub);
      spec = sub;
    }
    report_.command = std::string(spec->name);
    std::replace(report_.command->begin(), report_.command->end(), '|', ' ');
    const bool is_odd_mset =
        static_cast<CommandId>(spec->id) == CommandId::Mset && args_.size() % 2 == 0;
    if (spec->arity_ok(args_.size()) && !is_odd_mset) return spec;
    reject(resp::wrong_arity(spec->name));
    return nullptr;
  }

  void explain(const CommandSpec& spec) {
    std::vector<std::uint32_t> positions;
    const slots::Status found = resp::find_keys(spec, args_, positions);
    for (const std::uint32_t position : positions) {
      report_.keys.push_back(place_of(table_, args_[position]));
    }
    switch (way_.way) {
      case CommandWay::Refused:
        return conclude("refused", std::string(way_.why));
      case CommandWay::Local:
        return conclude("local", "the proxy answers it itself");
      case CommandWay::AnyNode:
        return conclude("any_node", "every node would answer the same");
      case CommandWay::AllNodes:
        return explain_all_nodes();
      case CommandWay::ByKeys:
      case CommandWay::Split:
        break;
    }
    if (!found) return reject(found.error().message);
    const std::string_view refused = refused_argument(spec, args_);
    if (!refused.empty()) return conclude("refused", std::string(refused));
    if (report_.keys.empty()) {
      return conclude("any_node", "it names no keys: any node that is up can answer");
    }
    explain_by_keys();
  }

  void explain_all_nodes() {
    for (const NodeRoute& node : table_.nodes) report_.parts.push_back(part_of(node));
    conclude("all_nodes",
             "it is about what every node holds: each is asked, and the "
             "answers become one");
  }

  void explain_by_keys() {
    std::set<std::uint64_t> slots;
    std::set<std::string> nodes;
    for (const admin::KeyPlace& place : report_.keys) {
      slots.insert(place.slot);
      nodes.insert(place.node);
      if (place.is_reserved) {
        return conclude("refused", fmt::format("keys that begin with {} are the proxy's own; "
                                               "choose another name",
                                               resp::kReservedPrefix));
      }
    }
    if (slots.size() > 1 && way_.way == CommandWay::ByKeys) {
      return conclude("cross_slot",
                      fmt::format("its keys lie in {} slots, and this command needs them in one; "
                                  "give them a common hash tag, as in {{tag}}:a and {{tag}}:b",
                                  slots.size()));
    }
    add_parts();
    if (slots.size() == 1) {
      conclude("one_node",
               fmt::format("{} in slot {}",
                           report_.keys.size() == 1 ? "its key lies" : "all its keys lie",
                           *slots.begin()));
    } else if (nodes.size() == 1) {
      conclude("one_node", fmt::format("its keys lie in {} slots, but all on one node: it goes "
                                       "there whole; on a redirect endpoint it is CROSSSLOT",
                                       slots.size()));
    } else {
      conclude("split", fmt::format("its keys lie in {} slots of {} nodes: each node gets its own "
                                    "keys in one command, and the answers become one; on a "
                                    "redirect endpoint it is CROSSSLOT",
                                    slots.size(), nodes.size()));
    }
  }

  // Nodes in the order of their first key, as they are sent.
  void add_parts() {
    for (const admin::KeyPlace& place : report_.keys) {
      auto part = std::find_if(report_.parts.begin(), report_.parts.end(),
                               [&](const admin::CommandPart& p) { return p.node == place.node; });
      if (part == report_.parts.end()) {
        report_.parts.push_back({place.node, place.address, place.state, place.reason, {}});
        part = std::prev(report_.parts.end());
      }
      part->keys.push_back(place.key);
    }
  }

  const RoutingTable& table_;
  resp::Args args_;
  SpecialWay way_{};
  admin::ExplainReport report_;
};

}  // namespace

CommandWay way_of(const CommandSpec& spec) { return find_way(spec).way; }

admin::ExplainReport explain_keys(const AdminSnapshot& snapshot,
                                  const std::vector<std::string>& keys) {
  admin::ExplainReport report;
  report.cluster = snapshot.table->cluster;
  report.epoch = snapshot.table->map->epoch();
  for (const std::string& key : keys) report.keys.push_back(place_of(*snapshot.table, key));
  return report;
}

admin::ExplainReport explain_command(const AdminSnapshot& snapshot,
                                     const std::vector<std::string>& words) {
  const std::vector<std::string_view> args(words.begin(), words.end());
  return CommandExplanation(*snapshot.table, args).make();
}

}  // namespace proxy::control
