// CLUSTER, READONLY, READWRITE and ASKING.
//
// On a redirect endpoint they answer from the map, as a cluster node would. The forward port looks
// like a standalone server, so that no client library switches to cluster mode by itself;
// listen.forward_cluster makes it a seed.

#include <array>
#include <charconv>

#include "proxy/resp/command_table.h"
#include "proxy/route/cluster_replies.h"
#include "proxy/session/commands.h"
#include "proxy/session/slot_scan.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using resp::CommandId;

constexpr std::string_view kOk = "+OK\r\n";

bool is_cluster_here(const ClientSession& session) {
  return session.table().cluster_replies != nullptr &&
         (session.is_redirect() || session.table().forward_cluster);
}

// As string2ll() in Redis's util.c: no sign but '-', no leading zeros, no blanks.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (std::to_string(value) != text) return std::nullopt;
  return value;
}

bool is_slot(std::int64_t value) {
  return value >= 0 && value < static_cast<std::int64_t>(slots::kSlotCount);
}

void reply_integer(ClientSession& session, std::int64_t value) {
  std::string out;
  resp::ReplyWriter(out, session.resp3()).integer(value);
  session.reply(out);
}

void count_keys_in_slot(ClientSession& session, const Request& request) {
  auto slot = parse_integer(request.args[2]);
  if (!slot) return session.reply_error(resp::errors::kNotInteger);
  if (!is_slot(*slot)) return session.reply_error("ERR Invalid slot");
  reply_key_count_of_slot(session, static_cast<slots::SlotId>(*slot));
}

void get_keys_in_slot(ClientSession& session, const Request& request) {
  auto slot = parse_integer(request.args[2]);
  auto keys_max = parse_integer(request.args[3]);
  if (!slot || !keys_max) return session.reply_error(resp::errors::kNotInteger);
  if (!is_slot(*slot) || *keys_max < 0)
    return session.reply_error("ERR Invalid slot or number of keys");
  reply_keys_of_slot(session, static_cast<slots::SlotId>(*slot),
                     static_cast<std::uint64_t>(*keys_max));
}

// Of a node that is named by its id: every node here is a primary without announced replicas, and
// nobody votes.
void about_node(ClientSession& session, const Request& request, std::string_view reply) {
  if (session.table().cluster_replies->find_id(request.args[2])) return session.reply(reply);
  session.reply_error(std::string("ERR Unknown node ").append(request.args[2]));
}

constexpr auto kClusterHelp = std::to_array<std::string_view>({
    "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    0: nodes of slotproxy do not vote on each other.",
    "COUNTKEYSINSLOT <slot>",
    "    Number of keys in a slot, counted by a SCAN of its owner.",
    "GETKEYSINSLOT <slot> <count>",
    "    Up to <count> key names of a slot, found by a SCAN of its owner.",
    "INFO",
    "    State of the cluster.",
    "KEYSLOT <key>",
    "    The hash slot of a key.",
    "LINKS",
    "    Empty: there is no cluster bus.",
    "MYID",
    "    The node id of this endpoint.",
    "MYSHARDID",
    "    The shard id of this endpoint.",
    "NODES",
    "    All nodes with their endpoints, flags and slots.",
    "REPLICAS <node-id>",
    "    Empty: replicas are not announced.",
    "SHARDS",
    "    All shards with their slots and nodes.",
    "SLOTS",
    "    All slot ranges with their nodes.",
    "HELP",
    "    Print this help.",
    "Slots, nodes and roles are not changed by CLUSTER commands but by the operator: see slotctl "
    "plan.",
    "ADDSLOTS, ADDSLOTSRANGE, BUMPEPOCH, DELSLOTS, DELSLOTSRANGE, FAILOVER, FLUSHSLOTS,",
    "FORGET, MEET, REPLICATE, RESET, SAVECONFIG, SET-CONFIG-EPOCH and SETSLOT are refused.",
    "READONLY, READWRITE and ASKING are accepted.",
});

void refuse_change(ClientSession& session, const Request& request) {
  session.reply_error(resp::errors::not_supported(
      request.spec->name,
      "slots and nodes are changed by plans, which the operator approves; see slotctl plan"));
}

}  // namespace

void command_cluster(ClientSession& session, const Request& request) {
  if (!is_cluster_here(session)) return session.reply_error(resp::errors::kClusterDisabled);
  const route::ClusterReplies& replies = *session.table().cluster_replies;
  slots::NodeIndex myself = session.listener().node;
  switch (request.spec->id) {
    case CommandId::ClusterSlots:
      return session.reply(replies.slots(session.resp3()));
    case CommandId::ClusterShards:
      return session.reply(replies.shards(session.resp3()));
    case CommandId::ClusterNodes:
      return session.reply(replies.nodes(myself, session.resp3()));
    case CommandId::ClusterInfo:
      return session.reply(replies.info(session.resp3()));
    case CommandId::ClusterMyid:
    case CommandId::ClusterMyshardid:
      if (session.is_redirect() && myself == slots::kNoNode)
        return session.reply_error(resp::errors::kNodeLeft);
      return session.reply(request.spec->id == CommandId::ClusterMyid
                               ? replies.my_id(myself)
                               : replies.my_shard_id(myself));
    case CommandId::ClusterKeyslot:
      return reply_integer(session, slots::slot_of_key(request.args[2]));
    case CommandId::ClusterCountkeysinslot:
      return count_keys_in_slot(session, request);
    case CommandId::ClusterGetkeysinslot:
      return get_keys_in_slot(session, request);
    case CommandId::ClusterLinks:
      return session.reply("*0\r\n");
    case CommandId::ClusterReplicas:
    case CommandId::ClusterSlaves:
      return about_node(session, request, "*0\r\n");
    case CommandId::ClusterCountFailureReports:
      return about_node(session, request, ":0\r\n");
    case CommandId::ClusterHelp:
      return reply_help(session, kClusterHelp);
    default:
      return refuse_change(session, request);
  }
}

// No slot is ever between two nodes for a client, so there is nothing to ask for.
void command_asking(ClientSession& session, const Request&) {
  if (!is_cluster_here(session)) return session.reply_error(resp::errors::kClusterDisabled);
  session.reply(kOk);
}

// Nothing follows from it: every endpoint serves reads and writes of its slots.
void command_readonly(ClientSession& session, const Request&) {
  if (!is_cluster_here(session)) return session.reply_error(resp::errors::kClusterDisabled);
  session.reply(kOk);
}

}  // namespace proxy::session
