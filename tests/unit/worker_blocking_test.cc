// What happens to requests that block at a node, and to those that they must not hold up.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <map>
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
const std::string kElement = "*2\r\n$1\r\nb\r\n$1\r\nx\r\n";
const std::string kUnblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";

// A server at which BLPOP and its like wait.
struct Blocking {
  FakeNode& node;
  std::map<int, Command> waiting;         // By connection.
  int unblock_too_early = 0;              // So often CLIENT UNBLOCK finds nobody.
  bool is_slow = false;                   // Takes CLIENT UNBLOCK and answers it later.
  std::vector<std::pair<int, int>> slow;  // Who has asked to unblock whom.

  explicit Blocking(FakeNode& of) : node(of) {
    node.on_command = [this](const Command& command) { return answer(command); };
  }
  std::optional<std::string> answer(const Command& command) {
    const std::string& name = command.front();
    if (name == "BLPOP" || name == "XREAD" || name == "WAIT") {
      waiting[node.asking] = command;
      return "";
    }
    if (name == "XINFO") return "*2\r\n$17\r\nlast-generated-id\r\n$3\r\n7-1\r\n";
    if (name != "CLIENT" || command[1] != "UNBLOCK") return std::nullopt;
    const int whom = std::stoi(command[2]);
    if (is_slow) {
      slow.emplace_back(node.asking, whom);
      return "";
    }
    return unblock(whom, command[3]);
  }
  std::string unblock(int whom, const std::string& reply) {
    if (unblock_too_early > 0) {
      --unblock_too_early;
      return ":0\r\n";
    }
    if (waiting.erase(whom) == 0) return ":0\r\n";
    node.send_to(whom, reply == "ERROR" ? kUnblocked : ":0\r\n");
    return ":1\r\n";
  }
  void give(const std::string& reply) {
    const int whom = waiting.begin()->first;
    waiting.erase(whom);
    node.send_to(whom, reply);
  }
  [[nodiscard]] std::size_t unblocks() const {
    return static_cast<std::size_t>(std::ranges::count_if(node.requests, [](const Command& each) {
      return each.size() > 1 && each[0] == "CLIENT" && each[1] == "UNBLOCK";
    }));
  }
};

struct WithLoop {
  TestLoop loop;
};

struct Rig : WithLoop, WorkerRig {
  Blocking a{node("a")};
  Blocking b{node("b")};

  explicit Rig(std::uint64_t connections = 1000, unsigned workers = 1) : WorkerRig(loop, workers) {
    limits.blocking_connections = connections;
    install(kBefore);
  }
  std::unique_ptr<RigClient> blocked(const std::string& key, const std::string& time = "0") {
    auto who = client();
    block(*who, key, time);
    return who;
  }
  void block(RigClient& who, const std::string& key, const std::string& time = "0") {
    const std::size_t before = a.waiting.size() + b.waiting.size();
    who.send(request_of({"BLPOP", key, time}));
    REQUIRE(run_until([&] { return a.waiting.size() + b.waiting.size() == before + 1; }));
  }
  bool counts(std::uint64_t clients) {
    return run_until([&] { return stats().blocked_clients.get() == clients; });
  }
  void begin_fence(slots::SlotId slot = 3300) {
    proxy::Fence next{++fences, {}, "a", "b"};
    next.slots.add(slot);
    fence = std::make_shared<proxy::Fence>(std::move(next));
    install(kBefore);
  }
  void end_fence(const std::vector<Part>& parts) {
    fence = nullptr;
    install(parts);
  }
  bool is_acked() {
    return run_until([&] { return acks().size() == fences; });
  }

  std::uint64_t fences = 0;
};

void leave(std::unique_ptr<RigClient>& client) { client.reset(); }

}  // namespace

TEST_CASE("a request that blocks holds up nobody else, and its connection serves the next") {
  Rig rig;
  auto client = rig.blocked("b");
  CHECK(rig.counts(1));
  auto other = rig.client();
  CHECK(other->ask({"SET", "c", "1"}) == kOk);
  rig.a.give(kElement);
  CHECK(client->read() == kElement);
  CHECK(rig.counts(0));
  const int accepted = rig.a.node.accepted;
  rig.block(*other, "b");
  CHECK(rig.a.node.accepted == accepted);
}

TEST_CASE("requests of the same client come before and behind it in their order") {
  Rig rig;
  auto client = rig.client();
  client->send(request_of({"SET", "b", "1"}) + request_of({"BLPOP", "b", "0"}) +
               request_of({"SET", "a", "2"}) + request_of({"GET", "a"}));
  REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
  CHECK(client->read() == kOk);
  auto other = rig.client();
  CHECK(other->ask({"SET", "c", "1"}) == kOk);
  CHECK(rig.b.node.count_of("SET") == 0);
  rig.a.give(kElement);
  CHECK(client->read() == kElement);
  CHECK(client->read() == kOk);
  CHECK(client->read() == "$1\r\n2\r\n");
}

TEST_CASE("one too many is told at once, and nobody else notices") {
  Rig rig(2);
  auto first = rig.blocked("b");
  auto second = rig.blocked("c");
  auto third = rig.client();
  CHECK(third->ask({"BLPOP", "b", "0"}) ==
        "-ERR all limits.blocking_connections connections to node a are in use; try again\r\n");
  CHECK(third->ask({"SET", "c", "1"}) == kOk);
  CHECK(rig.stats().blocking_refused.get() == 1);
  rig.block(*third, "a");
  leave(first);
  REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
  auto fourth = rig.client();
  REQUIRE(rig.run_until([&] {
    fourth->send(request_of({"BLPOP", "b", "0"}));
    rig.run_until([&] { return fourth->has_reply() || rig.a.waiting.size() == 2; });
    return rig.a.waiting.size() == 2;
  }));
}

TEST_CASE("keys of several slots are refused, several of one slot are not") {
  Rig rig;
  auto client = rig.client();
  CHECK(client->ask({"BLPOP", "a", "b", "0"}).starts_with("-CROSSSLOT"));
  CHECK(client->ask({"BLPOP", "__slotproxy:identity", "0"}).starts_with("-ERR"));
  CHECK(rig.client_at("a")->ask({"BLPOP", "a", "0"}) == "-MOVED 15495 127.0.0.1:7098\r\n");
  client->send(request_of({"BLPOP", "{b}1", "{b}2", "0"}));
  CHECK(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
}

// --- clients that leave

TEST_CASE("a client that leaves takes its request back at the node") {
  Rig rig(1);
  auto client = rig.blocked("b");
  const int connection = rig.a.waiting.begin()->first;
  rig.a.is_slow = true;
  SUBCASE("it closes") {}
  SUBCASE("it closes with requests behind") { client->send(request_of({"GET", "b"})); }
  leave(client);
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  CHECK(rig.a.slow[0].second == connection);
  CHECK(rig.a.slow[0].first != connection);
  // The connection is free only when both replies are in.
  auto next = rig.client();
  CHECK(next->ask({"BLPOP", "b", "0"}).starts_with("-ERR all limits.blocking_connections"));
  rig.a.node.send_to(connection, kUnblocked);
  rig.a.waiting.clear();
  auto other = rig.client();
  CHECK(other->ask({"SET", "a", "1"}) == kOk);
  CHECK(next->ask({"BLPOP", "b", "0"}).starts_with("-ERR all limits.blocking_connections"));
  rig.a.node.send_to(rig.a.slow[0].first, ":1\r\n");
  REQUIRE(rig.run_until([&] {
    next->send(request_of({"BLPOP", "b", "0"}));
    rig.run_until([&] { return next->has_reply() || !rig.a.waiting.empty(); });
    return !rig.a.waiting.empty();
  }));
  CHECK(rig.a.waiting.begin()->first == connection);
}

TEST_CASE("a client that has shut its sending side down still gets what came before") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.is_slow = true;
  client->shut_down();
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  const auto [asking, whom] = rig.a.slow[0];
  SUBCASE("an element") {
    rig.a.node.send_to(whom, kElement);
    rig.a.node.send_to(asking, ":0\r\n");
    CHECK(client->read() == kElement);
  }
  SUBCASE("nothing") {
    rig.a.node.send_to(whom, kUnblocked);
    rig.a.node.send_to(asking, ":1\r\n");
  }
  CHECK(rig.run_until([&] { return client->is_closed(); }));
}

TEST_CASE("an UNBLOCK that comes too early is repeated until the request has its reply") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.unblock_too_early = 10;
  leave(client);
  CHECK(rig.run_until([&] { return rig.a.waiting.empty(); }));
  CHECK(rig.a.unblocks() == 11);
}

TEST_CASE("a request of a client that has left never goes out") {
  Rig rig;
  CHECK(rig.client()->ask({"SET", "b", "1"}) == kOk);
  auto hold_greeting = [&](const Command& command) -> std::optional<std::string> {
    if (command.front() == "ROLE") return "";
    return rig.a.answer(command);
  };
  rig.a.node.on_command = hold_greeting;
  auto client = rig.client();
  client->send(request_of({"BLPOP", "b", "0"}));
  REQUIRE(rig.run_until([&] { return rig.a.node.count_of("ROLE") == 2; }));
  CHECK(rig.stats().blocked_clients.get() == 0);
  leave(client);
  REQUIRE(rig.run_until([&] { return rig.a.node.open_connections() == 1; }));
  CHECK(rig.client()->ask({"SET", "b", "1"}) == kOk);
  CHECK(rig.a.node.count_of("BLPOP") == 0);
}

// --- CLIENT UNBLOCK, CLIENT LIST, the proxy's end

TEST_CASE("CLIENT UNBLOCK ends a request as if its time were over, or with an error") {
  Rig rig;
  auto client = rig.client();
  const std::string id = client->ask({"CLIENT", "ID"}).substr(1);
  const std::string number = id.substr(0, id.find('\r'));
  auto other = rig.client();
  CHECK(other->ask({"CLIENT", "UNBLOCK", number}) == ":0\r\n");
  rig.block(*client, "b");
  CHECK(other->ask({"CLIENT", "LIST", "ID", number}).find(" flags=b ") != std::string::npos);
  CHECK(other->ask({"CLIENT", "LIST", "ID", number}).find(" cmd=blpop ") != std::string::npos);
  CHECK(other->ask({"CLIENT", "UNBLOCK", number}) == ":1\r\n");
  CHECK(client->read() == "*-1\r\n");
  rig.block(*client, "b");
  CHECK(other->ask({"CLIENT", "UNBLOCK", number, "error"}) == ":1\r\n");
  CHECK(client->read() == kUnblocked);
  CHECK(other->ask({"CLIENT", "UNBLOCK", number, "never"}).starts_with("-ERR CLIENT UNBLOCK"));
  CHECK(client->ask({"HELLO", "3"}).starts_with("%"));
  rig.block(*client, "b");
  CHECK(other->ask({"CLIENT", "UNBLOCK", number, "TIMEOUT"}) == ":1\r\n");
  CHECK(client->read() == "_\r\n");
}

TEST_CASE("CLIENT UNBLOCK ends a request once") {
  Rig rig;
  auto client = rig.client();
  const std::string id = client->ask({"CLIENT", "ID"}).substr(1);
  const std::string number = id.substr(0, id.find('\r'));
  auto other = rig.client();
  rig.block(*client, "b");
  rig.a.is_slow = true;
  CHECK(other->ask({"CLIENT", "UNBLOCK", number, "ERROR"}) == ":1\r\n");
  CHECK(other->ask({"CLIENT", "UNBLOCK", number}) == ":0\r\n");
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  SUBCASE("an element that came first is the client's") {
    rig.a.give(kElement);
    CHECK(client->read() == kElement);
  }
  SUBCASE("else it is as was asked first") {
    rig.a.give(kUnblocked);
    rig.a.node.send_to(rig.a.slow[0].first, ":1\r\n");
    CHECK(client->read() == kUnblocked);
  }
}

TEST_CASE("an UNBLOCKED that nobody has asked for begins the request anew") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.give(kUnblocked);
  REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
  rig.a.give(kElement);
  CHECK(client->read() == kElement);
}

TEST_CASE("CLIENT KILL of a client that is blocked takes its request back") {
  Rig rig;
  auto client = rig.blocked("b");
  CHECK(rig.client()->ask({"CLIENT", "KILL", "TYPE", "normal"}) == ":1\r\n");
  CHECK(rig.run_until([&] { return client->is_closed(); }));
  CHECK(rig.run_until([&] { return rig.a.waiting.empty(); }));
}

TEST_CASE("the proxy's end takes requests back, and says so") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.is_slow = true;
  rig.worker().drain([] {});
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  SUBCASE("an element that came first is delivered") {
    rig.a.give(kElement);
    CHECK(client->read() == kElement);
  }
  SUBCASE("else an error") {
    rig.a.give(kUnblocked);
    rig.a.node.send_to(rig.a.slow[0].first, ":1\r\n");
    CHECK(client->read().starts_with("-UNBLOCKED the proxy is shutting down"));
  }
  CHECK(rig.run_until([&] { return client->is_closed(); }));
}

// --- nodes

TEST_CASE("a node that is lost ends the request with an error at once") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.waiting.clear();
  rig.a.node.drop_connections();
  const std::string error = client->read();
  CHECK(error.starts_with("-"));
  CHECK(error.find("node a") != std::string::npos);
  CHECK(rig.counts(0));
  CHECK(rig.run_until([&] { return client->ask({"SET", "c", "1"}) == kOk; }));
}

TEST_CASE("timeouts.request does not end what a client lets wait, and counts from its own time") {
  Rig rig;
  rig.timeouts.request = conf::Milliseconds(50);
  rig.install(kBefore);
  auto client = rig.blocked("b");
  auto impatient = rig.blocked("c", "0.001");
  CHECK(impatient->read().starts_with("-"));  // The node should have answered.
  CHECK_FALSE(client->has_reply());
  rig.a.waiting.erase(std::prev(rig.a.waiting.end()));
  rig.a.give(kElement);
  CHECK(client->read() == kElement);
}

// --- moves

TEST_CASE("a fence takes requests for its slots back, and is acknowledged when they have ended") {
  Rig rig;
  auto client = rig.blocked("b", "100");
  auto elsewhere = rig.blocked("c");
  const int connection = rig.a.waiting.begin()->first;
  rig.a.is_slow = true;
  rig.begin_fence();
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  CHECK(rig.a.slow[0].second == connection);
  CHECK(rig.acks().empty());
  SUBCASE("an element that came first is the client's") {
    rig.a.give(kElement);
    CHECK(client->read() == kElement);
    CHECK(rig.is_acked());
    rig.end_fence(kMoved);
    CHECK(rig.b.node.count_of("BLPOP") == 0);
    return;
  }
  rig.a.give(kUnblocked);
  rig.a.node.send_to(rig.a.slow[0].first, ":1\r\n");
  CHECK(rig.is_acked());
  CHECK_FALSE(client->has_reply());
  CHECK(rig.stats().blocked_clients.get() == 2);
  SUBCASE("committed: it goes on at the new owner, with the rest of its time") {
    rig.end_fence(kMoved);
    REQUIRE(rig.run_until([&] { return rig.b.waiting.size() == 1; }));
    const double time = std::stod(rig.b.waiting.begin()->second.back());
    CHECK(time > 50);
    CHECK(time < 100);
    rig.b.give(kElement);
  }
  SUBCASE("lifted: at the old one") {
    rig.end_fence(kBefore);
    REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 2; }));
    rig.a.give(kElement);
  }
  CHECK(client->read() == kElement);
  CHECK_FALSE(elsewhere->has_reply());
  CHECK(rig.a.unblocks() == 1);
}

TEST_CASE("while a fence keeps it back, a request can end in any other way") {
  Rig rig;
  auto client = rig.client();
  const std::string id = client->ask({"CLIENT", "ID"}).substr(1);
  rig.block(*client, "b", "0");
  rig.begin_fence();
  CHECK(rig.is_acked());
  SUBCASE("unblocked") {
    CHECK(rig.client()->ask({"CLIENT", "UNBLOCK", id.substr(0, id.find('\r'))}) == ":1\r\n");
    CHECK(client->read() == "*-1\r\n");
  }
  SUBCASE("the client leaves") {
    leave(client);
    CHECK(rig.counts(0));
  }
  SUBCASE("the proxy ends") {
    rig.worker().drain([] {});
    CHECK(client->read().starts_with("-UNBLOCKED the proxy is shutting down"));
    return;
  }
  SUBCASE("another fence of the same slot comes") {
    rig.begin_fence();
    CHECK(rig.is_acked());
    rig.end_fence(kMoved);
    REQUIRE(rig.run_until([&] { return rig.b.waiting.size() == 1; }));
    rig.b.give(kElement);
    CHECK(client->read() == kElement);
    return;
  }
  rig.end_fence(kMoved);
  CHECK(rig.client()->ask({"SET", "a", "1"}) == kOk);
  CHECK(rig.b.node.count_of("BLPOP") == 0);
}

TEST_CASE("a request whose time is over while a fence keeps it back answers null") {
  Rig rig;
  auto client = rig.blocked("b", "0.05");
  rig.begin_fence();
  CHECK(rig.is_acked());
  const std::uint64_t begin = uv_hrtime();
  rig.run_until([&] { return uv_hrtime() - begin > 60'000'000; });
  rig.end_fence(kMoved);
  CHECK(client->read() == "*-1\r\n");
  CHECK(rig.b.node.count_of("BLPOP") == 0);
}

TEST_CASE("an endpoint answers MOVED when the slot of a blocked client has gone") {
  Rig rig;
  auto client = rig.client_at("a");
  rig.block(*client, "b");
  rig.begin_fence();
  CHECK(rig.is_acked());
  SUBCASE("moved") {
    rig.end_fence(kMoved);
    CHECK(client->read() == "-MOVED 3300 127.0.0.1:7098\r\n");
    CHECK(rig.client_at("b")->ask({"SET", "b", "1"}) == kOk);
  }
  SUBCASE("lifted") {
    rig.end_fence(kBefore);
    REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
    rig.a.give(kElement);
    CHECK(client->read() == kElement);
  }
}

TEST_CASE("a fence waits for the request of a client that has left, too") {
  Rig rig;
  auto client = rig.blocked("b");
  rig.a.is_slow = true;
  leave(client);
  REQUIRE(rig.run_until([&] { return rig.a.slow.size() == 1; }));
  rig.begin_fence();
  CHECK(rig.client()->ask({"SET", "a", "1"}) == kOk);
  CHECK(rig.acks().empty());
  rig.a.give(kUnblocked);
  rig.a.node.send_to(rig.a.slow[0].first, ":1\r\n");
  CHECK(rig.is_acked());
}

TEST_CASE("what came after the last entry of a stream means the same entry at the new owner") {
  Rig rig;
  auto client = rig.client();
  client->send(request_of({"XREAD", "BLOCK", "0", "STREAMS", "b", "$"}));
  REQUIRE(rig.run_until([&] { return rig.a.waiting.size() == 1; }));
  CHECK(rig.a.node.count_of("XINFO") == 0);
  rig.begin_fence();
  CHECK(rig.is_acked());
  rig.end_fence(kMoved);
  REQUIRE(rig.run_until([&] { return rig.b.waiting.size() == 1; }));
  CHECK(rig.b.waiting.begin()->second == Command{"XREAD", "BLOCK", "0", "STREAMS", "b", "7-1"});
}

// --- WAIT

TEST_CASE("WAIT asks every owner behind a command of its own, and answers the smallest number") {
  Rig rig;
  auto client = rig.client();
  client->send(request_of({"SET", "b", "1"}) + request_of({"WAIT", "2", "0"}) +
               request_of({"SET", "b", "2"}));
  REQUIRE(rig.run_until([&] { return rig.a.waiting.size() + rig.b.waiting.size() == 2; }));
  CHECK(client->read() == kOk);
  CHECK(rig.a.node.count_of("PING") == 1);
  CHECK(rig.a.node.count_of("SET") == 1);
  CHECK(rig.counts(1));
  SUBCASE("both answer") {
    rig.a.give(":3\r\n");
    rig.b.give(":2\r\n");
    CHECK(client->read() == ":2\r\n");
  }
  SUBCASE("one node is lost") {
    rig.b.waiting.clear();
    rig.b.node.drop_connections();
    CHECK(client->read().find("node b") != std::string::npos);
    CHECK(rig.run_until([&] { return rig.a.waiting.empty(); }));
  }
  SUBCASE("a fence lets it be") {
    rig.begin_fence();
    CHECK(rig.is_acked());
    rig.end_fence(kMoved);
    CHECK(rig.a.unblocks() == 0);
    rig.a.give(":1\r\n");
    rig.b.give(":1\r\n");
    CHECK(client->read() == ":1\r\n");
  }
  CHECK(client->read() == kOk);
  CHECK(rig.counts(0));
}
