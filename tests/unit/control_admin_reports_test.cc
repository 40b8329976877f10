#include <doctest/doctest.h>

#include <algorithm>

#include "proxy/control/admin_reports.h"
#include "proxy/resp/command_table.h"

using namespace proxy;
using namespace proxy::control;

namespace {

// Node a: up for 90 s, slots 0-8191 and 16383; node b: down, the others.
AdminSnapshot shop() {
  auto table = std::make_shared<RoutingTable>();
  table->cluster = "shop";
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 8192; slot < slots::kSlotCount - 1; ++slot) owners[slot] = 1;
  table->map = std::make_shared<const slots::SlotMap>(
      *slots::SlotMap::create({{"a", 2.0}, {"b", 1.0}}, owners, 7));
  table->nodes.resize(2);
  NodeRoute& a = table->nodes[0];
  a.name = "a";
  a.id = std::string(40, 'a');
  a.address = {.host = "127.0.0.1", .port = 7001, .path = {}};
  a.endpoint = conf::Address{.host = "127.0.0.1", .port = 6401, .path = {}};
  a.announced = conf::Address{.host = "shop", .port = 6401, .path = {}};
  a.state = NodeState::Up;
  a.incarnation = 2;
  NodeRoute& b = table->nodes[1];
  b.name = "b";
  b.state = NodeState::Down;
  b.reason = "connection refused";
  table->commands = resp::CommandTable::built_in();

  AdminSnapshot snapshot;
  snapshot.table = table;
  NodeStatus up;
  up.state = NodeState::Up;
  up.version = "7.0.15";
  up.run_id = "r1";
  up.since = snapshot.taken_at - std::chrono::seconds(90);
  up.facts.keys = 11;
  up.facts.used_memory = 1000;
  up.facts.maxmemory = 2000;
  up.facts.maxmemory_policy = "noeviction";
  up.facts.ops_per_second = 5;
  NodeStatus down = up;
  down.state = NodeState::Down;
  down.since = snapshot.taken_at - std::chrono::milliseconds(1500);
  snapshot.nodes = {up, down};
  snapshot.workers = {
      {.clients = 1, .commands = 10, .errors = 1, .bytes_in = 100, .bytes_out = 200},
      {.clients = 2, .commands = 20, .errors = 2, .bytes_in = 300, .bytes_out = 400}};
  snapshot.ops_per_second = 12.5;
  snapshot.uptime = std::chrono::seconds(77);
  snapshot.config_path = "shop.yaml";
  snapshot.config = std::make_shared<conf::Config>();
  snapshot.drift = {"node c is new"};
  return snapshot;
}

std::vector<std::string> values_of(const admin::ConfigReport& report, std::string_view path) {
  const auto found = std::find_if(report.options.begin(), report.options.end(),
                                  [&](const admin::ConfigOption& o) { return o.path == path; });
  REQUIRE(found != report.options.end());
  return found->values;
}

using Values = std::vector<std::string>;

}  // namespace

TEST_CASE("the status sums what the workers count") {
  const admin::StatusReport report = status_report(shop());
  CHECK(report.cluster == "shop");
  CHECK(report.epoch == 7);
  CHECK(report.uptime_seconds == 77);
  CHECK(report.clients == 3);
  CHECK(report.commands == 30);
  CHECK(report.errors == 3);
  CHECK(report.bytes_in == 400);
  CHECK(report.bytes_out == 600);
  CHECK(report.ops_per_second == 12.5);
  CHECK(report.workers.size() == 2);
  CHECK(report.config_path == "shop.yaml");
  CHECK(report.drift == Values{"node c is new"});
  CHECK(report.version == SLOTPROXY_VERSION);
}

TEST_CASE("a node that is up shows what it said of itself") {
  const admin::NodeReport node = nodes_report(shop()).nodes.at(0);
  CHECK(node.address == "127.0.0.1:7001");
  CHECK(node.endpoint == "127.0.0.1:6401");
  CHECK(node.announced == "shop:6401");
  CHECK(node.state == "up");
  CHECK(node.since_seconds == 90);
  CHECK(node.weight == 2);
  CHECK(node.slots == 8193);
  CHECK(node.version == "7.0.15");
  CHECK(node.used_memory == 1000);
  CHECK(node.maxmemory == 2000);
  CHECK(node.ops_per_second == 5);
  CHECK(node.incarnation == 2);
  SUBCASE("its keys without the proxy's own") { CHECK(node.keys == 10); }
}

TEST_CASE("a node that is down shows why and since when, but no figures of the past") {
  const admin::NodeReport node = nodes_report(shop()).nodes.at(1);
  CHECK(node.state == "down");
  CHECK(node.reason == "connection refused");
  CHECK(node.since_seconds == 1);
  CHECK(node.version == "7.0.15");
  CHECK_FALSE(node.keys.has_value());
  CHECK_FALSE(node.used_memory.has_value());
  CHECK_FALSE(node.ops_per_second.has_value());
}

TEST_CASE("a node without an address in the configuration has none in the report") {
  CHECK(nodes_report(shop()).nodes.at(1).address.empty());
}

TEST_CASE("slots are told as ranges per owner") {
  const admin::SlotsReport report = slots_report(shop());
  CHECK(report.owners.at(0).ranges == Values{"0-8191", "16383"});
  CHECK(report.owners.at(0).slots == 8193);
  CHECK(report.owners.at(1).ranges == Values{"8192-16382"});
}

TEST_CASE("health is ok only while every node is up and the proxy stays") {
  AdminSnapshot snapshot = shop();
  CHECK(health_report(snapshot).health == "degraded");
  CHECK(health_report(snapshot).nodes_up == 1);
  CHECK(health_report(snapshot).slots_served == 8193);
  auto table = std::make_shared<RoutingTable>(*snapshot.table);
  table->nodes[1].state = NodeState::Up;
  snapshot.table = table;
  CHECK(health_report(snapshot).health == "ok");
  snapshot.is_draining = true;
  CHECK(health_report(snapshot).health == "draining");
}

TEST_CASE("the configuration is told option by option, passwords only as set or not") {
  AdminSnapshot snapshot = shop();
  auto config = std::make_shared<conf::Config>();
  config->cluster = "shop";
  config->listen.password = "client secret";
  config->listen.admin_password_file = "/etc/admin.pw";
  config->nodes.resize(1);
  config->nodes[0].name = "a";
  config->nodes[0].password = "node secret";
  snapshot.config = config;
  const admin::ConfigReport report = config_report(snapshot);
  CHECK(values_of(report, "cluster") == Values{"shop"});
  CHECK(values_of(report, "listen.password") == Values{"(set)"});
  CHECK(values_of(report, "listen.admin_password").empty());
  CHECK(values_of(report, "listen.admin_password_file") == Values{"/etc/admin.pw"});
  CHECK(values_of(report, "nodes[0].name") == Values{"a"});
  CHECK(values_of(report, "nodes[0].password") == Values{"(set)"});
  CHECK(to_json(report).find("secret") == std::string::npos);
}

TEST_CASE("a stray count that is not whole is not exact") {
  StrayReport counted;
  counted.keys = 10;
  counted.strays = 2;
  counted.slots.add(slots::SlotRange{5, 6});
  counted.names = {"x", "y"};
  counted.is_whole = true;
  StrayReport sampled = counted;
  sampled.is_whole = false;
  const std::vector<NodeStrayCount> counts{
      {"a", counted}, {"b", sampled}, {"c", slots::fail(slots::Errc::Unavailable, "is down")}};
  const admin::StraysReport report = strays_report(shop(), true, counts);
  CHECK(report.nodes.at(0).is_exact);
  CHECK(report.nodes.at(0).ranges == Values{"5-6"});
  CHECK(report.nodes.at(0).names.size() == 2);
  CHECK_FALSE(report.nodes.at(1).is_exact);
  CHECK(report.nodes.at(2).error == "is down");
  CHECK(strays_report(shop(), false, counts).nodes.at(0).names.empty());
}
