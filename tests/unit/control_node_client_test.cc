#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/control/node_client.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

using conf::Milliseconds;
using proxy::control::Command;
using proxy::control::NodeClient;
using proxy::control::Reply;
using slots::Errc;
using slots::Result;
using slots::Status;
using tests::FakeNode;
using tests::TestLoop;

namespace {

constexpr Milliseconds kLong{5000};

struct Outcome {
  std::optional<Result<Reply>> result;

  NodeClient::CallDone done() {
    return [this](Result<Reply> reply) {
      CHECK_FALSE(result.has_value());  // Exactly once.
      result = std::move(reply);
    };
  }
};

void open(TestLoop& loop, NodeClient& client, const conf::Address& address) {
  std::optional<Status> connected;
  client.connect(address, kLong, [&](Status status) { connected = std::move(status); });
  CHECK_FALSE(connected.has_value());
  REQUIRE(loop.run_until([&] { return connected.has_value(); }));
  REQUIRE(connected->has_value());
  REQUIRE(client.is_open());
}

}  // namespace

TEST_CASE("replies of every type come back as values, in the order of the requests") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  const std::vector<std::string> raw = {
      "+OK\r\n",  "-ERR no\r\n",
      ":-42\r\n", std::string("$5\r\na\0\r\nb\r\n", 11),
      "$-1\r\n",  "*-1\r\n",
      "*0\r\n",   "*3\r\n*2\r\n:1\r\n$0\r\n\r\n$-1\r\n*1\r\n*1\r\n+deep\r\n"};
  std::size_t next = 0;
  node.on_command = [&](const Command&) { return std::optional(raw[next++]); };
  std::vector<Reply> replies;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    client.call({"X"}, kLong, [&](Result<Reply> reply) {
      REQUIRE(reply.has_value());
      replies.push_back(std::move(*reply));
    });
  }
  CHECK(client.pending_calls() == raw.size());
  REQUIRE(loop.run_until([&] { return replies.size() == raw.size(); }));
  CHECK(replies[0] == Reply::status("OK"));
  CHECK(replies[1] == Reply::error("ERR no"));
  CHECK(replies[1].error_word() == "ERR");
  CHECK(replies[2] == Reply::integer_of(-42));
  CHECK(replies[3] == Reply::string(std::string("a\0\r\nb", 5)));
  CHECK(replies[4] == Reply::nil());
  CHECK(replies[5] == Reply::nil());
  CHECK(replies[6] == Reply::array({}));
  CHECK(replies[7] ==
        Reply::array({Reply::array({Reply::integer_of(1), Reply::string("")}), Reply::nil(),
                      Reply::array({Reply::array({Reply::status("deep")})})}));
}

TEST_CASE("arguments are binary safe") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  const Command command = {"SET", std::string("k\0\r\n", 4), ""};
  Outcome outcome;
  client.call(command, kLong, outcome.done());
  REQUIRE(loop.run_until([&] { return outcome.result.has_value(); }));
  REQUIRE(node.requests.size() == 1);
  CHECK(node.requests[0] == command);
}

TEST_CASE("connecting to a port where nobody listens says so") {
  TestLoop loop;
  FakeNode node(loop.get());
  node.stop();
  NodeClient client(loop.get());
  std::optional<Status> connected;
  client.connect(node.address(), kLong, [&](Status status) { connected = std::move(status); });
  REQUIRE(loop.run_until([&] { return connected.has_value(); }));
  REQUIRE_FALSE(connected->has_value());
  CHECK(connected->error().code == Errc::Unavailable);
  CHECK(connected->error().message == "connection refused");
  CHECK_FALSE(client.is_open());
}

TEST_CASE("a name that resolves to several addresses is tried until one accepts") {
  TestLoop loop;
  FakeNode node(loop.get());  // Listens on 127.0.0.1 only, while localhost may be ::1 as well.
  NodeClient client(loop.get());
  open(loop, client, {"localhost", node.address().port, {}});
}

TEST_CASE("a connection that is neither accepted nor refused ends with the connect timeout") {
  TestLoop loop;
  // A listener whose queue is full drops further handshakes.
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(listener, 0) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  std::vector<int> fillers;
  for (int i = 0; i < 4; ++i) {
    fillers.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)::connect(fillers.back(), reinterpret_cast<const sockaddr*>(&address), length);
  }
  {
    NodeClient client(loop.get());
    std::optional<Status> connected;
    client.connect({"127.0.0.1", ntohs(address.sin_port), {}}, Milliseconds{60},
                   [&](Status status) { connected = std::move(status); });
    REQUIRE(loop.run_until([&] { return connected.has_value(); }));
    REQUIRE_FALSE(connected->has_value());
    CHECK(connected->error().code == Errc::Timeout);
    CHECK(connected->error().message == "no connection within 60 ms");
  }
  for (const int filler : fillers) ::close(filler);
  ::close(listener);
}

TEST_CASE("a Unix socket path works as an address, and one that is not there says so") {
  TestLoop loop;
  NodeClient client(loop.get());
  std::optional<Status> connected;
  SUBCASE("not there") {
    client.connect({"", 0, "/nonexistent/redis.sock"}, kLong,
                   [&](Status status) { connected = std::move(status); });
    REQUIRE(loop.run_until([&] { return connected.has_value(); }));
    REQUIRE_FALSE(connected->has_value());
    CHECK(connected->error().message == "no such file or directory");
  }
  SUBCASE("there") {
    char folder[] = "/tmp/slotproxy-test-XXXXXX";
    REQUIRE(::mkdtemp(folder) != nullptr);
    const std::string path = std::string(folder) + "/s";
    uv_pipe_t listener;
    uv_pipe_init(loop.get(), &listener, 0);
    REQUIRE(uv_pipe_bind(&listener, path.c_str()) == 0);
    REQUIRE(uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 8, [](uv_stream_t*, int) {}) == 0);
    open(loop, client, {"", 0, path});
    uv_close(reinterpret_cast<uv_handle_t*>(&listener), nullptr);
    client.close();
    loop.run_until([&] { return uv_loop_alive(loop.get()) == 0; }, Milliseconds{1});
    ::unlink(path.c_str());
    ::rmdir(folder);
  }
}

TEST_CASE("a request without an answer ends in a timeout and takes the connection with it") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  node.silent = true;
  std::optional<slots::Error> lost;
  client.on_lost([&](const slots::Error& error) { lost = error; });
  Outcome first;
  Outcome second;
  client.call({"PING"}, Milliseconds{40}, first.done());
  client.call({"INFO"}, kLong, second.done());
  REQUIRE(loop.run_until([&] { return lost.has_value(); }));
  REQUIRE(first.result.has_value());
  CHECK(first.result->error().code == Errc::Timeout);
  CHECK(first.result->error().message == "no answer to PING within 40 ms");
  REQUIRE(second.result.has_value());
  CHECK_FALSE(second.result->has_value());
  CHECK_FALSE(client.is_open());
  CHECK(loop.run_until([&] { return node.open_connections() == 0; }));
}

TEST_CASE("each request has its own time: an answer to the first leaves the second's") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  node.on_command = [](const Command& command) {
    return std::optional(std::string(command[0] == "HANG" ? "" : "+OK\r\n"));
  };
  Outcome quick;
  Outcome hanging;
  client.call({"PING"}, Milliseconds{30}, quick.done());
  client.call({"HANG"}, Milliseconds{60}, hanging.done());
  REQUIRE(loop.run_until([&] { return hanging.result.has_value(); }));
  REQUIRE(quick.result.has_value());
  CHECK(quick.result->has_value());
  CHECK(hanging.result->error().code == Errc::Timeout);
}

TEST_CASE("an answer that lies unread because the loop itself stood still is no timeout") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  Outcome outcome;
  client.call({"PING"}, Milliseconds{20}, outcome.done());
  // The node has answered, then the process stands still until after the deadline.
  REQUIRE(loop.run_until([&] { return !node.requests.empty(); }));
  uv_sleep(60);
  REQUIRE(loop.run_until([&] { return outcome.result.has_value(); }));
  CHECK(outcome.result->has_value());
}

TEST_CASE("a lost connection gives every pending request an error, then says so once") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  node.on_command = [&](const Command&) {
    node.drop_connections();
    return std::optional(std::string());
  };
  int errors = 0;
  int lost = 0;
  client.on_lost([&](const slots::Error& error) {
    ++lost;
    CHECK(errors == 2);
    CHECK(error.code == Errc::Unavailable);
  });
  for (int i = 0; i < 2; ++i) {
    client.call({"PING"}, kLong,
                [&](const Result<Reply>& reply) { errors += reply.has_value() ? 0 : 1; });
  }
  REQUIRE(loop.run_until([&] { return lost == 1; }));
  CHECK_FALSE(client.is_open());
}

TEST_CASE(
    "bytes that nobody asked for, or that are no RESP2, end the connection and not the process") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  std::string lost;
  client.on_lost([&](const slots::Error& error) { lost = error.message; });
  SUBCASE("a reply too many") {
    node.send_unasked("+PONG\r\n");
    REQUIRE(loop.run_until([&] { return !lost.empty(); }));
    CHECK(lost == "the node sent a reply that nobody asked for");
  }
  SUBCASE("a reply too many behind the right one") {
    node.on_command = [](const Command&) { return std::optional(std::string("+OK\r\n+OK\r\n")); };
    Outcome outcome;
    client.call({"PING"}, kLong, outcome.done());
    REQUIRE(loop.run_until([&] { return !lost.empty(); }));
    REQUIRE(outcome.result.has_value());
    CHECK(outcome.result->has_value());
  }
  SUBCASE("a farewell in words is passed on") {
    node.send_unasked("-ERR max number of clients reached\r\n");
    REQUIRE(loop.run_until([&] { return !lost.empty(); }));
    CHECK(lost == "ERR max number of clients reached");
  }
  SUBCASE("not RESP") {
    node.on_command = [](const Command&) {
      return std::optional(std::string("HTTP/1.1 400 Bad Request\r\n"));
    };
    Outcome outcome;
    client.call({"PING"}, kLong, outcome.done());
    REQUIRE(loop.run_until([&] { return !lost.empty(); }));
    CHECK(lost.find("does not speak RESP2") != std::string::npos);
    CHECK_FALSE(outcome.result->has_value());
  }
}

TEST_CASE("a request on a closed client fails on a later turn of the loop") {
  TestLoop loop;
  NodeClient client(loop.get());
  Outcome outcome;
  client.call({"PING"}, kLong, outcome.done());
  CHECK_FALSE(outcome.result.has_value());
  REQUIRE(loop.run_until([&] { return outcome.result.has_value(); }));
  CHECK(outcome.result->error().code == Errc::Unavailable);
}

TEST_CASE("after close() or destruction nothing is called any more") {
  TestLoop loop;
  FakeNode node(loop.get());
  auto client = std::make_unique<NodeClient>(loop.get());
  bool called = false;
  SUBCASE("while it connects") {
    client->connect(node.address(), kLong, [&](const Status&) { called = true; });
    SUBCASE("closed") { client->close(); }
    SUBCASE("destroyed") { client.reset(); }
  }
  SUBCASE("while a name is looked up") {
    client->connect({"localhost", node.address().port, {}}, kLong,
                    [&](const Status&) { called = true; });
    client.reset();
  }
  SUBCASE("while requests are under way") {
    open(loop, *client, node.address());
    client->on_lost([&](const slots::Error&) { called = true; });
    client->call({"PING"}, kLong, [&](const Result<Reply>&) { called = true; });
    SUBCASE("closed") { client->close(); }
    SUBCASE("destroyed") { client.reset(); }
  }
  client.reset();
  node.stop();
  REQUIRE(loop.run_until([&] { return uv_loop_alive(loop.get()) == 0; }));
  CHECK_FALSE(called);
}

TEST_CASE("a completion may destroy its client") {
  TestLoop loop;
  FakeNode node(loop.get());
  auto client = std::make_unique<NodeClient>(loop.get());
  bool called_after = false;
  SUBCASE("when connected") {
    client->connect(node.address(), kLong, [&](const Status&) { client.reset(); });
  }
  SUBCASE("when refused") {
    node.stop();
    client->connect(node.address(), kLong, [&](const Status&) { client.reset(); });
  }
  SUBCASE("at a reply with others behind it in the same bytes") {
    open(loop, *client, node.address());
    client->call({"PING"}, kLong, [&](const Result<Reply>&) { client.reset(); });
    client->call({"PING"}, kLong, [&](const Result<Reply>&) { called_after = true; });
  }
  SUBCASE("at the error of a lost connection") {
    open(loop, *client, node.address());
    node.silent = true;
    client->on_lost([&](const slots::Error&) { called_after = true; });
    client->call({"PING"}, Milliseconds{20}, [&](const Result<Reply>&) { client.reset(); });
    client->call({"PING"}, Milliseconds{20}, [&](const Result<Reply>&) { called_after = true; });
  }
  REQUIRE(loop.run_until([&] { return client == nullptr; }));
  CHECK_FALSE(called_after);
}

TEST_CASE("a client connects again, from its own loss too") {
  TestLoop loop;
  FakeNode node(loop.get());
  NodeClient client(loop.get());
  open(loop, client, node.address());
  bool again = false;
  client.on_lost([&](const slots::Error&) {
    client.connect(node.address(), kLong,
                   [&](const Status& status) { again = status.has_value(); });
  });
  node.drop_connections();
  REQUIRE(loop.run_until([&] { return again; }));
  Outcome outcome;
  client.call({"PING"}, kLong, outcome.done());
  REQUIRE(loop.run_until([&] { return outcome.result.has_value(); }));
  CHECK(outcome.result->value() == Reply::status("PONG"));
}

TEST_CASE("logging in sends credentials and the connection's name") {
  TestLoop loop;
  FakeNode node(loop.get());
  node.password = "secret";
  NodeClient client(loop.get());
  open(loop, client, node.address());
  std::optional<Status> logged_in;
  const auto done = [&](Status status) { logged_in = std::move(status); };
  SUBCASE("accepted") {
    client.log_in("", "secret", "slotproxy:shop:5f3a:7", kLong, done);
    REQUIRE(loop.run_until([&] { return logged_in.has_value(); }));
    CHECK(logged_in->has_value());
    CHECK(node.requests ==
          std::vector<Command>{{"AUTH", "secret"}, {"CLIENT", "SETNAME", "slotproxy:shop:5f3a:7"}});
  }
  SUBCASE("refused: the connection is closed") {
    client.log_in("proxy", "wrong", "slotproxy:shop:5f3a:7", kLong, done);
    REQUIRE(loop.run_until([&] { return logged_in.has_value(); }));
    REQUIRE_FALSE(logged_in->has_value());
    CHECK(logged_in->error().message.starts_with("WRONGPASS"));
    CHECK_FALSE(client.is_open());
  }
  SUBCASE("without anything to send it asks whether a password is wanted") {
    client.log_in("", "", "", kLong, done);
    REQUIRE(loop.run_until([&] { return logged_in.has_value(); }));
    CHECK_FALSE(logged_in->has_value());
  }
}
