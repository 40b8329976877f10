// Commands: which of them the proxy answers, merges or refuses itself, and where the others go.
//
// A command without a handler goes to the owner of its keys' slot, byte for byte. Handlers are
// listed once, in commands.cc; each family of them has a file of its own (connection_commands.cc,
// keyspace_commands.cc, ...).
//
// Thread:  a worker's. A handler answers its request exactly once: with reply(), forward(),
// redirect() or a Gather.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "proxy/resp/command_spec.h"
#include "proxy/session/client_session.h"
#include "proxy/session/script_cache.h"

namespace proxy::session {

using Handler = void (*)(ClientSession& session, const Request& request);

inline constexpr std::size_t kHandlersMax = 512;
extern const std::array<Handler, kHandlersMax> kHandlers;  // By CommandSpec::id.

// Null: no handler; the command goes to the owner of its keys.
inline Handler handler_of(const resp::CommandSpec& spec) {
  auto index = static_cast<std::size_t>(spec.id);
  return index < kHandlersMax ? kHandlers[index] : nullptr;
}

// One key, the first argument: the commonest kind of command by far.
inline bool is_single_key(const resp::CommandSpec& spec) {
  return spec.rule == resp::KeyRule::Range && spec.first_key == 1 && spec.last_key == 1;
}

// Everything but the fastest path: unknown commands, arity, AUTH, subcommands, handlers, several
// keys.
void dispatch(ClientSession& session, Request& request);

// To the owner of the keys that the command's spec names: CROSSSLOT, MOVED or forwarded. A command
// without keys goes to the endpoint's node, or to any on the forward port.
void forward_by_keys(ClientSession& session, const Request& request);

// The slot of all its keys, kNoSlot if it names none; nothing: it was answered, as CROSSSLOT, as
// reserved, or as wrong in itself.
[[nodiscard]] std::optional<slots::SlotId> slot_of_keys(ClientSession& session,
                                                        const Request& request);

// Why COPY can't go to the database that it names, as an error; empty: it can.
[[nodiscard]] std::string_view why_not_copied(const ClientSession& session, resp::Args args);

// Whether a request without keys may go to any node over a shared connection. What a learned
// command does is unknown; one that administers could change the connection.
[[nodiscard]] bool may_go_anywhere(const resp::CommandSpec& spec);

// Some node that can be used now (the endpoint's own on a redirect endpoint); kNoNode: an error was
// replied.
slots::NodeIndex any_node(ClientSession& session);

// Redis's text for subcommands whose arity in COMMAND is looser than what they take.
void refuse_subcommand(ClientSession& session, const Request& request);

// Answers a HELP subcommand.
void reply_help(ClientSession& session, std::span<const std::string_view> lines);

// --- the handlers, by file ---
// connection_commands.cc
void command_auth(ClientSession& session, const Request& request);
void command_client(ClientSession& session, const Request& request);  // All subcommands.
void command_echo(ClientSession& session, const Request& request);
void command_hello(ClientSession& session, const Request& request);
void command_ping(ClientSession& session, const Request& request);
void command_quit(ClientSession& session, const Request& request);
void command_reset(ClientSession& session, const Request& request);
void command_select(ClientSession& session, const Request& request);
// Its line in CLIENT LIST, without a line end.
[[nodiscard]] std::string client_info(ClientSession& session, const Request& request);
// pause_commands.cc
void client_pause(ClientSession& session, const Request& request);
void client_unpause(ClientSession& session, const Request& request);
// monitors.cc
void command_monitor(ClientSession& session, const Request& request);
// tracking_commands.cc
void client_caching(ClientSession& session, const Request& request);
void client_getredir(ClientSession& session, const Request& request);
void client_tracking(ClientSession& session, const Request& request);
void client_trackinginfo(ClientSession& session, const Request& request);
// config_commands.cc
void command_config(ClientSession& session, const Request& request);
// server_commands.cc
void command_command(ClientSession& session,
                     const Request& request);  // COMMAND and its subcommands: any node knows.
void command_info(ClientSession& session, const Request& request);
void command_lolwut(ClientSession& session, const Request& request);
void command_module(ClientSession& session, const Request& request);
void command_role(ClientSession& session, const Request& request);
void command_time(ClientSession& session, const Request& request);
// acl_commands.cc
void command_acl(ClientSession& session, const Request& request);
// slowlog_commands.cc
void command_latency(ClientSession& session, const Request& request);
void command_slowlog(ClientSession& session, const Request& request);
// split_commands.cc
void command_mget(ClientSession& session, const Request& request);
void command_mset(ClientSession& session, const Request& request);
void command_sum_over_keys(ClientSession& session,
                           const Request& request);  // DEL, UNLINK, EXISTS, TOUCH
// blocking_commands.cc
void command_blocking(ClientSession& session, const Request& request);  // BLPOP and its like
void command_xread(ClientSession& session, const Request& request);     // XREAD, XREADGROUP
void command_wait(ClientSession& session, const Request& request);
// keyspace_commands.cc
void command_dbsize(ClientSession& session, const Request& request);
void command_keys(ClientSession& session, const Request& request);
void command_scan(ClientSession& session, const Request& request);
void command_randomkey(ClientSession& session, const Request& request);
void command_flush(ClientSession& session, const Request& request);  // FLUSHALL, FLUSHDB
// script_commands.cc
void command_eval(ClientSession& session, const Request& request);     // EVAL, EVAL_RO
void command_evalsha(ClientSession& session, const Request& request);  // EVALSHA, EVALSHA_RO
void command_script(ClientSession& session, const Request& request);
void command_function(ClientSession& session, const Request& request);
void command_fcall(ClientSession& session, const Request& request);  // FCALL, FCALL_RO
// Appends SCRIPT LOADs of those of the scripts that the proxy remembers and the node may not know,
// and says how many those are. They must be sent now. `is_shared`: over the node's shared
// connection, so that what follows there can count on them; over another all that are remembered
// are sent.
std::size_t append_scripts(ClientSession& session, slots::NodeIndex node,
                           std::span<const ScriptId> ids, bool is_shared, std::string& requests);
// transaction_commands.cc
void command_multi(ClientSession& session, const Request& request);
void command_exec(ClientSession& session, const Request& request);
void command_discard(ClientSession& session, const Request& request);
void command_watch(ClientSession& session, const Request& request);
void command_unwatch(ClientSession& session, const Request& request);
// The request comes between MULTI and EXEC. False: it is one of those that run at once.
bool queue(ClientSession& session, const Request& request, Handler handler);
// Before it is looked at any closer: `text` without "ERR". EXEC discards its transaction then.
void reject(ClientSession& session, const resp::CommandSpec& spec, std::string_view text);
void reject_arity(ClientSession& session, const resp::CommandSpec& spec);
// pubsub_commands.cc
void command_subscribe(ClientSession& session, const Request& request);    // All three kinds.
void command_unsubscribe(ClientSession& session, const Request& request);  // All three kinds.
// Between MULTI and EXEC: whether `queued` is replied once the nodes are subscribed to, so that
// EXEC has nothing to wait for.
bool queue_subscription(ClientSession& session, const Request& request, std::string_view queued);
void command_publish(ClientSession& session, const Request& request);
void command_spublish(ClientSession& session, const Request& request);
void command_pubsub(ClientSession& session, const Request& request);
// Whether a client that takes messages only may not send this; the error was replied then.
bool refuse_to_subscriber(ClientSession& session, const resp::CommandSpec& spec);
// cluster_commands.cc
void command_cluster(ClientSession& session, const Request& request);
void command_asking(ClientSession& session, const Request& request);
void command_readonly(ClientSession& session, const Request& request);  // READONLY, READWRITE

}  // namespace proxy::session
