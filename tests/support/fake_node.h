// FakeNode: a scripted redis-server on 127.0.0.1 and a port of its own, on the test's loop.
//
// It answers what a primary would answer while it is verified and watched; the public fields say
// what it is, and on_command overrides single answers. Requests are kept in `requests` for the test
// to look at.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <uv.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/node_reply.h"

namespace tests {

using proxy::control::Command;
using proxy::control::Reply;

class FakeNode {
 public:
  // What the server is.
  std::string version = "7.0.15";
  std::string run_id = std::string(40, 'a');
  std::string role = "master";
  bool cluster_enabled = false;
  bool loading = false;  // As after a start with a large data set.
  bool busy = false;     // A long script runs.
  bool silent = false;   // Reads, and answers nothing any more (a stopped process).
  std::string password;  // Wanted when not empty.
  std::map<std::string, std::string> keys;
  std::string client_list;
  // Answers instead of the server: nullopt passes the command on, an empty text is no answer at
  // all.
  std::function<std::optional<std::string>(const Command&)> on_command;

  std::vector<Command> requests;  // Of all connections, in order of arrival.
  int accepted = 0;               // Connections ever.
  int asking = 0;  // While a command is answered: the id of its connection, as HELLO says it.

  explicit FakeNode(uv_loop_t* loop) : loop_(loop) { start(); }
  ~FakeNode() { stop(); }
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;

  [[nodiscard]] conf::Address address() const { return {"127.0.0.1", port_, {}}; }
  [[nodiscard]] std::size_t open_connections() const { return connections_.size(); }

  // Connections are refused from now on and those that are open are cut: a process that died.
  void stop() {
    if (listener_ != nullptr) close_and_delete(std::exchange(listener_, nullptr));
    drop_connections();
  }

  // Listens, on the same port as before.
  void start() {
    listener_ = new uv_tcp_t{};
    uv_tcp_init(loop_, listener_);
    listener_->data = this;
    sockaddr_in address{};
    uv_ip4_addr("127.0.0.1", port_, &address);
    REQUIRE(uv_tcp_bind(listener_, reinterpret_cast<const sockaddr*>(&address), 0) == 0);
    REQUIRE(uv_listen(reinterpret_cast<uv_stream_t*>(listener_), 64, on_connection) == 0);
    int length = sizeof address;
    uv_tcp_getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }

  // The process was restarted: everything but its keys is new.
  void restart_as(const std::string& new_run_id) {
    stop();
    run_id = new_run_id;
    start();
  }

  void drop_connections() {
    for (Connection* connection : std::exchange(connections_, {})) connection->let_go();
  }

  // What comes over the connections of now stays in the kernel, as with a stopped process.
  void stop_reading() {
    for (Connection* connection : connections_)
      uv_read_stop(reinterpret_cast<uv_stream_t*>(&connection->tcp));
  }

  // Bytes that nobody asked for, to every connection.
  void send_unasked(const std::string& bytes) {
    for (Connection* connection : connections_) connection->send(bytes);
  }

  // To the connection of this id, if it is open.
  void send_to(int id, const std::string& bytes) {
    for (Connection* connection : connections_) {
      if (connection->id == id) connection->send(bytes);
    }
  }

  [[nodiscard]] std::size_t count_of(const std::string& name) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        requests, [&](const Command& request) { return request.front() == name; }));
  }

  [[nodiscard]] std::string info() const {
    return "# Server\r\nredis_version:" + version + "\r\nrun_id:" + run_id +
           "\r\n# Persistence\r\nloading:" + (loading ? "1" : "0") +
           "\r\n# Memory\r\nused_memory:1000\r\nmaxmemory:5000\r\n# Replication\r\nrole:" + role +
           "\r\n# Cluster\r\ncluster_enabled:" + (cluster_enabled ? "1" : "0") +
           "\r\n# Keyspace\r\ndb0:keys=" + std::to_string(keys.size()) + ",expires=0,avg_ttl=0\r\n";
  }

 private:
  struct Connection {
    uv_tcp_t tcp{};
    FakeNode* node;
    int id;  // Of the connections ever.
    bool authenticated = false;
    std::string unread;
    char buffer[4096];

    explicit Connection(FakeNode* owner) : node(owner), id(++owner->accepted) {}

    void let_go() {
      node = nullptr;
      uv_close(reinterpret_cast<uv_handle_t*>(&tcp),
               [](uv_handle_t* handle) { delete static_cast<Connection*>(handle->data); });
    }

    void send(const std::string& bytes) {
      struct Write {
        uv_write_t request{};
        std::string bytes;
      };
      auto* write = new Write{{}, bytes};
      write->request.data = write;
      const uv_buf_t piece =
          uv_buf_init(write->bytes.data(), static_cast<unsigned>(write->bytes.size()));
      uv_write(&write->request, reinterpret_cast<uv_stream_t*>(&tcp), &piece, 1,
               [](uv_write_t* request, int) { delete static_cast<Write*>(request->data); });
    }
  };

  static void close_and_delete(uv_tcp_t* tcp) {
    uv_close(reinterpret_cast<uv_handle_t*>(tcp),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_tcp_t*>(handle); });
  }

  static void on_connection(uv_stream_t* listener, int status) {
    auto* self = static_cast<FakeNode*>(listener->data);
    REQUIRE(status == 0);
    auto* connection = new Connection(self);
    uv_tcp_init(self->loop_, &connection->tcp);
    connection->tcp.data = connection;
    self->connections_.push_back(connection);
    REQUIRE(uv_accept(listener, reinterpret_cast<uv_stream_t*>(&connection->tcp)) == 0);
    uv_read_start(
        reinterpret_cast<uv_stream_t*>(&connection->tcp),
        [](uv_handle_t* handle, std::size_t, uv_buf_t* out) {
          auto* c = static_cast<Connection*>(handle->data);
          *out = uv_buf_init(c->buffer, sizeof c->buffer);
        },
        [](uv_stream_t* stream, ssize_t count, const uv_buf_t* bytes) {
          auto* c = static_cast<Connection*>(stream->data);
          if (c->node == nullptr) return;
          if (count < 0) {
            std::erase(c->node->connections_, c);
            return c->let_go();
          }
          c->unread.append(bytes->base, static_cast<std::size_t>(count));
          while (c->node != nullptr && c->node->answer_one(*c)) {
          }
        });
  }

  // Takes "<type><number>\r\n" off the front; nullopt when it is not there yet.
  static std::optional<std::size_t> take_header(const std::string& text, std::size_t& at) {
    const std::size_t end = text.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    std::size_t number = 0;
    std::from_chars(text.data() + at + 1, text.data() + end, number);
    at = end + 2;
    return number;
  }

  static std::optional<Command> take_command(std::string& unread) {
    std::size_t at = 0;
    const auto count = unread.empty() ? std::nullopt : take_header(unread, at);
    if (!count) return std::nullopt;
    Command command;
    for (std::size_t i = 0; i < *count; ++i) {
      const auto length = take_header(unread, at);
      if (!length || unread.size() < at + *length + 2) return std::nullopt;
      command.push_back(unread.substr(at, *length));
      at += *length + 2;
    }
    unread.erase(0, at);
    return command;
  }

  bool answer_one(Connection& connection) {
    if (silent) return false;
    const auto command = take_command(connection.unread);
    if (!command) return false;
    requests.push_back(*command);
    asking = connection.id;
    if (on_command) {
      if (const auto reply = on_command(*command)) {
        // on_command may have cut the connection.
        if (connection.node != nullptr && !reply->empty()) connection.send(*reply);
        return connection.node != nullptr;
      }
    }
    connection.send(encode_resp2(reply_to(connection, *command)));
    return true;
  }

  Reply reply_to(Connection& connection, const Command& command) {
    const std::string& name = command[0];
    if (name == "AUTH") {
      connection.authenticated = !password.empty() && command.back() == password;
      if (connection.authenticated) return Reply::status("OK");
      return Reply::error(password.empty()
                              ? "ERR AUTH <password> called without any password configured"
                              : "WRONGPASS invalid username-password pair or user is disabled.");
    }
    if (!password.empty() && !connection.authenticated)
      return Reply::error("NOAUTH Authentication required.");
    if (name == "HELLO")
      return Reply::array({Reply::string("id"), Reply::integer_of(connection.id)});
    if (busy) return Reply::error("BUSY Redis is busy running a script.");
    if (name == "INFO") return Reply::string(info());
    if (name == "CLIENT" && command[1] == "SETNAME") return Reply::status("OK");
    if (loading) return Reply::error("LOADING Redis is loading the dataset in memory");
    if (name == "PING") return Reply::status("PONG");
    if (name == "CLIENT" && command[1] == "LIST") return Reply::string(client_list);
    if (name == "CLIENT" && command[1] == "KILL") return Reply::integer_of(1);
    if (name == "COMMAND")
      return Reply::array({Reply::array({Reply::string("get"), Reply::integer_of(2)})});
    if (name == "GET")
      return keys.contains(command[1]) ? Reply::string(keys[command[1]]) : Reply::nil();
    if (name == "SET") {
      const bool only_new = command.size() > 3 && command[3] == "NX";
      if (only_new && keys.contains(command[1])) return Reply::nil();
      keys[command[1]] = command[2];
      return Reply::status("OK");
    }
    return Reply::error("ERR unknown command '" + name + "'");
  }

  uv_loop_t* loop_;
  uv_tcp_t* listener_ = nullptr;
  std::uint16_t port_ = 0;
  std::vector<Connection*> connections_;
};

}  // namespace tests
