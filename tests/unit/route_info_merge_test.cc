#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/route/info_merge.h"

namespace {

using proxy::route::merge_info;
using proxy::route::NodeInfo;
using proxy::route::ProxyFacts;

constexpr std::string_view kRunId = "72b140596cddfe5e8b3db30b42bdaeda4eb3e5b7";

constexpr std::string_view kBcn =
    "# Server\r\nredis_version:7.0.15\r\nos:Linux 6.1 x86_64\r\nrun_id:aaaa\r\ntcp_port:7001\r\n"
    "uptime_in_seconds:500\r\n"
    "# Clients\r\nconnected_clients:9\r\nblocked_clients:2\r\n"
    "# Memory\r\nused_memory:1048576\r\nused_memory_rss:2097152\r\nused_memory_peak:1048576\r\n"
    "maxmemory:1000\r\nmaxmemory_policy:allkeys-lru\r\n"
    "# Persistence\r\nloading:1\r\nrdb_last_save_time:1700\r\nrdb_last_bgsave_status:ok\r\n"
    "aof_enabled:0\r\n"
    "# Stats\r\ntotal_commands_processed:70\r\nkeyspace_hits:5\r\n"
    "instantaneous_input_kbps:0.25\r\n"
    "# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_repl_offset:40\r\n"
    "# CPU\r\nused_cpu_sys:1.250000\r\nused_cpu_user:2.000000\r\n"
    "# Modules\r\nmodule:name=ReJSON,ver=20400\r\n"
    "# Commandstats\r\n"
    "cmdstat_get:calls=3,usec=9,usec_per_call=3.00,rejected_calls=1,failed_calls=0\r\n"
    "# Errorstats\r\nerrorstat_ERR:count=2\r\n"
    "# Latencystats\r\nlatency_percentiles_usec_get:p50=5.023,p99=9.000\r\n"
    "# Cluster\r\ncluster_enabled:0\r\n"
    "# Keyspace\r\ndb0:keys=10,expires=4,avg_ttl=1000\r\ndb3:keys=1,expires=0,avg_ttl=0\r\n";

constexpr std::string_view kVlc =
    "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:10\r\n"
    "# Clients\r\nblocked_clients:1\r\n"
    "# Memory\r\nused_memory:524288\r\nused_memory_rss:1048576\r\nused_memory_peak:1048576\r\n"
    "maxmemory:500\r\nmaxmemory_policy:noeviction\r\n"
    "# Persistence\r\nrdb_last_save_time:1800\r\nrdb_last_bgsave_status:err\r\naof_enabled:1\r\n"
    "# Stats\r\nkeyspace_hits:6\r\ninstantaneous_input_kbps:1.50\r\n"
    "# Replication\r\nmaster_repl_offset:2\r\n"
    "# CPU\r\nused_cpu_sys:0.500000\r\nused_cpu_user:0.000000\r\n"
    "# Modules\r\nmodule:name=ReJSON,ver=20400\r\n"
    "# Commandstats\r\n"
    "cmdstat_get:calls=1,usec=3,usec_per_call=3.00,rejected_calls=0,failed_calls=1\r\n"
    "cmdstat_del:calls=1,usec=2,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n"
    "# Errorstats\r\nerrorstat_ERR:count=1\r\nerrorstat_NOAUTH:count=1\r\n"
    "# Latencystats\r\nlatency_percentiles_usec_get:p50=2.000,p99=12.000\r\n"
    "# Keyspace\r\ndb0:keys=6,expires=1,avg_ttl=6000\r\n";

ProxyFacts facts() {
  ProxyFacts facts;
  facts.slotproxy_version = "1.2.3";
  facts.redis_version = "7.0.15";
  facts.process_id = 4711;
  facts.uptime_seconds = 2 * 86400 + 5;
  facts.tcp_port = 6400;
  facts.clients = 100;
  facts.workers = 2;
  facts.epoch = 12;
  facts.requests_total = 1'000'000;
  facts.connections_total = 200;
  facts.errors_total = 8;
  facts.blocked_clients = 5;
  facts.run_id = kRunId;
  facts.clients_max = 10'000;
  return facts;
}

std::vector<NodeInfo> two_nodes() {
  return {NodeInfo{"inv-bcn", "127.0.0.1:7001", "up", kBcn, 0, 8192},
          NodeInfo{"inv-vlc", "127.0.0.1:7002", "up", kVlc, 0, 8192}};
}

// Every line that is neither empty nor a heading, as a library reads it. A field twice is an error.
std::map<std::string, std::string> fields_of(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    std::size_t end = text.find("\r\n");
    REQUIRE(end != std::string_view::npos);
    std::string line(text.substr(0, end));
    text.remove_prefix(end + 2);
    if (line.empty() || line.starts_with("# ")) continue;
    std::size_t colon = line.find(':');
    REQUIRE(colon != std::string::npos);
    CAPTURE(line);
    CHECK(fields.emplace(line.substr(0, colon), line.substr(colon + 1)).second);
  }
  return fields;
}

std::vector<std::string> headings_of(std::string_view text) {
  std::vector<std::string> headings;
  for (std::size_t at = 0; (at = text.find("# ", at)) != std::string_view::npos; ++at) {
    headings.emplace_back(text.substr(at + 2, text.find('\r', at) - at - 2));
  }
  return headings;
}

std::map<std::string, std::string> merged(const std::vector<std::string>& sections) {
  return fields_of(merge_info(facts(), two_nodes(), sections));
}

}  // namespace

TEST_CASE("INFO of all nodes reads like one server's") {
  std::string text = merge_info(facts(), two_nodes(), {});
  auto fields = fields_of(text);
  SUBCASE("the proxy is the server that it talks of") {
    CHECK(fields["redis_version"] == "7.0.15");
    CHECK(fields["slotproxy_version"] == "1.2.3");
    CHECK(fields["slotproxy_epoch"] == "12");
    CHECK(fields["process_id"] == "4711");
    CHECK(fields["run_id"] == kRunId);
    CHECK(fields["tcp_port"] == "6400");
    CHECK(fields["uptime_in_seconds"] == "172805");
    CHECK(fields["uptime_in_days"] == "2");
    CHECK(fields["connected_clients"] == "100");
    CHECK(fields["maxclients"] == "10000");
    CHECK(fields["blocked_clients"] == "5");
    CHECK(fields["total_commands_processed"] == "1000000");
    CHECK(fields["total_connections_received"] == "200");
    CHECK(fields["total_error_replies"] == "8");
  }
  SUBCASE("it is a master without replicas, whatever the nodes have") {
    CHECK(fields["role"] == "master");
    CHECK(fields["connected_slaves"] == "0");
    CHECK(fields["master_replid"] == kRunId);
    CHECK(fields["master_repl_offset"] == "42");
  }
  SUBCASE("a node that loads its data does not make libraries wait for the proxy") {
    CHECK(fields["loading"] == "0");
  }
  SUBCASE("amounts are sums") {
    CHECK(fields["used_memory"] == "1572864");
    CHECK(fields["used_memory_human"] == "1.50M");
    CHECK(fields["used_memory_rss_human"] == "3.00M");
    CHECK(fields["mem_fragmentation_ratio"] == "2.00");
    CHECK(fields["maxmemory"] == "1500");
    CHECK(fields["maxmemory_human"] == "1.46K");
    CHECK(fields["keyspace_hits"] == "11");
    CHECK(fields["used_cpu_sys"] == "1.750000");
    CHECK(fields["instantaneous_input_kbps"] == "1.75");
  }
  SUBCASE("what can't be summed is the first's, the latest or the worst") {
    CHECK(fields["maxmemory_policy"] == "allkeys-lru");
    CHECK(fields["rdb_last_save_time"] == "1800");
    CHECK(fields["rdb_last_bgsave_status"] == "err");
    CHECK(fields["aof_enabled"] == "1");
  }
  SUBCASE("sections stand in Redis's order, the nodes behind them") {
    CHECK(headings_of(text) ==
          std::vector<std::string>{"Server", "Clients", "Memory", "Persistence", "Stats",
                                   "Replication", "CPU", "Modules", "Errorstats", "Cluster",
                                   "Keyspace", "Node inv-bcn", "Node inv-vlc"});
    CHECK(text.starts_with("# Server\r\nredis_version:7.0.15\r\n"));
    CHECK(text.find("\r\n\r\n# Clients\r\n") != std::string::npos);
    CHECK(text.find("\r\n\r\n\r\n") == std::string::npos);
  }
  SUBCASE("the same module on two nodes is one module") {
    CHECK(fields["module"] == "name=ReJSON,ver=20400");
  }
}

TEST_CASE("INFO says which mode the listener has") {
  ProxyFacts of_endpoint = facts();
  CHECK(merged({"server"})["redis_mode"] == "standalone");
  CHECK(merged({"cluster"})["cluster_enabled"] == "0");
  of_endpoint.cluster_mode = true;
  CHECK(fields_of(merge_info(of_endpoint, two_nodes(), {"server"}))["redis_mode"] == "cluster");
  CHECK(fields_of(merge_info(of_endpoint, two_nodes(), {"cluster"}))["cluster_enabled"] == "1");
}

TEST_CASE("one node without a memory limit means no limit for all") {
  std::vector<NodeInfo> nodes = two_nodes();
  nodes[1].info = "maxmemory:0\r\n";
  CHECK(fields_of(merge_info(facts(), nodes, {"memory"}))["maxmemory"] == "0");
}

TEST_CASE("named sections of INFO come alone") {
  auto headings = [](const std::vector<std::string>& sections) {
    return headings_of(merge_info(facts(), two_nodes(), sections));
  };
  using Names = std::vector<std::string>;
  CHECK(headings({"replication"}) == Names{"Replication"});
  CHECK(headings({"keyspace", "server"}) == Names{"Server", "Keyspace"});
  CHECK(headings({"server", "server"}) == Names{"Server"});
  CHECK(headings({"nodes"}) == Names{"Node inv-bcn", "Node inv-vlc"});
  CHECK(headings({"latencystats"}) == Names{"Latencystats"});
  CHECK(merge_info(facts(), two_nodes(), {"nosuch"}).empty());
  CHECK(merge_info(facts(), two_nodes(), {"default"}) == merge_info(facts(), two_nodes(), {}));
  CHECK(headings({"all"}).size() == headings({}).size() + 2);
  CHECK(headings({"everything"}) == headings({"all"}));
  CHECK(headings({"default", "commandstats"}).size() == headings({}).size() + 1);
}

TEST_CASE("statistics by command, error and latency are merged by name") {
  auto commands = merged({"commandstats"});
  CHECK(commands["cmdstat_get"] ==
        "calls=4,usec=12,usec_per_call=3.00,rejected_calls=1,failed_calls=1");
  CHECK(commands["cmdstat_del"] ==
        "calls=1,usec=2,usec_per_call=2.00,rejected_calls=0,failed_calls=0");
  auto errors = merged({"errorstats"});
  CHECK(errors["errorstat_ERR"] == "count=3");
  CHECK(errors["errorstat_NOAUTH"] == "count=1");
  CHECK(merged({"latencystats"})["latency_percentiles_usec_get"] == "p50=5.023,p99=12.000");
}

TEST_CASE("the keyspace is the sum of what clients can see") {
  std::vector<NodeInfo> nodes = two_nodes();
  auto keyspace = [&] { return fields_of(merge_info(facts(), nodes, {"keyspace"})); };
  SUBCASE("keys and expires add up, the mean time to live is weighted") {
    CHECK(keyspace()["db0"] == "keys=16,expires=5,avg_ttl=2000");
    CHECK(keyspace()["db3"] == "keys=1,expires=0,avg_ttl=0");
  }
  SUBCASE("hidden keys do not count") {
    nodes[0].hidden_keys = 9;
    CHECK(keyspace()["db0"] == "keys=7,expires=2,avg_ttl=3500");
  }
  SUBCASE("a database without a key to be seen has no line") {
    nodes[0].hidden_keys = 100;
    nodes[1].hidden_keys = 6;
    CHECK(keyspace().count("db0") == 0);
    CHECK(keyspace().count("db3") == 1);
  }
}

TEST_CASE("each node has a section of its own, with fields that no other has") {
  std::vector<NodeInfo> nodes = two_nodes();
  nodes[0].hidden_keys = 3;
  nodes[1].state = "down";
  nodes[1].info = std::nullopt;
  auto fields = fields_of(merge_info(facts(), nodes, {"nodes"}));
  CHECK(fields["node0_name"] == "inv-bcn");
  CHECK(fields["node0_address"] == "127.0.0.1:7001");
  CHECK(fields["node0_state"] == "up");
  CHECK(fields["node0_slots"] == "8192");
  CHECK(fields["node0_version"] == "7.0.15");
  CHECK(fields["node0_used_memory"] == "1048576");
  CHECK(fields["node0_keys"] == "8");  // Of all databases.
  CHECK(fields["node0_hidden_keys"] == "3");
  CHECK(fields["node1_state"] == "down");
  CHECK(fields.count("node1_used_memory") == 0);
}

TEST_CASE("without any node that answers INFO still has what libraries look for") {
  std::vector<NodeInfo> nodes = {NodeInfo{"inv-bcn", "127.0.0.1:7001", "down", std::nullopt, 0, 1}};
  auto fields = fields_of(merge_info(facts(), nodes, {}));
  for (const char* field : {"redis_version",
                            "redis_mode",
                            "role",
                            "loading",
                            "connected_slaves",
                            "master_replid",
                            "master_repl_offset",
                            "run_id",
                            "tcp_port",
                            "uptime_in_seconds",
                            "connected_clients",
                            "used_memory",
                            "maxmemory",
                            "maxmemory_policy",
                            "cluster_enabled",
                            "blocked_clients",
                            "total_commands_processed",
                            "process_id",
                            "rdb_bgsave_in_progress",
                            "aof_enabled"}) {
    CAPTURE(field);
    CHECK(fields.count(field) == 1);
  }
}

TEST_CASE("odd lines of a node's INFO do no harm") {
  std::vector<NodeInfo> nodes = {NodeInfo{
      "inv-bcn", "a:1", "up",
      "no colon\r\n:no name\r\n# used_memory:9\r\nused_memory:x\ndb0:\r\ndb0x:keys=5\r\n"
      "db1:keys=-4\r\nkeyspace_hits:99999999999999999999\r\ncmdstat_get:\r\nused_memory_rss:7",
      0, 1}};
  auto fields = fields_of(merge_info(facts(), nodes, {"all"}));
  CHECK(fields["used_memory"] == "0");
  CHECK(fields["used_memory_rss"] == "7");
  CHECK(fields.count("db0") == 0);
  CHECK(fields.count("db1") == 0);
}
