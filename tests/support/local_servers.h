// LocalServers: redis-servers on Unix sockets, for tests of code that blocks its thread.
#pragma once

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>
#include <signal.h>

#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/dev.h"
#include "proxy/mover/move_host.h"

namespace tests {

class LocalServers {
 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
  };

 public:
  using Connection = std::unique_ptr<redisContext, Free>;

  explicit LocalServers(unsigned count) {
    proxy::DevOptions options{.nodes = count};
    // Its ports are only looked at: whether they are free is luck, so others are tried.
    for (std::uint16_t port = 20'000; port < 30'000; port += 100) {
      options.port = port;
      auto cluster = proxy::DevCluster::start(options);
      if (!cluster && cluster.error().code == slots::Errc::Conflict) continue;
      if (!cluster) FAIL(cluster.error().message);
      cluster_ = std::move(*cluster);
      break;
    }
    REQUIRE(cluster_ != nullptr);
    for (std::size_t i = 0; i < count; ++i) {
      connections_.push_back(connect(i));
      ask(i, {"SET", "__slotproxy:identity", access(i).identity});
    }
  }

  [[nodiscard]] proxy::mover::NodeAccess access(std::size_t server) const {
    const conf::NodeConfig& node = cluster_->config().nodes[server];
    return {.name = node.name,
            .address = node.address,
            .username = {},
            .password = {},
            .identity = "test/" + node.name + "/0000000000000001"};
  }

  // The reply as text: strings as they are, numbers in digits, elements each followed by a blank;
  // "(nil)"; errors begin with '-'.
  std::string ask(std::size_t server, std::initializer_list<std::string_view> command) {
    return ask(server, std::vector<std::string_view>(command));
  }
  std::string ask(std::size_t server, const std::vector<std::string_view>& command) {
    return ask(*connections_[server], command);
  }
  static std::string ask(redisContext& connection, const std::vector<std::string_view>& command) {
    std::vector<const char*> arguments;
    std::vector<std::size_t> lengths;
    for (const std::string_view argument : command) {
      arguments.push_back(argument.data());
      lengths.push_back(argument.size());
    }
    void* reply = redisCommandArgv(&connection, static_cast<int>(arguments.size()),
                                   arguments.data(), lengths.data());
    REQUIRE(reply != nullptr);
    const std::string text = text_of(*static_cast<redisReply*>(reply));
    freeReplyObject(reply);
    return text;
  }

  // One more, for other threads too.
  [[nodiscard]] Connection connect(std::size_t server) const {
    Connection connection(redisConnectUnix(access(server).address.path.c_str()));
    REQUIRE(connection->err == 0);
    return connection;
  }
  // Those with that name, as the server's administrator would.
  void end_clients(std::size_t server, const std::string& name) {
    const Connection connection = connect(server);
    std::istringstream clients(ask(*connection, {"CLIENT", "LIST"}));
    for (std::string line; std::getline(clients, line);) {
      if (line.find(" name=" + name + " ") == std::string::npos) continue;
      ask(*connection, {"CLIENT", "KILL", "ID", line.substr(3, line.find(' ') - 3)});
    }
  }

  [[nodiscard]] const std::vector<pid_t>& pids() const { return cluster_->servers(); }
  void pause(std::size_t server) { ::kill(cluster_->servers()[server], SIGSTOP); }
  void go_on(std::size_t server) { ::kill(cluster_->servers()[server], SIGCONT); }

 private:
  static std::string text_of(const redisReply& reply) {
    switch (reply.type) {
      case REDIS_REPLY_INTEGER:
        return std::to_string(reply.integer);
      case REDIS_REPLY_NIL:
        return "(nil)";
      case REDIS_REPLY_ERROR:
        return "-" + std::string(reply.str, reply.len);
      case REDIS_REPLY_ARRAY: {
        std::string text;
        for (std::size_t i = 0; i < reply.elements; ++i) text += text_of(*reply.element[i]) + " ";
        return text;
      }
      default:
        return {reply.str, reply.len};
    }
  }

  std::unique_ptr<proxy::DevCluster> cluster_;
  std::vector<Connection> connections_;
};

}  // namespace tests
