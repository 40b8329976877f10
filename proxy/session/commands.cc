#include "proxy/session/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/rights.h"
#include "proxy/session/sessions.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using resp::CommandId;

void refuse(ClientSession& session, const Request& request, std::string_view why) {
  session.reply_error(resp::errors::not_supported(request.spec->name, why));
}

void refuse_server_administration(ClientSession& session, const Request& request) {
  refuse(session, request, "it acts on one server; connect to the node itself");
}
// An endpoint stands for one server, if the operator lets clients have the command.
void command_of_one_server(ClientSession& session, const Request& request) {
  const bool is_allowed = std::ranges::find(session.table().allowed_commands, request.spec->name) !=
                          session.table().allowed_commands.end();
  if (!is_allowed || !session.is_redirect() || session.transaction() != nullptr)
    return refuse_server_administration(session, request);
  const slots::NodeIndex node = any_node(session);
  if (node != slots::kNoNode) session.forward(node, slots::kNoSlot, request.bytes);
}
void refuse_move(ClientSession& session, const Request& request) {
  refuse(session, request, "keys stay in their databases; use COPY with DB, and DEL");
}
void refuse_swapdb(ClientSession& session, const Request& request) {
  refuse(session, request, "nodes can't exchange databases in one and the same instant");
}
void refuse_replication(ClientSession& session, const Request& request) {
  refuse(session, request, "the proxy replicates nothing; connect to the node itself");
}
void refuse_migrate(ClientSession& session, const Request& request) {
  refuse(session, request, "keys move by plans: see slotctl");
}

// BY and GET patterns name keys that may lie anywhere: a cluster node refuses them, with this text.
void command_sort(ClientSession& session, const Request& request) {
  std::string_view option = resp::option_with_foreign_keys(request.args);
  if (option.empty()) return forward_by_keys(session, request);
  session.reply_error("ERR " + std::string(option) + " option of SORT denied in cluster mode.");
}

void command_copy(ClientSession& session, const Request& request) {
  const std::string_view refusal = why_not_copied(session, request.args);
  if (!refusal.empty()) return session.reply_error(refusal);
  forward_by_keys(session, request);
}

struct Registration {
  CommandId id;
  Handler handler;
};

constexpr Registration kRegistrations[] = {
    {CommandId::Acl, command_acl},
    {CommandId::Asking, command_asking},
    {CommandId::Auth, command_auth},
    {CommandId::Client, command_client},
    {CommandId::Cluster, command_cluster},
    {CommandId::Command, command_command},
    {CommandId::Config, command_config},
    {CommandId::Copy, command_copy},
    {CommandId::Dbsize, command_dbsize},
    {CommandId::Del, command_sum_over_keys},
    {CommandId::Echo, command_echo},
    {CommandId::Eval, command_eval},
    {CommandId::EvalRo, command_eval},
    {CommandId::Evalsha, command_evalsha},
    {CommandId::EvalshaRo, command_evalsha},
    {CommandId::Exists, command_sum_over_keys},
    {CommandId::Fcall, command_fcall},
    {CommandId::FcallRo, command_fcall},
    {CommandId::Flushall, command_flush},
    {CommandId::Flushdb, command_flush},
    {CommandId::Function, command_function},
    {CommandId::Hello, command_hello},
    {CommandId::Info, command_info},
    {CommandId::Keys, command_keys},
    {CommandId::Latency, command_latency},
    {CommandId::Lolwut, command_lolwut},
    {CommandId::Mget, command_mget},
    {CommandId::Module, command_module},
    {CommandId::Monitor, command_monitor},
    {CommandId::Mset, command_mset},
    {CommandId::Pfselftest, command_command},
    {CommandId::Ping, command_ping},
    {CommandId::Quit, command_quit},
    {CommandId::Randomkey, command_randomkey},
    {CommandId::Readonly, command_readonly},
    {CommandId::Readwrite, command_readonly},
    {CommandId::Reset, command_reset},
    {CommandId::Role, command_role},
    {CommandId::Scan, command_scan},
    {CommandId::Script, command_script},
    {CommandId::Select, command_select},
    {CommandId::Slowlog, command_slowlog},
    {CommandId::Sort, command_sort},
    {CommandId::SortRo, command_sort},
    {CommandId::Time, command_time},
    {CommandId::Touch, command_sum_over_keys},
    {CommandId::Unlink, command_sum_over_keys},
    {CommandId::Wait, command_wait},
    {CommandId::Xread, command_xread},
    {CommandId::Xreadgroup, command_xread},

    {CommandId::Discard, command_discard},
    {CommandId::Exec, command_exec},
    {CommandId::Multi, command_multi},
    {CommandId::Unwatch, command_unwatch},
    {CommandId::Watch, command_watch},

    {CommandId::Blmove, command_blocking},
    {CommandId::Blmpop, command_blocking},
    {CommandId::Blpop, command_blocking},
    {CommandId::Brpop, command_blocking},
    {CommandId::Brpoplpush, command_blocking},
    {CommandId::Bzmpop, command_blocking},
    {CommandId::Bzpopmax, command_blocking},
    {CommandId::Bzpopmin, command_blocking},

    {CommandId::Psubscribe, command_subscribe},
    {CommandId::Publish, command_publish},
    {CommandId::Pubsub, command_pubsub},
    {CommandId::Punsubscribe, command_unsubscribe},
    {CommandId::Spublish, command_spublish},
    {CommandId::Ssubscribe, command_subscribe},
    {CommandId::Subscribe, command_subscribe},
    {CommandId::Sunsubscribe, command_unsubscribe},
    {CommandId::Unsubscribe, command_unsubscribe},

    {CommandId::Bgrewriteaof, command_of_one_server},
    {CommandId::Bgsave, command_of_one_server},
    {CommandId::Debug, command_of_one_server},
    {CommandId::Failover, command_of_one_server},
    {CommandId::Lastsave, command_of_one_server},
    {CommandId::Save, command_of_one_server},
    {CommandId::Shutdown, command_of_one_server},

    {CommandId::Move, refuse_move},
    {CommandId::Swapdb, refuse_swapdb},

    {CommandId::Psync, refuse_replication},
    {CommandId::Replconf, refuse_replication},
    {CommandId::Replicaof, refuse_replication},
    {CommandId::Slaveof, refuse_replication},
    {CommandId::Sync, refuse_replication},

    {CommandId::Migrate, refuse_migrate},
    {CommandId::RestoreAsking, refuse_migrate},
};

static_assert(static_cast<std::size_t>(CommandId::Count) <= kHandlersMax);

constexpr std::array<Handler, kHandlersMax> make_handlers() {
  std::array<Handler, kHandlersMax> handlers{};
  for (const Registration& registration : kRegistrations) {
    handlers[static_cast<std::size_t>(registration.id)] = registration.handler;
  }
  return handlers;
}

// What Redis keeps from a client that monitors.
bool asks_for_keys(const resp::CommandSpec& spec) {
  return spec.has(resp::CommandFlag::Write) || spec.has(resp::CommandFlag::ReadOnly) ||
         spec.id == CommandId::Publish || spec.has(resp::CommandFlag::SkipMonitor);
}

}  // namespace

// A node may have more databases than clients can reach. What is no number the node refuses.
std::string_view why_not_copied(const ClientSession& session, resp::Args args) {
  const auto named = resp::database_of_copy(args);
  const auto database = named ? resp::integer_of(*named) : std::nullopt;
  if (!database || (session.is_redirect() && *database == 0)) return "";
  if (session.is_redirect())
    return "ERR Copying to another database is not allowed in cluster mode";
  const bool is_there = std::in_range<unsigned>(*database) && *database < session.table().databases;
  return is_there ? "" : resp::errors::kDatabaseRange;
}

bool may_go_anywhere(const resp::CommandSpec& spec) {
  return !spec.has(resp::CommandFlag::Admin) && !spec.has(resp::CommandFlag::Blocking) &&
         !spec.has(resp::CommandFlag::PubSub) && !spec.has(resp::CommandFlag::NoMulti);
}

const std::array<Handler, kHandlersMax> kHandlers = make_handlers();

void dispatch(ClientSession& session, Request& request) {
  const resp::CommandTable& commands = *session.table().commands;
  const resp::CommandSpec* spec = request.spec;
  if (spec == nullptr) {
    // A browser that was lured into posting to this port speaks HTTP; Redis hangs up on it too,
    // without a word.
    if (resp::is_word(request.args[0], "post") || resp::is_word(request.args[0], "host:"))
      return session.close_after_replies();
    return session.reject(resp::unknown_command(request.args));
  }
  Handler handler = handler_of(*spec);
  if (spec->rule == resp::KeyRule::Container && request.args.size() > 1) {
    const resp::CommandSpec* sub = commands.find_sub(*spec, request.args[1]);
    if (sub == nullptr)
      return session.reject(resp::unknown_subcommand(spec->name, request.args[1]));
    spec = sub;
  }
  if (!spec->arity_ok(request.args.size())) return reject_arity(session, *spec);
  if (!session.is_authenticated() && !spec->has(resp::CommandFlag::NoAuth)) {
    return session.reject(resp::errors::kNoAuth);
  }
  request.spec = spec;
  if (!session.may_do_everything() && !check_rights(session, request)) return;
  if (spec->is_refused) {
    return session.reject(
        resp::errors::not_supported(spec->name, "the operator's refused_commands names it"));
  }
  if (session.takes_messages_only() && refuse_to_subscriber(session, *spec)) return;
  if (session.watch_if_any() != nullptr && !session.is_quiet()) return session.put_off();
  if (session.transaction() != nullptr && queue(session, request, handler)) return;
  Monitors& monitors = session.sessions().monitors();
  if (monitors.has_any()) [[unlikely]] {
    if (monitors.contains(session) && asks_for_keys(*spec))
      return session.reply_error("ERR Replica can't interact with the keyspace");
    monitors.show(session, request);
  }
  if (handler != nullptr) {
    handler(session, request);
  } else {
    forward_by_keys(session, request);
  }
  if (session.is_put_off() && monitors.has_any()) [[unlikely]]
    monitors.forget();
}

void refuse_subcommand(ClientSession& session, const Request& request) {
  std::string_view name = request.spec->name;
  std::string container(name.substr(0, name.find('|')));
  for (char& c : container) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  session.reply_error(
      fmt::format("ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
                  request.args[1], container));
}

void reply_help(ClientSession& session, std::span<const std::string_view> lines) {
  std::string out;
  resp::ReplyWriter writer(out, session.resp3());
  writer.array(lines.size());
  for (std::string_view line : lines) writer.simple(line);
  session.reply(out);
}

slots::NodeIndex any_node(ClientSession& session) {
  if (session.is_redirect()) {
    if (session.listener().node == slots::kNoNode) session.reply_error(resp::errors::kNodeLeft);
    return session.listener().node;
  }
  backend::Backends& backends = *session.core().backends;
  // The session's id spreads clients over the nodes and keeps each at one while it is up.
  std::size_t count = backends.count();
  for (std::size_t i = 0; i < count; ++i) {
    auto node = static_cast<slots::NodeIndex>((session.id() + i) % count);
    if (backends.node(node).unavailable() == nullptr) return node;
  }
  session.reply_error("CLUSTERDOWN no node can be used now; see slotctl nodes");
  return slots::kNoNode;
}

void forward_by_keys(ClientSession& session, const Request& request) {
  const std::optional<slots::SlotId> slot = slot_of_keys(session, request);
  if (!slot) return;
  if (*slot == slots::kNoSlot) {
    if (!may_go_anywhere(*request.spec)) return refuse_server_administration(session, request);
    slots::NodeIndex node = any_node(session);
    if (node != slots::kNoNode) session.forward(node, slots::kNoSlot, request.bytes);
    return;
  }
  slots::NodeIndex owner = session.table().map->owner(*slot);
  if (session.is_elsewhere(*slot, owner)) return session.redirect(*slot, owner);
  session.forward(owner, *slot, request.bytes);
}

std::optional<slots::SlotId> slot_of_keys(ClientSession& session, const Request& request) {
  thread_local std::vector<std::uint32_t> positions;
  if (slots::Status found = resp::find_keys(*request.spec, request.args, positions); !found)
    return session.reply_error(found.error().message), std::nullopt;
  if (positions.empty()) return slots::kNoSlot;
  slots::SlotId slot = slots::slot_of_key(request.args[positions[0]]);
  for (std::uint32_t position : positions) {
    std::string_view key = request.args[position];
    if (resp::is_reserved_key(key))
      return session.reply_error(resp::errors::kReservedKey), std::nullopt;
    if (slots::slot_of_key(key) != slot)
      return session.reply_error(resp::errors::kCrossSlot), std::nullopt;
  }
  return slot;
}

}  // namespace proxy::session
