#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "conf/loader.h"
#include "conf/writer.h"

namespace {

conf::Config parsed(const std::string& yaml, const std::string& file = "shop.yaml") {
  auto config = conf::parse(file, yaml);
  REQUIRE_MESSAGE(config.has_value(), config.error().text());
  return *config;
}

constexpr const char* kShop = R"(cluster: shop
listen: {forward: [127.0.0.1:6400, "/run/a, b.sock"], password: "a \"b\" \\ #c: \t é", forward_cluster: true}
workers: 4
state_dir: /srv/slot proxy
placement: rendezvous
allow_config: true
ping_nodes: true
databases: 4
limits: {bulk: 1MB, clients: 12}
timeouts: {request: 90s}
log: {level: warn}
nodes:
  - {name: "null", address: "[::1]:7001", endpoint: 127.0.0.1:6401, announce: x.example.net:1, weight: 0.1, slots: "0-99,101"}
  - {name: -b, address: /run/b.sock, endpoint: 127.0.0.1:6402, slots: [100, 102-16383], username: u, password: p}
  - {name: c, address: 127.0.0.1:7003, endpoint: 127.0.0.1:6403, weight: 0, slots: []}
)";

}  // namespace

TEST_CASE("what is written reads back to the same configuration") {
  const conf::Config config = parsed(kShop);
  const std::string yaml = conf::to_yaml(config, conf::Secrets::Include);
  CAPTURE(yaml);
  CHECK(parsed(yaml) == config);
  SUBCASE("the sample too") {
    const auto sample = conf::load(std::string(SLOTPROXY_SOURCE_DIR) + "/conf/slotproxy.yaml");
    REQUIRE(sample.has_value());
    CHECK(parsed(conf::to_yaml(*sample)) == *sample);
  }
}

TEST_CASE("only what differs from the defaults is written") {
  CHECK(conf::to_yaml(parsed("cluster: a\nlisten: {forward: h:1}\nnodes: [{name: n, address: h:2, "
                             "slots: 0-16383}]\n")) ==
        "cluster: a\n"
        "listen:\n"
        "  forward: h:1\n"
        "nodes:\n"
        "  - name: n\n"
        "    address: h:2\n"
        "    slots: 0-16383\n");
}

TEST_CASE("passwords are left out unless they are asked for") {
  conf::Config config = parsed(kShop);
  const std::string yaml = conf::to_yaml(config);
  CHECK(yaml.find("# password: left out here") != std::string::npos);
  CHECK(yaml.find(config.listen.password) == std::string::npos);
  CHECK(yaml.find("password: p\n") == std::string::npos);
}

TEST_CASE("a password that came from a file is written as that file") {
  std::string dir = (std::filesystem::temp_directory_path() / "slotproxy-conf-XXXXXX").string();
  REQUIRE(::mkdtemp(dir.data()) != nullptr);
  std::ofstream(dir + "/secret") << "hidden\n";
  const std::string file = dir + "/shop.yaml";
  const conf::Config config = parsed(
      "cluster: a\nlisten: {forward: h:1, password_file: secret}\nnodes: [{name: n, address: "
      "h:2}]\n",
      file);
  const std::string yaml = conf::to_yaml(config, conf::Secrets::Include);
  CHECK(yaml.find("password_file: secret") != std::string::npos);
  CHECK(yaml.find("hidden") == std::string::npos);
  CHECK(parsed(yaml, file) == config);
  std::filesystem::remove_all(dir);
}

TEST_CASE("a scalar is quoted where it would read as something else") {
  CHECK(conf::yaml_scalar("shop-1.example.net:6401") == "shop-1.example.net:6401");
  CHECK(conf::yaml_scalar("0-5460,7000") == "0-5460,7000");
  CHECK(conf::yaml_scalar("") == "\"\"");
  CHECK(conf::yaml_scalar("null") == "\"null\"");
  CHECK(conf::yaml_scalar("-") == "\"-\"");
  CHECK(conf::yaml_scalar("a: b") == "\"a: b\"");
  CHECK(conf::yaml_scalar("a:") == "\"a:\"");
  CHECK(conf::yaml_scalar("[::1]:1") == "\"[::1]:1\"");
  CHECK(conf::yaml_scalar("a\"\\\n") == "\"a\\\"\\\\\\x0a\"");
}
