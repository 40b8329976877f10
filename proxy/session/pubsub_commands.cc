// Publish/subscribe. What a client subscribes the Hub subscribes at the nodes, once for all; what
// it publishes runs at one node, and comes back from there to everybody.

#include <algorithm>
#include <optional>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/session/commands.h"
#include "proxy/session/gather.h"
#include "proxy/session/sessions.h"
#include "proxy/session/subscribers.h"
#include "proxy/session/transaction.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using pubsub::Kind;
using resp::CommandId;
using resp::ReplyWriter;

// Of SUBSCRIBE, UNSUBSCRIBE and their like.
Kind kind_of(const resp::CommandSpec& spec) {
  switch (spec.id) {
    case CommandId::Psubscribe:
    case CommandId::Punsubscribe:
      return Kind::Pattern;
    case CommandId::Ssubscribe:
    case CommandId::Sunsubscribe:
      return Kind::Sharded;
    default:
      return Kind::Channel;
  }
}

// Whether sharded channels can be subscribed here; no: the reply has been given.
bool are_here(ClientSession& session, resp::Args channels) {
  const slots::SlotId slot = slots::slot_of_key(channels.front());
  for (std::string_view channel : channels) {
    if (slots::slot_of_key(channel) != slot)
      return session.reply_error(resp::errors::kCrossSlot), false;
  }
  const slots::NodeIndex owner = session.table().map->owner(slot);
  if (session.is_elsewhere(slot, owner)) return session.redirect(slot, owner), false;
  if (const std::string* why = session.core().backends->node(owner).unavailable())
    return session.reply(session.node_error(owner, slot, *why)), false;
  return true;
}

// It may be lost, and nobody knows it yet but the Hub.
bool is_owner_heard(ClientSession& session, std::string_view channel) {
  const RoutingTable& table = session.table();
  const slots::NodeIndex owner = table.map->owner(slots::slot_of_key(channel));
  return session.core().pubsub->registry().hears(table.nodes[owner].name);
}

std::string error_reply(ClientSession& session, std::string_view text) {
  session.core().stats.errors.add();
  std::string out;
  ReplyWriter(out, session.resp3()).error(text);
  return out;
}

bool has_room(ClientSession& session, resp::Args names) {
  std::size_t bytes = session.subscriptions().bytes();
  for (std::string_view name : names) bytes += name.size() + Subscriptions::kOverhead;
  return bytes <= session.table().limits.subscribed_names;
}

// A message on its way through the node that publishes it. How many there take it says nothing
// about clients: the proxy counts those itself.
class PublishGather final : public Gather {
 public:
  PublishGather(ClientSession& session, std::size_t receivers)
      : Gather(session), receivers_(receivers) {}

  void start(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
    send(node, slot, bytes);
    sent_all();
  }

 private:
  bool finish(std::string& out) override {
    const Fragment& fragment = fragments().front();
    if (fragment.is_error()) {
      out.assign(fragment.reply);
    } else {
      ReplyWriter(out, resp3()).integer(static_cast<std::int64_t>(receivers_));
    }
    return true;
  }

  std::size_t receivers_;
};

// All clients of the forward port publish at one node, so that all subscribers see all messages in
// one order, as with one server; those of an endpoint at its own node, as with a cluster. A node
// that the Hub does not hear yet has to wait until it does, if there is another.
slots::NodeIndex publishing_node(ClientSession& session) {
  backend::Backends& backends = *session.core().backends;
  const pubsub::Registry& registry = session.core().pubsub->registry();
  const slots::NodeIndex own = session.is_redirect() ? session.listener().node : slots::kNoNode;
  slots::NodeIndex second_best = slots::kNoNode;
  for (std::size_t i = 0; i <= backends.count(); ++i) {
    const auto node = i == 0 ? own : static_cast<slots::NodeIndex>(i - 1);
    if (node == slots::kNoNode || backends.node(node).unavailable() != nullptr) continue;
    if (registry.hears(backends.node(node).route().name)) return node;
    if (second_best == slots::kNoNode) second_best = node;
  }
  if (second_best == slots::kNoNode)
    session.reply_error("CLUSTERDOWN no node can be used now; see slotctl nodes");
  return second_best;
}

void reply_names(ClientSession& session, Kind kind, const Request& request) {
  if (request.args.size() > 3) return refuse_subcommand(session, request);
  const std::string_view pattern = request.args.size() == 3 ? request.args[2] : "*";
  const std::vector<std::string> names = session.core().pubsub->registry().names(kind, pattern);
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(names.size());
  for (const std::string& name : names) writer.bulk(name);
  session.reply(out);
}

void reply_counts(ClientSession& session, Kind kind, resp::Args names) {
  const pubsub::Registry& registry = session.core().pubsub->registry();
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(2 * names.size());
  for (std::string_view name : names) {
    writer.bulk(name);
    writer.integer(static_cast<std::int64_t>(registry.subscribers(kind, name)));
  }
  session.reply(out);
}

constexpr std::string_view kHelp[] = {
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Prints this help.",
};

}  // namespace

void command_subscribe(ClientSession& session, const Request& request) {
  const Kind kind = kind_of(*request.spec);
  const resp::Args names = request.args.subspan(1);
  if (kind == Kind::Sharded && session.is_capturing())
    return session.reply_error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
  if (kind == Kind::Sharded && !are_here(session, names)) return;
  if (!has_room(session, names))
    return session.reply_error(
        "ERR this client's subscriptions would be larger than limits.subscribed_names");
  const bool is_heard = kind != Kind::Sharded || is_owner_heard(session, names.front());
  Subscriptions& subscriptions = session.subscriptions();
  std::string out;
  std::vector<std::string> added;
  std::vector<std::string> missing;
  for (std::string_view name : names) {
    const Subscriptions::Added result = subscriptions.add(kind, name);
    if (result != Subscriptions::Added::Already) added.emplace_back(name);
    const bool is_missing = result == Subscriptions::Added::NotYet ||
                            (result == Subscriptions::Added::InForce && !is_heard);
    if (is_missing) missing.emplace_back(name);
    write_subscription(out, session.resp3(), request.spec->name, &name,
                       subscriptions.count_for_reply(kind));
  }
  // A transaction has waited before.
  if (missing.empty() || session.is_capturing()) return session.reply_push(out);
  session.sessions().subscribers().wait_in_force(
      session, kind, std::move(missing), /*is_push=*/true,
      [kind, added = std::move(added), reply = std::move(out)](ClientSession& client,
                                                               const std::string& why) {
        if (why.empty()) return reply;
        for (const std::string& name : added) client.subscriptions().remove(kind, name);
        return error_reply(client, why);
      });
}

bool queue_subscription(ClientSession& session, const Request& request, std::string_view queued) {
  if (request.spec->id != CommandId::Subscribe && request.spec->id != CommandId::Psubscribe)
    return false;
  const Kind kind = kind_of(*request.spec);
  auto reservation = std::make_shared<Reservation>(session.core(), kind);
  std::vector<std::string> missing;
  for (std::string_view name : request.args.subspan(1)) {
    if (!reservation->add(name)) missing.emplace_back(name);
  }
  session.transaction()->keep(std::move(reservation));
  if (missing.empty()) return false;
  session.sessions().subscribers().wait_in_force(
      session, kind, std::move(missing), /*is_push=*/false,
      [reply = std::string(queued)](ClientSession& client, const std::string& why) {
        if (why.empty()) return reply;
        if (client.transaction() != nullptr) client.transaction()->spoil();
        return error_reply(client, why);
      });
  return true;
}

// What was published before it comes before its confirmation.
void command_unsubscribe(ClientSession& session, const Request& request) {
  const Kind kind = kind_of(*request.spec);
  std::vector<std::string> names(request.args.begin() + 1, request.args.end());
  if (names.empty()) names = session.subscriptions().names(kind);
  const bool has_any = std::ranges::any_of(
      names, [&](const std::string& name) { return session.subscriptions().contains(kind, name); });
  auto unsubscribe = [kind, word = std::string(request.spec->name), names](ClientSession& client,
                                                                           const std::string&) {
    Subscriptions& subscriptions = client.subscriptions();
    std::string out;
    for (std::string_view name : names) {
      subscriptions.remove(kind, name);
      write_subscription(out, client.resp3(), word, &name, subscriptions.count_for_reply(kind));
    }
    if (names.empty())
      write_subscription(out, client.resp3(), word, nullptr, subscriptions.count_for_reply(kind));
    return out;
  };
  if (!has_any || session.is_capturing()) return session.reply_push(unsubscribe(session, ""));
  for (std::string_view name : names) session.subscriptions().set_leaving(kind, name);
  if (!session.is_quiet()) return session.put_off();
  session.sessions().subscribers().wait_heard(session, std::move(unsubscribe));
}

void command_publish(ClientSession& session, const Request& request) {
  const slots::NodeIndex node = publishing_node(session);
  if (node == slots::kNoNode) return;
  const std::size_t receivers = session.core().pubsub->registry().receivers(request.args[1]);
  (new PublishGather(session, receivers))->start(node, slots::kNoSlot, request.bytes);
}

void command_spublish(ClientSession& session, const Request& request) {
  const std::string_view channel = request.args[1];
  const slots::SlotId slot = slots::slot_of_key(channel);
  const slots::NodeIndex owner = session.table().map->owner(slot);
  if (session.is_elsewhere(slot, owner)) return session.redirect(slot, owner);
  const std::size_t receivers =
      session.core().pubsub->registry().subscribers(Kind::Sharded, channel);
  (new PublishGather(session, receivers))->start(owner, slot, request.bytes);
}

void command_pubsub(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::PubsubChannels:
      return reply_names(session, Kind::Channel, request);
    case CommandId::PubsubShardchannels:
      return reply_names(session, Kind::Sharded, request);
    case CommandId::PubsubNumsub:
      return reply_counts(session, Kind::Channel, request.args.subspan(2));
    case CommandId::PubsubShardnumsub:
      return reply_counts(session, Kind::Sharded, request.args.subspan(2));
    case CommandId::PubsubNumpat: {
      std::string out;
      ReplyWriter(out, session.resp3())
          .integer(static_cast<std::int64_t>(session.core().pubsub->registry().counts().patterns));
      return session.reply(out);
    }
    default:
      return reply_help(session, kHelp);
  }
}

bool refuse_to_subscriber(ClientSession& session, const resp::CommandSpec& spec) {
  switch (spec.id) {
    case CommandId::Ping:
    case CommandId::Psubscribe:
    case CommandId::Punsubscribe:
    case CommandId::Quit:
    case CommandId::Reset:
    case CommandId::Ssubscribe:
    case CommandId::Subscribe:
    case CommandId::Sunsubscribe:
    case CommandId::Unsubscribe:
      return false;
    default:
      reject(session, spec,
             "Can't execute '" + std::string(spec.name) +
                 "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
                 "this context");
      return true;
  }
}

}  // namespace proxy::session
