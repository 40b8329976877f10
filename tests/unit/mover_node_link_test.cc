// NodeLink against redis-servers of its own, and against scripts for what those never do.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "proxy/mover/dial.h"
#include "proxy/mover/node_link.h"
#include "proxy/resp/reply_cursor.h"
#include "tests/support/local_servers.h"

namespace proxy::mover {
namespace {

using namespace std::chrono_literals;
using tests::LocalServers;

// Patient, so that a busy machine is not taken for a server that is silent.
LinkOptions patient() {
  return {.name_prefix = "slotproxy:test:",
          .incarnation = "now",
          .connect_timeout = 60s,
          .silence = 60s};
}
// For servers that are silent indeed. What else it asks may come too late for it.
LinkOptions impatient() {
  LinkOptions options = patient();
  options.silence = options.connect_timeout = 200ms;
  return options;
}

struct Linked {
  LocalServers servers{1};
  LostClients lost;
  NodeLink link{patient(), lost};

  Linked() { REQUIRE(open().error_text.empty()); }

  struct Outcome {
    std::string error_text;
  };
  Outcome open() {
    auto status = link.open(servers.access(0));
    return {status ? "" : status.error().message};
  }
  std::string ask(std::initializer_list<std::string_view> command) {
    link.add(command);
    auto replies = link.exchange();
    return replies ? std::string(replies->front()) : "(" + replies.error().message + ")";
  }
  std::string other(std::initializer_list<std::string_view> command) {
    return servers.ask(0, command);
  }
};

TEST_CASE("a link answers a pipeline in order") {
  Linked linked;
  linked.link.add({"SET", "a", "1"});
  linked.link.add({"GET", "a"});
  linked.link.add({"GET", "nothing"});
  const auto replies = linked.link.exchange();
  REQUIRE(replies.has_value());
  REQUIRE(replies->size() == 3);
  CHECK((*replies)[0] == "+OK\r\n");
  CHECK((*replies)[1] == "$1\r\n1\r\n");
  CHECK((*replies)[2] == "_\r\n");
  CHECK(linked.link.traits().knows_expire_time);
  CHECK(linked.link.traits().run_id.size() == 40);
}

TEST_CASE("a pipeline larger than all buffers on the way does not lock up") {
  Linked linked;
  const std::string value(1U << 20, 'x');
  for (int i = 0; i < 50; ++i) {
    linked.link.add({"SET", "a", value});
    linked.link.add({"GET", "a"});
  }
  const auto replies = linked.link.exchange();
  REQUIRE(replies.has_value());
  CHECK(replies->size() == 100);
  CHECK(linked.link.take_bytes() > 100 * value.size());
  CHECK(linked.link.take_bytes() == 0);
}

TEST_CASE("the feed names what others change, whoever asks and whoever sleeps") {
  Linked linked;
  linked.other({"SET", "theirs", "1"});
  linked.ask({"SET", "own", "1"});
  linked.ask({"PING"});
  CHECK(linked.link.take_notices().keys == std::vector<std::string>{"theirs"});

  linked.other({"DEL", "theirs"});
  while (!linked.link.has_notices()) REQUIRE(linked.link.read_feed().has_value());
  CHECK(linked.link.take_notices().keys == std::vector<std::string>{"theirs"});
  CHECK_FALSE(linked.link.has_notices());
}

TEST_CASE("a change that was acknowledged has been reported once a PING is answered") {
  Linked linked;
  for (int i = 0; i < 500; ++i) {
    const std::string key = "k" + std::to_string(i);
    linked.other({"SET", key, "1"});
    linked.ask({"PING"});
    CHECK(linked.link.take_notices().keys == std::vector{key});
  }
}

TEST_CASE("a link means the database that was selected last, and 0 when it is new") {
  Linked linked;
  linked.link.select(3);
  CHECK(linked.ask({"SET", "k", "of 3"}) == "+OK\r\n");
  CHECK(linked.other({"GET", "k"}).find("of 3") == std::string::npos);
  linked.link.select(0);
  CHECK(linked.ask({"GET", "k"}) == "_\r\n");
  linked.link.select(3);
  CHECK(linked.open().error_text.empty());
  CHECK(linked.link.traits().databases == Databases{0, 3});
  CHECK(linked.ask({"GET", "k"}) == "_\r\n");
  linked.link.select(3);
  CHECK(linked.ask({"GET", "k"}) == "$4\r\nof 3\r\n");
  linked.link.select(2);
  linked.link.add({"SET", "k", "of 2"});
  linked.link.select(3);
  linked.link.add({"GET", "k"});
  const auto replies = linked.link.exchange();
  REQUIRE(replies.has_value());
  CHECK(std::vector(replies->begin(), replies->end()) ==
        std::vector<std::string_view>{"+OK\r\n", "$4\r\nof 3\r\n"});
  linked.link.select(99);
  CHECK(linked.ask({"GET", "k"}).find("SELECT says: ERR DB index") != std::string::npos);
  CHECK_FALSE(linked.link.is_open());
}

TEST_CASE("the feed names keys of all databases, without their number") {
  Linked linked;
  linked.other({"EVAL", "redis.call('SELECT', 5) redis.call('SET', KEYS[1], 1)", "1", "theirs"});
  linked.ask({"PING"});
  CHECK(linked.link.take_notices().keys == std::vector<std::string>{"theirs"});
  linked.other({"EVAL", "redis.call('SELECT', 5) redis.call('FLUSHDB')", "0"});
  linked.ask({"PING"});
  CHECK(linked.link.take_notices().all);
}

TEST_CASE("a flush is a notice of every key") {
  Linked linked;
  linked.other({"FLUSHALL"});
  linked.ask({"PING"});
  CHECK(linked.link.take_notices().all);
}

TEST_CASE("the end of the connection is noticed by reading, by asking, and says why") {
  Linked linked;
  linked.other({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  while (linked.link.read_feed().has_value()) {
  }
  CHECK_FALSE(linked.link.is_open());
  CHECK(linked.ask({"PING"}) == "(not connected)");
  REQUIRE(linked.open().error_text.empty());
  CHECK(linked.ask({"PING"}) == "+PONG\r\n");
}

TEST_CASE("a server with another identity gets no command") {
  LocalServers servers(1);
  LostClients lost;
  NodeLink link(patient(), lost);
  NodeAccess access = servers.access(0);
  access.identity = "test/other/1";
  const auto status = link.open(access);
  REQUIRE_FALSE(status.has_value());
  CHECK(status.error().message.find("should be \"test/other/1\"") != std::string::npos);
  CHECK_FALSE(link.is_open());
}

TEST_CASE("a replica is refused, and a password that is wrong is told") {
  LocalServers servers(1);
  LostClients lost;
  NodeLink link(patient(), lost);
  servers.ask(0, {"CONFIG", "SET", "requirepass", "secret"});
  NodeAccess access = servers.access(0);
  access.password = "wrong";
  CHECK(link.open(access).error().message.find("WRONGPASS") != std::string::npos);
  access.password = "secret";
  CHECK(link.open(access).has_value());
  link.add({"REPLICAOF", "127.0.0.1", "1"});
  REQUIRE(link.exchange().has_value());
  CHECK(link.open(access).error().message.find("is not a primary") != std::string::npos);
}

TEST_CASE("what is under way when a server stops to answer is ended before the next link is used") {
  Linked linked;
  NodeLink link(impatient(), linked.lost);
  while (!link.open(linked.servers.access(0))) {
  }
  linked.servers.pause(0);
  link.add({"SET", "late", "1"});
  CHECK(link.exchange().error().message == "node a: does not answer");
  REQUIRE(linked.lost.of("a").size() == 1);
  CHECK(link.open(linked.servers.access(0)).error().message == "node a: does not answer");
  REQUIRE(linked.lost.of("a").size() == 1);
  linked.servers.go_on(0);
  REQUIRE(linked.open().error_text.empty());
  CHECK(linked.lost.of("a").empty());
  // Only the link itself and the test's own connection are left.
  const std::string clients = linked.ask({"CLIENT", "LIST"});
  CHECK(std::ranges::count(clients, '\n') <= 4);
}

TEST_CASE("what an earlier process left connected is ended, and others are left alone") {
  LocalServers servers(1);
  servers.ask(0, {"CLIENT", "SETNAME", "slotproxy:testing"});
  LostClients lost;
  LinkOptions before = patient();
  before.incarnation = "before";
  NodeLink earlier(before, lost);
  NodeLink sibling(patient(), lost);
  REQUIRE(earlier.open(servers.access(0)).has_value());
  REQUIRE(sibling.open(servers.access(0)).has_value());
  while (earlier.read_feed().has_value()) {
  }
  NodeLink link(patient(), lost);
  REQUIRE(link.open(servers.access(0)).has_value());
  sibling.add({"PING"});
  CHECK(sibling.exchange().has_value());
  CHECK(servers.ask(0, {"CLIENT", "GETNAME"}) == "slotproxy:testing");
}

TEST_CASE("an alarm rings while an answer is awaited, once") {
  Linked linked;
  int rung = 0;
  linked.link.set_alarm(NodeLink::Clock::now() + 20ms, [&rung] { ++rung; });
  linked.servers.pause(0);
  std::thread later([&linked] {
    std::this_thread::sleep_for(100ms);
    linked.servers.go_on(0);
  });
  CHECK(linked.ask({"PING"}) == "+PONG\r\n");
  later.join();
  CHECK(rung == 1);
}

TEST_CASE("an interrupt ends a wait at once") {
  LocalServers servers(1);
  LostClients lost;
  LinkOptions options = patient();
  options.interrupt = ::eventfd(0, EFD_CLOEXEC);
  NodeLink link(options, lost);
  REQUIRE(link.open(servers.access(0)).has_value());
  servers.pause(0);
  std::thread later([&options] {
    std::this_thread::sleep_for(20ms);
    ::eventfd_write(options.interrupt, 1);
  });
  link.add({"PING"});
  CHECK(link.exchange().error().message == "node a: interrupted");
  later.join();
  servers.go_on(0);
  CHECK_FALSE(dial(servers.access(0).address, NodeLink::Clock::now() + 60s, options.interrupt)
                  .has_value() == link.is_open());
  ::close(options.interrupt);
}

TEST_CASE("names resolve, and one that does not is named") {
  const auto deadline = NodeLink::Clock::now() + 5s;
  const conf::Address refused{.host = "localhost", .port = 1, .path = {}};
  CHECK(dial(refused, deadline, -1).error().message.find("connecting to") != std::string::npos);
  const conf::Address unknown{.host = "nowhere.invalid", .port = 1, .path = {}};
  CHECK(dial(unknown, deadline, -1).error().message.find("nowhere.invalid") != std::string::npos);
}

// --- against scripts

// Accepts one connection and answers the greeting; then, told so, sends `bytes` in pieces of
// `piece`, again and again if `repeats`.
class Script {
 public:
  Script(std::string bytes, std::size_t piece, bool repeats = false)
      : bytes_(std::move(bytes)), piece_(piece), repeats_(repeats) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 1) == 0);
    socklen_t length = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    access_.name = "fake";
    access_.address = {.host = "127.0.0.1", .port = ntohs(address.sin_port), .path = {}};
    access_.identity = "id";
    thread_ = std::thread([this] { run(); });
  }
  ~Script() {
    send();
    thread_.join();
    ::close(listener_);
  }
  [[nodiscard]] const NodeAccess& access() const { return access_; }
  void send() {
    may_send_ = true;
    may_send_.notify_one();
  }

 private:
  void run() {
    const int client = ::accept(listener_, nullptr, nullptr);
    answer(client, "CLIENT\r\n$4\r\nLIST",
           "%0\r\n+OK\r\n$2\r\nid\r\n*1\r\n$6\r\nmaster\r\n$0\r\n\r\n"
           "$27\r\nrun_id:1\r\nredis_version:6.2\r\n$0\r\n\r\n:7\r\n$0\r\n\r\n");
    answer(client, "NO-EVICT", "+OK\r\n-ERR unknown subcommand\r\n");
    may_send_.wait(false);
    bool is_heard = true;
    do {
      for (std::size_t at = 0; is_heard && at < bytes_.size(); at += piece_) {
        const std::string piece = bytes_.substr(at, piece_);
        is_heard = ::send(client, piece.data(), piece.size(), MSG_NOSIGNAL) >= 0;
        std::this_thread::sleep_for(repeats_ ? 5ms : 0ms);
      }
    } while (is_heard && repeats_);
    char rest[4096];
    while (::recv(client, rest, sizeof rest, 0) > 0) {
    }
    ::close(client);
  }
  static void answer(int client, const std::string& last, const std::string& reply) {
    std::string heard;
    char bytes[4096];
    while (heard.find(last) == std::string::npos) {
      const ssize_t count = ::recv(client, bytes, sizeof bytes, 0);
      if (count <= 0) return;
      heard.append(bytes, static_cast<std::size_t>(count));
    }
    ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
  }

  std::string bytes_;
  std::size_t piece_;
  bool repeats_;
  int listener_ = -1;
  NodeAccess access_;
  std::atomic<bool> may_send_ = false;
  std::thread thread_;
};

TEST_CASE("pushes between replies, cut anywhere, are told apart from them") {
  const std::string push = ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
  const std::string flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
  for (const std::size_t piece : {1, 2, 3, 7, 1000}) {
    CAPTURE(piece);
    LostClients lost;
    Script script("$1\r\n1\r\n" + push + "*2\r\n:1\r\n$1\r\nx\r\n" + flush + push, piece);
    NodeLink link(patient(), lost);
    REQUIRE(link.open(script.access()).has_value());
    CHECK_FALSE(link.traits().knows_expire_time);
    script.send();
    link.add({"GET", "one"});
    link.add({"GET", "two"});
    const auto replies = link.exchange();
    REQUIRE(replies.has_value());
    CHECK((*replies)[0] == "$1\r\n1\r\n");
    CHECK((*replies)[1] == "*2\r\n:1\r\n$1\r\nx\r\n");
    Notices notices;
    while (notices.keys.size() < 4) {
      REQUIRE(link.read_feed().has_value());
      Notices more = link.take_notices();
      notices.all = notices.all || more.all;
      notices.keys.insert(notices.keys.end(), more.keys.begin(), more.keys.end());
    }
    CHECK(notices.all);
    CHECK(notices.keys == std::vector<std::string>{"a", "\r\n", "a", "\r\n"});
  }
}

TEST_CASE("a node that goes on reporting changes and answers nothing is silent") {
  const std::string push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";
  for (const std::size_t piece : {push.size(), push.size() / 2}) {
    CAPTURE(piece);
    LostClients lost;
    Script script(push, piece, true);
    LinkOptions options = patient();
    options.silence = 1s;
    NodeLink link(options, lost);
    REQUIRE(link.open(script.access()).has_value());
    script.send();
    link.add({"GET", "one"});
    const auto replies = link.exchange();
    REQUIRE_FALSE(replies.has_value());
    CHECK(replies.error().message.find("does not answer") != std::string::npos);
  }
}

TEST_CASE("a reply that nobody asked for, and bytes that are no RESP, end the link") {
  for (const std::string bytes : {"+OK\r\n", "what?\r\n"}) {
    CAPTURE(bytes);
    LostClients lost;
    Script script(bytes, 100);
    NodeLink link(patient(), lost);
    REQUIRE(link.open(script.access()).has_value());
    script.send();
    while (link.read_feed().has_value()) {
    }
    CHECK_FALSE(link.is_open());
  }
}

}  // namespace
}  // namespace proxy::mover
