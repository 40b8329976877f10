#include "proxy/routing_table.h"

#include <algorithm>

#include "proxy/route/cluster_replies.h"

namespace proxy {

namespace {

const conf::NodeConfig* find_node(const conf::Config& config, const std::string& name) {
  for (const conf::NodeConfig& node : config.nodes) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

bool is_healthy(const NodeRoute& node) {
  return node.state == NodeState::Up || node.state == NodeState::Unverified;
}

// Whether clients would be told the same of both.
bool replies_agree(const RoutingTable& a, const RoutingTable& b) {
  auto are_alike = [](const NodeRoute& one, const NodeRoute& other) {
    return one.id == other.id && one.name == other.name && one.announced == other.announced &&
           is_healthy(one) == is_healthy(other);
  };
  return a.map == b.map && a.cluster == b.cluster &&
         std::ranges::equal(a.nodes, b.nodes, are_alike);
}

}  // namespace

std::string to_string(NodeState state) {
  switch (state) {
    case NodeState::Unverified:
      return "unverified";
    case NodeState::Up:
      return "up";
    case NodeState::Down:
      return "down";
    case NodeState::Refused:
      return "refused";
  }
  return "unverified";
}

std::shared_ptr<RoutingTable> make_routing_table(const conf::Config& config,
                                                 std::shared_ptr<const slots::SlotMap> map,
                                                 const RoutingTable* before) {
  auto table = std::make_shared<RoutingTable>();
  table->cluster = config.cluster;
  table->limits = config.limits;
  table->timeouts = config.timeouts;
  table->forward_cluster = config.listen.forward_cluster;
  table->allow_config = config.allow_config;
  table->ping_nodes = config.ping_nodes;
  for (const conf::PlacedText& command : config.allowed_commands)
    table->allowed_commands.push_back(command.text);
  table->databases = config.databases;
  for (const slots::Node& node : map->nodes()) {
    NodeRoute route;
    // A node that the file does not name any more serves on as it was, until a plan has drained it.
    if (before != nullptr) {
      for (const NodeRoute& was : before->nodes) {
        if (was.name == node.name) route = was;
      }
    }
    route.name = node.name;
    route.id = slots::node_id_of(config.cluster, node.name);
    if (const conf::NodeConfig* configured = find_node(config, node.name)) {
      route.address = configured->address;
      route.username = configured->username;
      route.password = configured->password;
      route.endpoint = configured->endpoint;
      route.announced = configured->announced();
    } else if (route.address == conf::Address{}) {
      route.state = NodeState::Refused;
      route.reason =
          "is in the state but not in the configuration file, so that its address is not known";
    }
    table->nodes.push_back(std::move(route));
  }
  table->map = std::move(map);
  if (before != nullptr) table->fence = before->fence;
  return table;
}

void make_cluster_replies(RoutingTable& table, const RoutingTable* before) {
  if (before != nullptr && replies_agree(table, *before)) {
    table.cluster_replies = before->cluster_replies;
    return;
  }
  table.cluster_replies = nullptr;
  std::vector<route::ClusterNodeFacts> facts;
  for (const NodeRoute& node : table.nodes) {
    if (!node.announced) return;
    facts.push_back({node.id, node.name, *node.announced, is_healthy(node)});
  }
  table.cluster_replies = std::make_shared<route::ClusterReplies>(table.cluster, *table.map, facts);
}

}  // namespace proxy
