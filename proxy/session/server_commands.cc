// Commands about the server as a whole, as far as many servers behind one address have an answer.

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/route/info_merge.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

namespace {

using resp::CommandId;
using resp::ReplyWriter;

void refuse(ClientSession& session, const Request& request, std::string_view why) {
  session.reply_error(resp::errors::not_supported(request.spec->name, why));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// INFO of every node, and whether its identity key is among the keys that it counts.
class InfoGather final : public AllNodesGather {
 public:
  InfoGather(ClientSession& session, std::vector<std::string> sections)
      : AllNodesGather(session), sections_(std::move(sections)) {}

  void start() {
    std::string info;
    resp::append_request(info, {"INFO", "everything"});
    std::string exists;
    resp::append_request(exists, {"EXISTS", resp::kIdentityKey});
    for (slots::NodeIndex node : nodes_meant(session(), NodesMeant::Every)) {
      ask(node, info);
      ask(node, exists);
    }
    sent_all();
  }

 private:
  bool finish(std::string& out) override {
    ClientSession& client = session();
    const RoutingTable& table = asked();
    route::ProxyFacts facts;
    facts.slotproxy_version = SLOTPROXY_VERSION;
    facts.redis_version = table.version_for_clients();
    facts.cluster_mode = client.is_redirect() || table.forward_cluster;
    facts.process_id = static_cast<std::uint64_t>(::getpid());
    facts.uptime_seconds = client.core().now_ms() / 1000 - client.core().started_ms / 1000;
    facts.tcp_port = client.listener().port;
    facts.clients = client.sessions().clients_of_all_workers();
    facts.clients_max = table.limits.clients;
    facts.workers = client.sessions().workers();
    facts.epoch = table.map->epoch();
    WorkerTotals totals = client.sessions().totals();
    facts.requests_total = totals.requests;
    facts.connections_total = totals.clients;
    facts.errors_total = totals.errors;
    facts.blocked_clients = totals.blocked_clients;
    facts.tracking_clients = totals.tracking_clients;
    facts.tracked_keys = totals.tracked_keys;
    facts.tracked_items = totals.tracked_items;
    facts.tracked_prefixes = totals.tracked_prefixes;
    const pubsub::TopicCounts topics = client.core().pubsub->registry().counts();
    facts.channels = topics.channels;
    facts.patterns = topics.patterns;
    facts.sharded_channels = topics.sharded;
    facts.run_id = slots::node_id_of(table.cluster, client.core().connection_name);
    ReplyWriter(out, resp3()).verbatim(route::merge_info(facts, nodes(table), sections_));
    return true;
  }

  std::vector<route::NodeInfo> nodes(const RoutingTable& table) const {
    std::vector<route::NodeInfo> nodes;
    for (std::size_t i = 0; i + 1 < fragments().size(); i += 2) {
      const Fragment& fragment = fragments()[i];
      const NodeRoute& route = table.nodes[fragment.node];
      route::NodeInfo node;
      node.name = route.name;
      node.address = route.address.text();
      node.state = to_string(route.state);
      node.slots = table.map->slots_of(fragment.node).size();
      node.info = resp::ReplyCursor(fragment.reply).read_bulk();
      auto hidden = resp::ReplyCursor(fragments()[i + 1].reply).read_integer();
      node.hidden_keys = static_cast<std::uint64_t>(hidden.value_or(0));
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  std::vector<std::string> sections_;
};

}  // namespace

void command_command(ClientSession& session, const Request& request) {
  slots::NodeIndex node = any_node(session);
  if (node != slots::kNoNode) session.forward(node, slots::kNoSlot, request.bytes);
}

void command_info(ClientSession& session, const Request& request) {
  std::vector<std::string> sections;
  for (std::string_view section : request.args.subspan(1)) sections.push_back(lower(section));
  (new InfoGather(session, std::move(sections)))->start();
}

void command_lolwut(ClientSession& session, const Request&) {
  std::string out;
  ReplyWriter(out, session.resp3())
      .verbatim("slotproxy " SLOTPROXY_VERSION ", in front of Redis ver. " +
                session.table().version_for_clients() + "\n");
  session.reply(out);
}

void command_module(ClientSession& session, const Request& request) {
  switch (request.spec->id) {
    case CommandId::ModuleList:
      return session.reply("*0\r\n");
    case CommandId::ModuleHelp:
      return reply_help(
          session, std::to_array<std::string_view>(
                       {"MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "LIST",
                        "    Answered empty: modules are loaded at the nodes themselves.", "HELP",
                        "    Print this help."}));
    default:
      return refuse(session, request, "modules are loaded at the nodes themselves");
  }
}

void command_role(ClientSession& session, const Request&) {
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(3);
  writer.bulk("master");
  writer.integer(0);
  writer.array(0);
  session.reply(out);
}

void command_time(ClientSession& session, const Request&) {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  std::string out;
  ReplyWriter writer(out, session.resp3());
  writer.array(2);
  writer.bulk(std::to_string(now.tv_sec));
  writer.bulk(std::to_string(now.tv_usec));
  session.reply(out);
}

}  // namespace proxy::session
