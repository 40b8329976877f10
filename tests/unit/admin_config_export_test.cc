#include <doctest/doctest.h>

#include <string>

#include "admin/config_export.h"
#include "conf/loader.h"

using namespace admin;

namespace {

ConfigReport shop() {
  return {.path = "shop.yaml",
          .options = {{"cluster", {"shop"}},
                      {"listen.forward", {"127.0.0.1:6400", "[::1]:6400"}},
                      {"listen.password", {"(set)"}},
                      {"limits.clients", {"12"}},
                      {"log.file", {}},
                      {"nodes[0].name", {"a"}},
                      {"nodes[0].address", {"127.0.0.1:7001"}},
                      {"nodes[0].weight", {"1"}},
                      {"nodes[0].slots", {"0-16383"}},
                      {"nodes[1].name", {"b"}},
                      {"nodes[1].address", {"127.0.0.1:7002"}},
                      {"nodes[1].weight", {"1"}}}};
}

NodesReport nodes() {
  return {"shop",
          7,
          {{.name = "a", .address = "127.0.0.1:7001", .weight = 3, .slots = 12'288},
           {.name = "b", .address = "127.0.0.1:7002", .slots = 4096}}};
}

SlotsReport owners() {
  return {
      "shop", 7, {{.node = "a", .ranges = {"0-12287"}}, {.node = "b", .ranges = {"12288-16383"}}}};
}

conf::Config exported(const ConfigReport& config, const NodesReport& all,
                      const SlotsReport& slots) {
  const auto yaml = export_yaml(config, all, slots);
  REQUIRE_MESSAGE(yaml.has_value(), yaml.error().message);
  CAPTURE(*yaml);
  auto read = conf::parse("export.yaml", *yaml);
  REQUIRE_MESSAGE(read.has_value(), read.error().text());
  return *std::move(read);
}

}  // namespace

TEST_CASE("an export is the options in force with the map's weights and ownership") {
  const conf::Config config = exported(shop(), nodes(), owners());
  CHECK(config.cluster == "shop");
  CHECK(config.listen.forward.size() == 2);
  CHECK(config.limits.clients == 12);
  REQUIRE(config.nodes.size() == 2);
  CHECK(config.nodes[0].weight == 3);
  CHECK(slots::to_string(*config.nodes[0].slots) == "0-12287");
  CHECK(slots::to_string(*config.nodes[1].slots) == "12288-16383");
}

TEST_CASE("an export holds no password, and says so") {
  const std::string yaml = export_yaml(shop(), nodes(), owners()).value();
  CHECK(yaml.find("# password: left out") != std::string::npos);
  CHECK(yaml.find("(set)") == std::string::npos);
}

TEST_CASE("nodes that the file and the map do not share") {
  SUBCASE("the map's alone is written with its address") {
    NodesReport all = nodes();
    all.nodes.push_back({.name = "c", .address = "127.0.0.1:7003", .slots = 0});
    CHECK(exported(shop(), all, owners()).nodes.back().name == "c");
  }
  SUBCASE("the file's alone owns nothing") {
    ConfigReport config = shop();
    config.options.push_back({"nodes[2].name", {"new"}});
    config.options.push_back({"nodes[2].address", {"127.0.0.1:7009"}});
    CHECK_FALSE(exported(config, nodes(), owners()).nodes.back().slots.has_value());
  }
  SUBCASE("one that is being drained keeps the weight that the file allows") {
    NodesReport all = nodes();
    all.nodes[1].weight = 0;
    CHECK(exported(shop(), all, owners()).nodes[1].weight == 1);
  }
}

TEST_CASE("what can't be exported is refused") {
  SUBCASE("reports of two epochs") {
    SlotsReport later = owners();
    later.epoch = 8;
    CHECK(export_yaml(shop(), nodes(), later).error().code == slots::Errc::Conflict);
  }
  SUBCASE("options of another version") {
    ConfigReport config = shop();
    config.options.push_back({"limits.of_tomorrow", {"1"}});
    CHECK(export_yaml(config, nodes(), owners()).error().message.find("limits.of_tomorrow") !=
          std::string::npos);
    for (const char* path : {"nodes[99999].name", "nodes[x].name", "nodes[0", "nodes[0].colour"}) {
      CAPTURE(path);
      ConfigReport strange = shop();
      strange.options.push_back({path, {"x"}});
      CHECK_FALSE(export_yaml(strange, nodes(), owners()).has_value());
    }
  }
}
