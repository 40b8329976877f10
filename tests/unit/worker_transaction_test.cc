// What happens to transactions, and to those that share their connections.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::FakeNode;
using tests::kBefore;
using tests::kMoved;
using tests::request_of;
using tests::RigClient;
using tests::TestLoop;
using tests::WorkerRig;

const std::string kOk = "+OK\r\n";
const std::string kQueued = "+QUEUED\r\n";
const std::string kExecReply = "*1\r\n+OK\r\n";

// Takes transactions as a server does, with one open at a time; each queued command's own reply is
// +OK.
void serve(FakeNode& node) {
  auto queued = std::make_shared<std::optional<int>>();
  node.on_command = [queued](const Command& command) -> std::optional<std::string> {
    const std::string& name = command.front();
    if (name == "WATCH" || name == "UNWATCH") return kOk;
    if (name == "MULTI") {
      *queued = 0;
      return kOk;
    }
    if (name == "EXEC") {
      std::string reply = "*" + std::to_string(queued->value_or(0)) + "\r\n";
      for (int i = 0; i < queued->value_or(0); ++i) reply += kOk;
      queued->reset();
      return reply;
    }
    if (!queued->has_value()) return std::nullopt;
    ++**queued;
    return kQueued;
  };
}

// Answers nothing to these: the test does.
void keep_silent(FakeNode& node, const std::vector<std::string>& names) {
  node.on_command = [names](const Command& command) -> std::optional<std::string> {
    if (std::ranges::find(names, command.front()) != names.end()) return "";
    if (command.front() == "WATCH" || command.front() == "UNWATCH") return kOk;
    return std::nullopt;
  };
}

std::string transaction_of(const std::string& key) {
  return request_of({"MULTI"}) + request_of({"SET", key, "1"}) + request_of({"EXEC"});
}

struct WithLoop {
  TestLoop loop;
};

struct Rig : WithLoop, WorkerRig {
  FakeNode& a = node("a");
  FakeNode& b = node("b");

  Rig() : WorkerRig(loop) {
    serve(a);
    serve(b);
    install(kBefore);
  }
  // What the node got since its connection was greeted, names alone.
  static std::vector<std::string> names_at(const FakeNode& node) {
    std::vector<std::string> names;
    for (const Command& command : node.requests) names.push_back(command.front());
    auto greeted = std::ranges::find(names.rbegin(), names.rend(), "ROLE");
    return {greeted.base(), names.end()};
  }
  void begin_fence() {
    proxy::Fence next{1, {}, "a", "b"};
    next.slots.add(3300);
    fence = std::make_shared<proxy::Fence>(std::move(next));
    install(kBefore);
  }
  void end_fence(const std::vector<Part>& parts) {
    fence = nullptr;
    install(parts);
  }
  bool read_all(RigClient& client, const std::vector<std::string>& replies) {
    for (const std::string& reply : replies) {
      std::string got = client.read();
      CHECK(got == reply);
      if (got != reply) return false;
    }
    return true;
  }
};

}  // namespace

TEST_CASE("nothing reaches a node before EXEC, and then all in one piece") {
  Rig rig;
  auto client = rig.client();
  auto other = rig.client();
  CHECK(client->ask({"MULTI"}) == kOk);
  CHECK(client->ask({"SET", "b", "1"}) == kQueued);
  CHECK(other->ask({"SET", "c", "2"}) == kOk);
  CHECK(client->ask({"GET", "b"}) == kQueued);
  other->send(request_of({"SET", "c", "3"}));
  client->send(request_of({"EXEC"}) + request_of({"SET", "c", "4"}));
  other->send(request_of({"SET", "c", "5"}));
  CHECK(rig.read_all(*client, {"*2\r\n+OK\r\n+OK\r\n", kOk}));
  CHECK(rig.read_all(*other, {kOk, kOk}));
  std::vector<std::string> names = Rig::names_at(rig.a);
  auto begin = std::ranges::find(names, "MULTI");
  REQUIRE(names.end() - begin >= 4);
  CHECK(std::vector(begin, begin + 4) == std::vector<std::string>{"MULTI", "SET", "GET", "EXEC"});
}

TEST_CASE("replies keep the order of a client's requests around a transaction") {
  Rig rig;
  keep_silent(rig.b, {"SET"});
  auto client = rig.client();
  client->send(request_of({"SET", "a", "1"}) + transaction_of("b") + request_of({"PING"}));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  CHECK_FALSE(client->has_reply());
  rig.b.send_unasked("+OK\r\n");
  CHECK(rig.read_all(*client, {kOk, kOk, kQueued, kExecReply, "+PONG\r\n"}));
}

TEST_CASE("a client that leaves while its transaction runs takes nobody else's reply along") {
  Rig rig;
  keep_silent(rig.a, {"MULTI", "SET", "EXEC", "STRLEN"});
  auto leaving = rig.client();
  leaving->send(transaction_of("b"));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  auto staying = rig.client();
  staying->send(request_of({"STRLEN", "c"}));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("STRLEN") == 1; }));
  SUBCASE("before the first reply") {
    leaving->close();
    REQUIRE(rig.run_until([&] { return rig.stats().clients.get() == 1; }));
    rig.a.send_unasked("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n$1\r\nx\r\n");
  }
  SUBCASE("between them") {
    rig.a.send_unasked("+OK\r\n+QUE");
    rig.run_until([] { return true; });
    leaving->close();
    REQUIRE(rig.run_until([&] { return rig.stats().clients.get() == 1; }));
    rig.a.send_unasked("UED\r\n*1\r\n+OK\r\n$1\r\nx\r\n");
  }
  SUBCASE("before EXEC's") {
    rig.a.send_unasked("+OK\r\n+QUEUED\r\n*1\r\n");
    rig.run_until([] { return true; });
    leaving->close();
    REQUIRE(rig.run_until([&] { return rig.stats().clients.get() == 1; }));
    rig.a.send_unasked("+OK\r\n$1\r\nx\r\n");
  }
  CHECK(staying->read() == "$1\r\nx\r\n");
}

TEST_CASE("a transaction whose connection is lost is not sent a second time") {
  Rig rig;
  keep_silent(rig.a, {"MULTI", "SET", "EXEC"});
  auto client = rig.client();
  client->send(transaction_of("b"));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  SUBCASE("before any reply") {}
  SUBCASE("between them") { rig.a.send_unasked("+OK\r\n+QUEUED\r\n"); }
  rig.run_until([] { return true; });
  rig.a.drop_connections();
  CHECK(rig.read_all(*client, {kOk, kQueued}));
  CHECK(client->read().find("outcome unknown") != std::string::npos);
  serve(rig.a);
  CHECK(client->ask({"SET", "b", "1"}) == kOk);
  CHECK(rig.a.count_of("EXEC") == 1);
}

TEST_CASE("what a node refuses of a transaction is the reason why it was discarded") {
  Rig rig;
  keep_silent(rig.a, {"MULTI", "SET", "EXEC"});
  auto client = rig.client();
  client->send(transaction_of("b"));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  CHECK(rig.read_all(*client, {kOk, kQueued}));
  SUBCASE("a request") {
    rig.a.send_unasked(
        "+OK\r\n-OOM no memory\r\n-EXECABORT Transaction discarded because of "
        "previous errors.\r\n");
    CHECK(client->read() == "-EXECABORT Transaction discarded because of: OOM no memory\r\n");
  }
  SUBCASE("MULTI itself") {
    rig.a.send_unasked("-NOPERM no\r\n+OK\r\n-ERR EXEC without MULTI\r\n");
    CHECK(client->read() ==
          "-ERR node a does not take transactions, and may have executed parts: NOPERM no\r\n");
  }
  SUBCASE("itself, as a cluster node") {
    rig.a.send_unasked("+OK\r\n-MOVED 1 x:1\r\n-EXECABORT Transaction discarded\r\n");
    CHECK(client->read().find("runs in cluster mode") != std::string::npos);
  }
  serve(rig.a);
  CHECK(client->ask({"SET", "c", "1"}) == kOk);
}

TEST_CASE("a fence lets requests be queued, keeps EXEC back, and lets it go to the new owner") {
  Rig rig;
  auto client = rig.client();
  CHECK(client->ask({"MULTI"}) == kOk);
  CHECK(client->ask({"SET", "b", "1"}) == kQueued);
  rig.begin_fence();
  REQUIRE(rig.run_until([&] { return rig.acks().size() == 1; }));  // It was not sent: no waiting.
  CHECK(client->ask({"GET", "b"}) == kQueued);
  client->send(request_of({"EXEC"}) + request_of({"SET", "c", "1"}));
  REQUIRE(rig.run_until([&] { return rig.stats().fenced_clients.get() == 1; }));
  CHECK_FALSE(client->has_reply());
  auto other = rig.client();
  other->send(transaction_of("c"));
  CHECK(rig.read_all(*other, {kOk, kQueued, kExecReply}));
  SUBCASE("committed") {
    rig.end_fence(kMoved);
    CHECK(rig.read_all(*client, {"*2\r\n+OK\r\n+OK\r\n", kOk}));
    CHECK(rig.a.count_of("EXEC") == 1);
    CHECK(rig.b.count_of("EXEC") == 1);
  }
  SUBCASE("lifted") {
    rig.end_fence(kBefore);
    CHECK(rig.read_all(*client, {"*2\r\n+OK\r\n+OK\r\n", kOk}));
    CHECK(rig.a.count_of("EXEC") == 2);
  }
}

TEST_CASE("a fence waits for a transaction that is under way until its last reply") {
  Rig rig;
  keep_silent(rig.a, {"MULTI", "SET", "EXEC"});
  auto client = rig.client();
  client->send(transaction_of("b"));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  rig.begin_fence();
  rig.a.send_unasked("+OK\r\n+QUEUED\r\n");
  auto other = rig.client();
  CHECK(other->ask({"SET", "a", "1"}) == kOk);
  CHECK(rig.acks().empty());
  rig.a.send_unasked(kExecReply);
  CHECK(rig.read_all(*client, {kOk, kQueued, kExecReply}));
  CHECK(rig.run_until([&] { return rig.acks().size() == 1; }));
}

TEST_CASE("an endpoint sends a transaction on whose EXEC a fence has kept back, and none later") {
  Rig rig;
  auto waits = rig.client_at("a");
  auto late = rig.client_at("a");
  for (auto* client : {waits.get(), late.get()}) {
    CHECK(client->ask({"MULTI"}) == kOk);
    CHECK(client->ask({"SET", "b", "1"}) == kQueued);
  }
  rig.begin_fence();
  waits->send(request_of({"EXEC"}));
  REQUIRE(rig.run_until([&] { return rig.stats().fenced_clients.get() == 1; }));
  rig.end_fence(kMoved);
  CHECK(waits->read() == kExecReply);
  CHECK(rig.b.count_of("EXEC") == 1);
  CHECK(late->ask({"EXEC"}) == "-MOVED 3300 127.0.0.1:7098\r\n");
  CHECK(late->ask({"EXEC"}) == "-ERR EXEC without MULTI\r\n");
}

// --- watched keys

TEST_CASE("WATCH and EXEC go over one connection, which serves the next client") {
  Rig rig;
  rig.limits.pinned_connections = 1;
  rig.install(kBefore);
  auto client = rig.client();
  auto other = rig.client();
  CHECK(client->ask({"WATCH", "b"}) == kOk);
  CHECK(rig.a.accepted == 2);
  CHECK(other->ask({"WATCH", "c"}) ==
        "-ERR all limits.pinned_connections connections to node a are in use; try again\r\n");
  client->send(transaction_of("b"));
  CHECK(rig.read_all(*client, {kOk, kQueued, kExecReply}));
  CHECK(other->ask({"WATCH", "c"}) == kOk);
  CHECK(other->ask({"UNWATCH"}) == kOk);
  CHECK(rig.run_until([&] { return rig.a.count_of("UNWATCH") == 1; }));
  CHECK(rig.run_until([&] { return client->ask({"WATCH", "b"}) == kOk; }));
  CHECK(rig.a.accepted == 2);
}

TEST_CASE("WATCH comes behind what its client sent before, and EXEC before what it sends then") {
  Rig rig;
  keep_silent(rig.a, {"SET", "EXEC"});
  auto client = rig.client();
  client->send(request_of({"SET", "b", "1"}) + request_of({"WATCH", "b"}) + request_of({"MULTI"}) +
               request_of({"EXEC"}) + request_of({"STRLEN", "b"}));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("SET") == 1; }));
  auto other = rig.client();
  CHECK(other->ask({"SET", "a", "1"}) == kOk);
  CHECK(rig.a.count_of("WATCH") == 0);
  rig.a.send_unasked(kOk);
  CHECK(client->read() == kOk);
  REQUIRE(rig.run_until([&] { return rig.a.count_of("EXEC") == 1; }));
  CHECK(rig.a.count_of("WATCH") == 1);
  CHECK(rig.a.count_of("STRLEN") == 0);
}

TEST_CASE("EXEC answers null, and nothing is sent, once the watched keys' connection was lost") {
  Rig rig;
  auto client = rig.client();
  CHECK(client->ask({"WATCH", "b"}) == kOk);
  rig.a.drop_connections();
  REQUIRE(rig.run_until([&] { return client->ask({"SET", "c", "1"}) == kOk; }));
  CHECK(client->ask({"WATCH", "b"}) == kOk);  // It does not make the loss good.
  client->send(transaction_of("b"));
  CHECK(rig.read_all(*client, {kOk, kQueued, "*-1\r\n"}));
  CHECK(rig.a.count_of("EXEC") == 0);
  CHECK(client->ask({"WATCH", "b"}) == kOk);
  client->send(transaction_of("b"));
  CHECK(rig.read_all(*client, {kOk, kQueued, kExecReply}));
}

TEST_CASE("a node that leaves or moves the slot away loses what is watched there") {
  Rig rig;
  auto client = rig.client();
  CHECK(client->ask({"WATCH", "b"}) == kOk);
  SUBCASE("moved") {
    rig.install(kMoved);
    CHECK(rig.run_until([&] { return rig.a.count_of("UNWATCH") == 1; }));
  }
  SUBCASE("moved and back") {
    rig.install(kMoved);
    rig.install(kBefore);
  }
  SUBCASE("left") { rig.install({{"b", "0-16383"}}); }
  SUBCASE("another slot moved") {
    rig.install({{"a", "0-7000"}, {"b", "7001-16383"}});
    client->send(transaction_of("b"));
    CHECK(rig.read_all(*client, {kOk, kQueued, kExecReply}));
    return;
  }
  client->send(transaction_of("b"));
  CHECK(rig.read_all(*client, {kOk, kQueued, "*-1\r\n"}));
  CHECK(rig.a.count_of("EXEC") + rig.b.count_of("EXEC") == 0);
}

TEST_CASE("a fence keeps WATCH and EXEC back, and EXEC is null when the slot has moved") {
  Rig rig;
  auto watches = rig.client();
  auto late = rig.client();
  CHECK(watches->ask({"WATCH", "b"}) == kOk);
  rig.begin_fence();
  REQUIRE(rig.run_until([&] { return rig.acks().size() == 1; }));
  watches->send(transaction_of("b"));
  late->send(request_of({"WATCH", "b"}));
  REQUIRE(rig.run_until([&] { return rig.stats().fenced_clients.get() == 2; }));
  CHECK(rig.read_all(*watches, {kOk, kQueued}));
  SUBCASE("committed") {
    rig.end_fence(kMoved);
    CHECK(watches->read() == "*-1\r\n");
    CHECK(late->read() == kOk);
    CHECK(rig.b.count_of("WATCH") == 1);
  }
  SUBCASE("lifted") {
    rig.end_fence(kBefore);
    CHECK(watches->read() == kExecReply);
    CHECK(late->read() == kOk);
  }
}

TEST_CASE("a client that leaves while it watches gives its connection back clean") {
  Rig rig;
  rig.limits.pinned_connections = 1;
  rig.install(kBefore);
  auto leaving = rig.client();
  keep_silent(rig.a, {"UNWATCH"});
  CHECK(leaving->ask({"WATCH", "b"}) == kOk);
  leaving->close();
  REQUIRE(rig.run_until([&] { return rig.a.count_of("UNWATCH") == 1; }));
  auto next = rig.client();  // It is not clean yet.
  CHECK(next->ask({"WATCH", "b"}).starts_with("-ERR all limits.pinned_connections"));
}
