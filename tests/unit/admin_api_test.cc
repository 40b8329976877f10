#include <doctest/doctest.h>

#include "admin/api.h"

using namespace admin;

namespace {

NodeReport full_node() {
  return {.name = "inv-bcn",
          .id = std::string(40, 'a'),
          .address = "127.0.0.1:7001",
          .endpoint = "127.0.0.1:6401",
          .announced = "shop-1.example.net:6401",
          .state = "down",
          .reason = "connection refused",
          .since_seconds = 12,
          .weight = 2.5,
          .slots = 8192,
          .version = "7.0.15",
          .run_id = std::string(40, 'b'),
          .keys = 1210000,
          .used_memory = 1100000000,
          .maxmemory = 0,
          .maxmemory_policy = "allkeys-lru",
          .ops_per_second = 20900,
          .incarnation = 3};
}

template <class Report>
void check_round_trip(const Report& report) {
  const std::string json = to_json(report);
  CAPTURE(json);
  CHECK(json.find('\n') == std::string::npos);
  const auto back = from_json<Report>(json);
  REQUIRE(back.has_value());
  CHECK((*back == report));
}

}  // namespace

TEST_CASE("every report comes back from its JSON as it was") {
  SUBCASE("status") {
    StatusReport status{
        .version = "0.1.0",
        .cluster = "shop",
        .epoch = 7,
        .uptime_seconds = 300,
        .is_draining = true,
        .clients = 1204,
        .ops_per_second = 41.25,
        .commands = 18'446'744'073'709'551'615ULL,
        .errors = 3,
        .bytes_in = 4,
        .bytes_out = 5,
        .config_path = "/etc/shop.yaml",
        .drift = {"node inv-tar is new"},
        .plans = {{12, "paused", "add inv-tar", "inv-bcn is down"}},
        .workers = {{.clients = 1, .commands = 2, .errors = 3, .counters = {{"x", 4}}}},
        .nodes = {full_node(), NodeReport{.name = "bare", .state = "unverified"}}};
    check_round_trip(status);
  }
  SUBCASE("nodes") { check_round_trip(NodesReport{"shop", 7, {full_node()}}); }
  SUBCASE("slots") {
    check_round_trip(SlotsReport{"shop", 7, {{"a", "h:1", "up", 3, {"0-1", "7000"}}}});
  }
  SUBCASE("explained command") {
    KeyPlace place{.key = {"cart:{42}"}, .hashed_part = {"42"}, .slot = 8000, .node = "a"};
    place.announced = "h:1";
    place.is_reserved = true;
    check_round_trip(ExplainReport{.cluster = "shop",
                                   .epoch = 7,
                                   .command = "mget",
                                   .outcome = "split",
                                   .why = "two nodes",
                                   .keys = {place},
                                   .parts = {{"a", "h:1", "down", "gone", {{"x"}, {"y"}}}}});
  }
  SUBCASE("strays") {
    NodeStrays strays{.node = "a", .keys = 9, .strays = 2, .ranges = {"5"}, .names = {{"k"}}};
    strays.is_exact = false;
    check_round_trip(StraysReport{"shop", 7, true, {strays, {.node = "b", .error = "is down"}}});
  }
  SUBCASE("reload") { check_round_trip(ReloadReport{{"limits.clients: 100 -> 200"}}); }
  SUBCASE("health") { check_round_trip(HealthReport{"degraded", 3, 2, 12288}); }
  SUBCASE("config") {
    check_round_trip(ConfigReport{"/etc/shop.yaml", {}, {{"listen.forward", {"a:1", "b:2"}}}});
  }
  SUBCASE("help") { check_round_trip(HelpReport{{{"PING", "", "a sign of life"}}}); }
}

TEST_CASE("a key that is no UTF-8 survives JSON to the byte") {
  ExplainReport report;
  report.keys.push_back({.key = {std::string("caf\xe9\0x", 6)}, .hashed_part = {"\xff\xfe"}});
  check_round_trip(report);
  CHECK(to_json(report).find(R"("hashed_part":{"text":"\\xff\\xfe","hex":"fffe"})") !=
        std::string::npos);
}

TEST_CASE("a key that is UTF-8 stays a plain string in JSON") {
  ExplainReport report;
  report.keys.push_back({.key = {"café\n"}});
  check_round_trip(report);
  CHECK(to_json(report).find(R"("key":"café\n")") != std::string::npos);
}

TEST_CASE("text that is no UTF-8 where text is meant never breaks an answer") {
  CHECK(to_json(ReloadReport{{"a\xff"}}) == R"({"notes":["a�"]})");
}

TEST_CASE("fields stand in the order of the report, empty optional ones are left out") {
  CHECK(to_json(HealthReport{"ok", 3, 3, 16384}) ==
        R"({"health":"ok","nodes":3,"nodes_up":3,"slots_served":16384})");
  CHECK(to_json(ExplainReport{.cluster = "c", .epoch = 1}) ==
        R"({"cluster":"c","epoch":1,"keys":[],"parts":[]})");
}

TEST_CASE("an answer of another version is understood as far as it goes") {
  SUBCASE("unknown fields are ignored") {
    const auto health = from_json<HealthReport>(R"({"health":"ok","moon":{"phase":[1]}})");
    REQUIRE(health.has_value());
    CHECK(health->health == "ok");
  }
  SUBCASE("missing fields keep their defaults") {
    const auto strays = from_json<StraysReport>(R"({"nodes":[{"node":"a"}]})");
    REQUIRE(strays.has_value());
    CHECK(strays->nodes.at(0).is_exact);
  }
}

TEST_CASE("an answer that is not what it should be is an error that names the field") {
  SUBCASE("no JSON") { CHECK_FALSE(from_json<HealthReport>("{\"health\":").has_value()); }
  SUBCASE("no object") { CHECK_FALSE(from_json<HealthReport>("[1]").has_value()); }
  SUBCASE("another type") {
    for (const char* text :
         {R"({"nodes":"3"})", R"({"nodes":-1})", R"({"nodes":1.5})", R"({"nodes":null})"}) {
      CAPTURE(text);
      const auto health = from_json<HealthReport>(text);
      REQUIRE_FALSE(health.has_value());
      CHECK(health.error().code == slots::Errc::Corrupt);
      CHECK(health.error().message.find("\"nodes\"") != std::string::npos);
    }
  }
  SUBCASE("deep inside") {
    const auto status = from_json<StatusReport>(R"({"workers":[{"counters":{"x":"y"}}]})");
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().message.find("\"counters\"") != std::string::npos);
  }
  SUBCASE("bytes with a broken hex form") {
    CHECK_FALSE(
        from_json<ExplainReport>(R"({"keys":[{"key":{"text":"x","hex":"0g"}}]})").has_value());
    CHECK_FALSE(
        from_json<ExplainReport>(R"({"keys":[{"key":{"text":"x","hex":"0"}}]})").has_value());
  }
}

TEST_CASE("a key with nothing in it is a key") {
  ExplainReport report;
  report.keys.push_back({.key = {""}});
  check_round_trip(report);
}
