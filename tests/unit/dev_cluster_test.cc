#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "proxy/dev.h"

namespace proxy {
namespace {

conf::Config config_of(const DevOptions& options) {
  auto config = dev_config(options, "/scratch");
  REQUIRE(config.has_value());
  return *config;
}

// A listening socket on a port that the kernel chose.
class Listener {
 public:
  Listener() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&name), size) == 0);
    REQUIRE(::listen(socket_, 1) == 0);
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port_ = ntohs(name.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(socket_); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::uint16_t port_ = 0;
};

class ScratchFolder {
 public:
  ScratchFolder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_ = "/tmp/dev-test-XXXXXX";
};

// Somebody else may take a port between choosing it and using it: then others are tried.
slots::Result<std::unique_ptr<DevCluster>> start_on_free_ports(DevOptions options) {
  for (int attempt = 0;; ++attempt) {
    options.port = Listener().port();
    auto cluster = DevCluster::start(options);
    const bool is_bad_luck = !cluster && (cluster.error().code == slots::Errc::Conflict ||
                                          cluster.error().code == slots::Errc::InvalidArgument);
    if (!is_bad_luck || attempt == 50) return cluster;
  }
}

TEST_CASE("a dev cluster has three nodes on 6400 and the ports after it") {
  const conf::Config config = config_of({});
  CHECK(config.cluster == "dev");
  REQUIRE(config.listen.forward.size() == 1);
  CHECK(config.listen.forward[0].text() == "127.0.0.1:6400");
  CHECK(config.listen.admin.text() == "/tmp/slotproxy/admin.sock");
  REQUIRE(config.nodes.size() == 3);
  CHECK(config.nodes[0].name == "a");
  CHECK(config.nodes[2].name == "c");
  CHECK(config.nodes[0].endpoint->text() == "127.0.0.1:6401");
  CHECK(config.nodes[2].endpoint->text() == "127.0.0.1:6403");
}

TEST_CASE("everything that a dev cluster writes is in its scratch folder") {
  const conf::Config config = config_of({});
  CHECK(config.state_dir == "/scratch/state");
  CHECK(config.nodes[1].address.text() == "/scratch/b.sock");
}

TEST_CASE("another port moves every listener of a dev cluster, the admin socket included") {
  const conf::Config config = config_of({.nodes = 2, .port = 7400});
  CHECK(config.listen.forward[0].port == 7400);
  CHECK(config.nodes[1].endpoint->port == 7402);
  CHECK(config.listen.admin.text() == "/tmp/slotproxy/admin-7400.sock");
}

TEST_CASE("a dev cluster needs at least one node, a letter for each, and room for its ports") {
  CHECK_FALSE(dev_config({.nodes = 0}, "/scratch").has_value());
  CHECK(dev_config({.nodes = 26}, "/scratch").has_value());
  CHECK_FALSE(dev_config({.nodes = 27}, "/scratch").has_value());
  CHECK_FALSE(dev_config({.port = 0}, "/scratch").has_value());
  CHECK(dev_config({.nodes = 3, .port = 65532}, "/scratch").has_value());
  CHECK_FALSE(dev_config({.nodes = 3, .port = 65533}, "/scratch").has_value());
}

TEST_CASE("the banner says what to type next, and ends with a line that begins with ready") {
  const std::string banner = dev_banner(config_of({}), 1, "build/slotctl");
  CHECK(banner.find("cluster \"dev\" · 3 nodes · 16,384 slots · epoch 1\n") != std::string::npos);
  CHECK(banner.find("redis-cli -p 6400\n") != std::string::npos);
  CHECK(banner.find("redis-cli -c -p 6401") != std::string::npos);
  CHECK(banner.find("(6401 a · 6402 b · 6403 c)\n") != std::string::npos);
  CHECK(banner.find("build/slotctl status\n") != std::string::npos);
  CHECK(banner.find("\nready. Ctrl-C stops the proxy and the three redis-servers it started.\n") !=
        std::string::npos);
}

TEST_CASE("the banner of another port names its admin socket") {
  CHECK(dev_banner(config_of({.port = 7400}), 1, "slotctl")
            .find("slotctl --admin /tmp/slotproxy/admin-7400.sock status\n") != std::string::npos);
}

TEST_CASE("the banner of one node speaks of one, that of many leaves some out") {
  const std::string one = dev_banner(config_of({.nodes = 1}), 1, "slotctl");
  CHECK(one.find("1 node ·") != std::string::npos);
  CHECK(one.find("the redis-server it started") != std::string::npos);
  const std::string many = dev_banner(config_of({.nodes = 12}), 1, "slotctl");
  CHECK(many.find("(6401 a · 6402 b · 6403 c · … · 6412 l)\n") != std::string::npos);
  CHECK(many.find("the 12 redis-servers it started") != std::string::npos);
}

TEST_CASE("without a redis-server a dev cluster says how to get one, and leaves nothing behind") {
  const ScratchFolder scratch;
  const auto cluster = start_on_free_ports(
      {.redis_server = "redis-server-nowhere", .scratch_parent = scratch.path()});
  REQUIRE_FALSE(cluster.has_value());
  CHECK(cluster.error().code == slots::Errc::NotFound);
  CHECK(cluster.error().message.find("apt-get install redis-server") != std::string::npos);
  CHECK(scratch.is_empty());
}

TEST_CASE("a port that is taken is named, with a way out, before anything starts") {
  const ScratchFolder scratch;
  const Listener listener;
  const auto cluster = DevCluster::start({.nodes = 1,
                                          .port = listener.port(),
                                          .redis_server = "/bin/false",
                                          .scratch_parent = scratch.path()});
  REQUIRE_FALSE(cluster.has_value());
  CHECK(cluster.error().code == slots::Errc::Conflict);
  CHECK(cluster.error().message.find(std::to_string(listener.port())) != std::string::npos);
  CHECK(cluster.error().message.find("--port") != std::string::npos);
  CHECK(scratch.is_empty());
}

TEST_CASE("a redis-server that ends at once fails the start, and leaves nothing behind") {
  const ScratchFolder scratch;
  const auto cluster =
      start_on_free_ports({.redis_server = "/bin/false", .scratch_parent = scratch.path()});
  REQUIRE_FALSE(cluster.has_value());
  CHECK(cluster.error().code == slots::Errc::Io);
  CHECK(cluster.error().message.find("node a ended at once") != std::string::npos);
  CHECK(scratch.is_empty());
}

TEST_CASE("a dev cluster's redis-servers answer once it has started, and end with it") {
  const ScratchFolder scratch;
  auto cluster = start_on_free_ports({.nodes = 2, .scratch_parent = scratch.path()});
  if (!cluster) {
    CAPTURE(cluster.error().message);
    REQUIRE(cluster.has_value());
  }
  const std::vector<pid_t> servers = (*cluster)->servers();
  REQUIRE(servers.size() == 2);
  for (const pid_t server : servers) CHECK(::kill(server, 0) == 0);
  CHECK(std::filesystem::is_socket((*cluster)->config().nodes[1].address.path));

  cluster->reset();
  for (const pid_t server : servers) CHECK((::kill(server, 0) == -1 && errno == ESRCH));
  CHECK(scratch.is_empty());
}

TEST_CASE("a dev cluster removes what another left behind, and leaves those in use alone") {
  const ScratchFolder scratch;
  const std::string abandoned = scratch.path() + "/slotproxy-dev-dead";
  const std::string other = scratch.path() + "/something-else";
  for (const std::string& folder : {abandoned, other}) {
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/in-use") << "";
  }
  const auto first = start_on_free_ports({.nodes = 1, .scratch_parent = scratch.path()});
  REQUIRE(first.has_value());
  CHECK_FALSE(std::filesystem::exists(abandoned));
  CHECK(std::filesystem::exists(other));

  const auto second = start_on_free_ports({.nodes = 1, .scratch_parent = scratch.path()});
  REQUIRE(second.has_value());
  CHECK(std::filesystem::exists((*first)->folder()));
}

}  // namespace
}  // namespace proxy
