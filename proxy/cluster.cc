#include "proxy/cluster.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "conf/drift.h"
#include "conf/loader.h"
#include "proxy/acl/users.h"
#include "proxy/control/plan_request.h"
#include "proxy/resp/command_table.h"

namespace proxy {

namespace {

slots::Result<slots::SlotMap> first_map(const conf::Config& config) {
  const slots::OwnershipGoal wanted = control::ownership_of(config);
  return slots::SlotMap::create(
      wanted.nodes,
      wanted.owners ? *wanted.owners
                    : slots::make_placement(config.placement)->place_slots(wanted.nodes, nullptr));
}

// A node that has left the file is where it was.
void place_if_unknown(NodeRoute& node, const control::NodePlace& place) {
  if (node.address != conf::Address{}) return;
  auto address = conf::parse_address(place.address);
  if (!address) return;
  node.address = *address;
  if (auto endpoint = conf::parse_address(place.endpoint)) node.endpoint = *endpoint;
  if (auto announced = conf::parse_address(place.announced)) node.announced = *announced;
  node.state = NodeState::Unverified;
  node.reason.clear();
}

}  // namespace

slots::Status Cluster::open() {
  auto store = control::StateStore::open(config_->state_dir);
  if (!store) return std::unexpected(store.error());
  store_ = std::move(*store);
  if (!store_->state()) {
    auto map = first_map(*config_);
    if (!map) return std::unexpected(map.error());
    if (auto written = store_->commit({config_->cluster, *map, {}, {}}); !written) return written;
    first_start_ = true;
  }
  if (state().cluster != config_->cluster) {
    return slots::fail(
        slots::Errc::Conflict,
        fmt::format("{} holds the state of cluster \"{}\", not of \"{}\"; name another state_dir",
                    config_->state_dir, state().cluster, config_->cluster));
  }
  auto table = make_routing_table(*config_, std::make_shared<slots::SlotMap>(state().map), nullptr);
  for (NodeRoute& node : table->nodes) {
    if (auto known = state().places.find(node.name); known != state().places.end())
      place_if_unknown(node, known->second);
    if (auto known = state().identities.find(node.name); known != state().identities.end())
      node.identity = known->second;
    if (node.reason.empty()) node.reason = "has not been reached yet";
  }
  set_commands(*table);
  make_cluster_replies(*table, nullptr);
  table_ = std::move(table);
  return record_places();
}

// Remembers where the nodes are, for the day that the file does not say it any more.
slots::Status Cluster::record_places() {
  control::ClusterState next = state();
  auto before = next.places;
  next.places.clear();
  for (const NodeRoute& node : table_->nodes) {
    if (node.address == conf::Address{}) continue;
    next.places[node.name] = {node.address.text(), node.endpoint ? node.endpoint->text() : "",
                              node.announced ? node.announced->text() : ""};
  }
  return next.places == before ? slots::Status{} : store_->commit(next);
}

std::vector<std::string> Cluster::drift() const { return conf::drift(*config_, *table_->map); }

std::vector<control::WatchedNode> Cluster::watched_nodes() const {
  std::vector<control::WatchedNode> nodes;
  for (const NodeRoute& node : table_->nodes) {
    if (node.address == conf::Address{}) continue;
    nodes.push_back({node.name, node.address, node.username, node.password, node.identity});
  }
  return nodes;
}

void Cluster::publish(const std::function<void(RoutingTable&)>& change,
                      std::function<void()> applied) {
  auto next = std::make_shared<RoutingTable>(*table_);
  next->version = table_->version + 1;
  change(*next);
  make_cluster_replies(*next, table_.get());
  table_ = std::move(next);
  if (deliver_) deliver_(table_, std::move(applied));
}

void Cluster::take_map(RoutingTable& table, std::shared_ptr<const slots::SlotMap> map) const {
  auto next = make_routing_table(*config_, std::move(map), &table);
  next->version = table.version;
  next->commands = table.commands;
  next->users = table.users;
  next->redis_version = table.redis_version;
  for (NodeRoute& node : next->nodes) {
    if (node.state == NodeState::Unverified && node.reason.empty())
      node.reason = "has not been reached yet";
  }
  table = *next;
}

// Users are made for one command table.
void Cluster::set_commands(RoutingTable& table) const {
  std::vector<std::string> refused;
  for (const conf::PlacedText& command : config_->refused_commands) refused.push_back(command.text);
  table.commands = resp::CommandTable::refusing(known_commands_, refused);
  table.users = acl::Users::make(*config_, table.commands, table.users.get());
}

slots::Status Cluster::learn_commands(std::string_view command_reply) {
  auto learned = resp::CommandTable::with_learned(*known_commands_, command_reply);
  if (!learned) return std::unexpected(learned.error());
  known_commands_ = *std::move(learned);
  publish([&](RoutingTable& table) { set_commands(table); });
  return {};
}

void Cluster::set_config(std::shared_ptr<const conf::Config> config) {
  config_ = std::move(config);
  publish([&](RoutingTable& table) {
    take_map(table, table.map);
    set_commands(table);
  });
  if (auto recorded = record_places(); !recorded) spdlog::error("{}", recorded.error().message);
}

slots::Status Cluster::commit(const control::ClusterState& next, control::StateStore::People people,
                              const std::function<void(RoutingTable&)>& change,
                              std::function<void()> applied) {
  const bool has_new_nodes = next.map.nodes() != state().map.nodes();
  if (slots::Status written = store_->commit(next, people); !written) return written;
  if (next.map.epoch() == table_->map->epoch() && !change) {
    if (applied) applied();
    return {};
  }
  publish(
      [&](RoutingTable& table) {
        if (next.map.epoch() != table.map->epoch())
          take_map(table, std::make_shared<slots::SlotMap>(next.map));
        if (change) change(table);
      },
      std::move(applied));
  return has_new_nodes ? record_places() : slots::Status{};
}

void Cluster::record_identity(const std::string& node, const std::string& identity) {
  auto index = table_->map->find(node);
  control::ClusterState next = state();
  std::string& recorded = next.identities[node];
  if (recorded == identity && table_->nodes[index.value_or(0)].identity == identity) return;
  recorded = identity;
  if (auto written = store_->commit(next); !written) {
    spdlog::error("the identity of node {} can't be recorded: {}", node, written.error().message);
  }
  publish([&](RoutingTable& table) {
    if (auto place = table.map->find(node)) table.nodes[*place].identity = identity;
  });
}

}  // namespace proxy
