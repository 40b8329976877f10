#include <doctest/doctest.h>

#include "admin/render.h"

using namespace admin;

namespace {

NodeReport node_up() {
  return {.name = "inv-bcn",
          .id = std::string(40, 'a'),
          .address = "10.0.0.1:6379",
          .endpoint = "127.0.0.1:6401",
          .announced = "shop.example:6401",
          .state = "up",
          .since_seconds = 4000,
          .weight = 2,
          .slots = 8192,
          .version = "7.0.15",
          .run_id = std::string(40, 'b'),
          .keys = 1210000,
          .used_memory = 1100000000,
          .maxmemory = 4000000000,
          .maxmemory_policy = "allkeys-lru",
          .ops_per_second = 20900};
}

NodeReport node_down() {
  return {.name = "inv-gir",
          .id = std::string(40, 'c'),
          .address = "10.0.0.30:6379",
          .state = "down",
          .reason = "connection refused",
          .since_seconds = 12,
          .weight = 1,
          .slots = 8192};
}

StatusReport status() {
  return {.cluster = "shop",
          .epoch = 7,
          .uptime_seconds = 273'600,
          .clients = 1204,
          .ops_per_second = 41234,
          .config_path = "shop.yaml",
          .workers = {{}, {}},
          .nodes = {node_up(), node_down()}};
}

KeyPlace place(std::string key, std::string hashed, std::uint64_t slot) {
  KeyPlace result;
  result.key.raw = std::move(key);
  result.hashed_part.raw = std::move(hashed);
  result.slot = slot;
  result.node = "inv-vlc";
  result.address = "10.0.0.2:6379";
  result.state = "up";
  return result;
}

}  // namespace

TEST_CASE("status shows the cluster in a line and its nodes in a table") {
  CHECK(render(status(), {}) ==
        "cluster shop   epoch 7   2 workers   up 3d 4h   1,204 clients   41.2 k ops/s\n"
        "NODE     ADDRESS         STATE      WEIGHT  SLOTS            KEYS         MEMORY   OPS/S\n"
        "inv-bcn  10.0.0.1:6379   ok              2  8,192  50.0 %  1.21 M  1.1 of 4.0 GB  20.9 k\n"
        "inv-gir  10.0.0.30:6379  down 12 s       1  8,192  50.0 %       -              -       -"
        "  connection refused\n"
        "drift from shop.yaml: none\n");
}

TEST_CASE("status names the plans that have not ended, and what shows them") {
  StatusReport report = status();
  report.plans = {{12, "running", "add inv-tar", ""}, {13, "proposed", "drain inv-gir", ""}};
  report.plans.push_back({14, "paused", "balance slots", "inv-gir is down"});
  CHECK(render(report, {})
            .find("plan 12 running: add inv-tar   slotctl plan watch 12\n"
                  "plan 13 proposed: drain inv-gir   slotctl plan show 13\n"
                  "plan 14 paused: balance slots, inv-gir is down   "
                  "slotctl plan show 14\n") != std::string::npos);
}

TEST_CASE("status tells drift, and that nothing comes of it by itself") {
  StatusReport report = status();
  report.drift = {"node inv-tar is new", "inv-bcn: weight 2, in the map 1"};
  CHECK(render(report, {})
            .ends_with("drift from shop.yaml: 2 differences; shown only, the map stays as it is\n"
                       "  node inv-tar is new\n"
                       "  inv-bcn: weight 2, in the map 1\n"));
}

TEST_CASE("status tells that the proxy drains") {
  StatusReport report = status();
  report.is_draining = true;
  CHECK(render(report, {}).find("ops/s   draining\n") != std::string::npos);
}

TEST_CASE("colour is only there when wanted, and only added") {
  std::string coloured = render(status(), {.is_coloured = true});
  CHECK(coloured.find("\x1b[32mok\x1b[0m") != std::string::npos);
  CHECK(coloured.find("\x1b[31mdown 12 s\x1b[0m") != std::string::npos);
  while (true) {
    const std::size_t begin = coloured.find('\x1b');
    if (begin == std::string::npos) break;
    coloured.erase(begin, coloured.find('m', begin) - begin + 1);
  }
  CHECK(coloured == render(status(), {}));
}

TEST_CASE("nodes shows what is known of each, and a dash for what is not") {
  CHECK(render(NodesReport{"shop", 7, {node_up(), node_down()}}, {}) ==
        "cluster shop   epoch 7   2 nodes\n"
        "NODE     ADDRESS         ENDPOINT        ANNOUNCED          STATE    FOR  VERSION    KEYS"
        "         MEMORY  EVICTION      OPS/S  ID        RUN ID\n"
        "inv-bcn  10.0.0.1:6379   127.0.0.1:6401  shop.example:6401  ok     1h 6m  7.0.15   1.21 M"
        "  1.1 of 4.0 GB  allkeys-lru  20.9 k  aaaaaaaa  bbbbbbbb\n"
        "inv-gir  10.0.0.30:6379  -               -                  down    12 s  -             -"
        "              -  -                 -  cccccccc  -         connection refused\n");
}

TEST_CASE("a node that has left the configuration has no address to show") {
  NodeReport gone = node_down();
  gone.address.clear();
  CHECK(render(NodesReport{"shop", 7, {gone}}, {}).find("inv-gir  -  ") != std::string::npos);
}

TEST_CASE("slots shows ranges per owner, many of them in several lines") {
  SlotsReport report{
      "shop", 7, {{"a", "h:1", "up", 16364, {"0-16363"}}, {"b", "h:2", "up", 0, {}}}};
  SlotOwner scattered{"c", "h:3", "down", 20, {}};
  for (int slot = 16364; slot < 16384; ++slot) scattered.ranges.push_back(std::to_string(slot));
  report.owners.push_back(scattered);
  CHECK(render(report, {}) ==
        "cluster shop   epoch 7   16,384 slots\n"
        "NODE  ADDRESS   SLOTS          RANGES\n"
        "a     h:1      16,364  99.9 %  0-16363\n"
        "b     h:2           0   0.0 %  -\n"
        "c     h:3          20   0.1 %  16364, 16365, 16366, 16367, 16368, 16369, 16370, 16371, "
        "16372,\n"
        "                               16373, 16374, 16375, 16376, 16377, 16378, 16379, 16380, "
        "16381,\n"
        "                               16382, 16383\n");
}

TEST_CASE("explain shows hashed part, slot and owner of each key") {
  ExplainReport report{.cluster = "shop", .epoch = 7, .keys = {place("cart:{42}", "42", 8000)}};
  SUBCASE("one") {
    CHECK(render(report, {}) ==
          "key  cart:{42}   hashed part \"42\"   slot 8000   owner inv-vlc 10.0.0.2:6379 "
          "(epoch 7)\n");
  }
  SUBCASE("several, in columns; with the endpoint, and why an owner can't serve") {
    report.keys[0].announced = "shop:6402";
    report.keys.push_back(place("a b", "a b", 7));
    report.keys[1].state = "down";
    report.keys[1].reason = "connection refused";
    CHECK(render(report, {}) ==
          "key  cart:{42}   hashed part \"42\"    slot 8000   owner inv-vlc 10.0.0.2:6379 "
          "(epoch 7)   endpoint shop:6402\n"
          "key  \"a b\"       hashed part \"a b\"   slot 7      owner inv-vlc 10.0.0.2:6379 "
          "(epoch 7)                        down: connection refused\n");
  }
  SUBCASE("a key of the proxy's own") {
    report.keys[0].is_reserved = true;
    CHECK(render(report, {}).find("the proxy's own key: refused to clients") != std::string::npos);
  }
}

TEST_CASE("an explained command shows its way, why, its keys and what each node gets") {
  ExplainReport report{.cluster = "shop",
                       .epoch = 7,
                       .command = "mget",
                       .outcome = "split",
                       .why = "its keys lie in 2 slots",
                       .keys = {place("a", "a", 15495), place("b", "b", 3300)},
                       .parts = {{"inv-vlc", "10.0.0.2:6379", "up", "", {{"a"}, {"b"}}},
                                 {"inv-gir", "10.0.0.3:6379", "down", "", {}}}};
  CHECK(render(report, {}) ==
        "command  mget   is split\n"
        "  its keys lie in 2 slots\n"
        "key  a   hashed part \"a\"   slot 15495   owner inv-vlc 10.0.0.2:6379 (epoch 7)\n"
        "key  b   hashed part \"b\"   slot 3300    owner inv-vlc 10.0.0.2:6379 (epoch 7)\n"
        "to  inv-vlc   10.0.0.2:6379   2 keys: a b\n"
        "to  inv-gir   10.0.0.3:6379                 down\n");
}

TEST_CASE("every outcome of a command has words") {
  for (const char* outcome :
       {"one_node", "split", "all_nodes", "any_node", "local", "cross_slot", "refused"}) {
    CAPTURE(outcome);
    const ExplainReport report{.command = "x", .outcome = outcome};
    CHECK(render(report, {}).find(std::string("   ") + outcome + "\n") == std::string::npos);
  }
}

TEST_CASE("strays are counted per node, and it says how to see them") {
  StraysReport report{"shop", 7, false, {{.node = "a", .keys = 1234567, .strays = 2}}};
  report.nodes[0].ranges = {"5", "7-9"};
  report.nodes.push_back({.node = "b", .error = "is down: connection refused"});
  CHECK(render(report, {}) ==
        "NODE       KEYS  STRAYS  SLOTS\n"
        "a     1,234,567       2  5, 7-9\n"
        "b             -       -  -       not counted: is down: connection refused\n"
        "2 strays: clients do not see these keys, since another node owns their slots\n"
        "list them with:   slotctl strays --list\n");
}

TEST_CASE("a list of strays names them, and says how many it leaves out") {
  StraysReport report{"shop", 7, true, {{.node = "a", .keys = 9, .strays = 3, .names = {{"x y"}}}}};
  const std::string text = render(report, {});
  CHECK(text.find("a  \"x y\"\na  … and 2 more\n") != std::string::npos);
  CHECK(text.find("--list") == std::string::npos);
}

TEST_CASE("no strays is said for the nodes that were counted alone") {
  StraysReport report{"shop", 7, false, {{.node = "a", .keys = 9}}};
  CHECK(render(report, {}).ends_with("no strays: every key lies on the node that owns its slot\n"));
  report.nodes.push_back({.node = "b", .error = "is down"});
  CHECK(render(report, {}).ends_with("no strays on the nodes that were counted\n"));
}

TEST_CASE("a count that may be too high says so") {
  StraysReport report{"shop", 7, false, {{.node = "a", .keys = 9, .strays = 5}}};
  report.nodes[0].is_exact = false;
  CHECK(render(report, {}).find("about: the count is not exact") != std::string::npos);
}

TEST_CASE("reload shows its notes") {
  CHECK(render(ReloadReport{}, {}) == "reloaded: nothing has changed\n");
  CHECK(render(ReloadReport{{"workers needs a restart"}}, {}) ==
        "reloaded\n  workers needs a restart\n");
}

TEST_CASE("health is one line") {
  CHECK(render(HealthReport{"degraded", 3, 2, 12288}, {}) ==
        "degraded   2 of 3 nodes up   12,288 of 16,384 slots served\n");
}

TEST_CASE("the configuration is shown option by option") {
  const ConfigReport report{
      "/etc/shop.yaml", {}, {{"listen.forward", {"a:1", "b:2"}}, {"log.file", {}}}};
  CHECK(render(report, {}) ==
        "configuration /etc/shop.yaml\n"
        "OPTION          VALUE\n"
        "listen.forward  a:1, b:2\n"
        "log.file        -\n"
        "drift from /etc/shop.yaml: none\n");
}
