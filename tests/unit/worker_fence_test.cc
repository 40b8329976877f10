#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using proxy::control::Command;
using tests::FakeNode;
using tests::kBefore;
using tests::kMoved;
using tests::request_of;
using tests::RigClient;
using tests::TestLoop;
using tests::WorkerRig;

// Fences here are of the slot of "b".
constexpr slots::SlotId kSlot = 3300;
const std::string kOk = "+OK\r\n";
const std::string kMovedReply = "-MOVED 3300 127.0.0.1:7098\r\n";

// FakeNode's answers, and those to the commands that these tests send.
void serve(FakeNode& node) {
  node.on_command = [](const Command& command) -> std::optional<std::string> {
    const std::string& name = command.front();
    if (name == "MSET" || name == "FLUSHALL" || name == "EVAL") return "+OK\r\n";
    if (name == "EVAL_RO") return ":7\r\n";
    return std::nullopt;
  };
}

// Answers nothing to this command: the test does.
void keep_waiting(FakeNode& node, const std::string& name) {
  node.on_command = [name](const Command& command) -> std::optional<std::string> {
    if (command.front() == name) return "";
    return std::nullopt;
  };
}

struct WithLoop {
  TestLoop loop;
};

struct FencedWorker : WithLoop, WorkerRig {
  FakeNode& a = node("a");
  FakeNode& b = node("b");

  FencedWorker() : WorkerRig(loop) {
    REQUIRE(slots::slot_of_key("b") == kSlot);
    serve(a);
    serve(b);
    install(kBefore);
  }
  void begin_fence(std::uint64_t id, slots::SlotId slot = kSlot) {
    proxy::Fence next{id, {}, "a", "b"};
    next.slots.add(slot);
    fence = std::make_shared<proxy::Fence>(std::move(next));
    install(kBefore);
  }
  void lift() { end_with(kBefore); }
  void commit() { end_with(kMoved); }
  void end_with(const std::vector<Part>& parts) {
    fence = nullptr;
    install(parts);
  }
  bool is_acked(std::uint64_t id) {
    return run_until([&] { return !acks().empty() && acks().back().fence == id; });
  }
  bool holds(std::uint64_t clients) {
    return run_until([&] { return stats().fenced_clients.get() == clients; });
  }
};

}  // namespace

TEST_CASE("a request for a fenced slot waits, and goes to the old owner when the fence is lifted") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto waits = proxy.client();
  waits->send(request_of({"SET", "b", "1"}));
  REQUIRE(proxy.holds(1));
  auto goes_on = proxy.client();
  CHECK(goes_on->ask({"SET", "c", "1"}) == kOk);
  CHECK(goes_on->ask({"SET", "a", "1"}) == kOk);
  CHECK_FALSE(waits->has_reply());
  CHECK(proxy.a.keys.count("b") == 0);
  CHECK(proxy.stats().requests.get() == 2);

  proxy.lift();
  CHECK(waits->read() == kOk);
  CHECK(proxy.a.keys.count("b") == 1);
  CHECK(proxy.stats().requests.get() == 3);
  CHECK(proxy.stats().fenced_clients.get() == 0);
}

TEST_CASE("what stands behind a request that a fence keeps back does not overtake it") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client();
  client->send(request_of({"SET", "c", "0"}) + request_of({"SET", "b", "1"}) +
               request_of({"GET", "b"}) + request_of({"SET", "a", "2"}) + "GET a\r\n");
  REQUIRE(proxy.holds(1));
  CHECK(client->read() == kOk);
  CHECK(proxy.b.count_of("SET") == 0);
  proxy.commit();
  for (const std::string& reply :
       {kOk, std::string("$1\r\n1\r\n"), kOk, std::string("$1\r\n2\r\n")})
    CHECK(client->read() == reply);
  CHECK(proxy.b.keys.count("b") == 1);
  CHECK(proxy.a.keys.count("b") == 0);
}

TEST_CASE("a fence keeps an inline request back too") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client();
  client->send("SET b 1\r\nSET c 1\r\n");
  REQUIRE(proxy.holds(1));
  CHECK(proxy.a.count_of("SET") == 0);
  proxy.lift();
  CHECK(client->read() == kOk);
  CHECK(client->read() == kOk);
}

TEST_CASE("a fence keeps a command over several slots back as a whole") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client();
  client->send(request_of({"MSET", "a", "1", "b", "2", "c", "3"}));
  REQUIRE(proxy.holds(1));
  CHECK(proxy.a.count_of("MSET") + proxy.b.count_of("MSET") == 0);
  proxy.commit();
  CHECK(client->read() == kOk);
  CHECK(proxy.b.requests.back() == Command{"MSET", "a", "1", "b", "2"});
}

TEST_CASE("while any fence is on, what may write any key waits, and what reads goes on") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto flushes = proxy.client();
  flushes->send(request_of({"FLUSHALL"}));
  auto runs = proxy.client_at("b");
  runs->send(request_of({"EVAL", "return 1", "0"}));
  REQUIRE(proxy.holds(2));
  CHECK(proxy.client_at("b")->ask({"EVAL_RO", "return 7", "0"}) == ":7\r\n");
  CHECK(proxy.a.count_of("FLUSHALL") + proxy.b.count_of("FLUSHALL") == 0);
  CHECK(proxy.b.count_of("EVAL") == 0);
  proxy.lift();
  CHECK(flushes->read() == kOk);
  CHECK(runs->read() == kOk);
}

TEST_CASE(
    "an endpoint executes what a fence kept back where it belongs then, and redirects later") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client_at("a");
  SUBCASE("a request with one key") { client->send(request_of({"SET", "b", "1"})); }
  SUBCASE("one with several") { client->send(request_of({"MSET", "b", "1", "{b}2", "2"})); }
  SUBCASE("a script") { client->send(request_of({"EVAL", "return 1", "1", "b"})); }
  SUBCASE("a large one") { client->send(request_of({"SET", "b", std::string(100'000, 'v')})); }
  REQUIRE(proxy.holds(1));
  proxy.commit();
  CHECK(client->read() == kOk);
  CHECK(client->ask({"SET", "b", "2"}) == kMovedReply);
  CHECK(proxy.client_at("b")->ask({"SET", "b", "3"}) == kOk);
}

TEST_CASE("an endpoint executes all of a pipeline that a fence kept back, but for other slots") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client_at("a");
  client->send(request_of({"SET", "b", "1"}) + request_of({"GET", "b"}) + request_of({"GET", "a"}));
  REQUIRE(proxy.holds(1));
  proxy.commit();
  CHECK(client->read() == kOk);
  CHECK(client->read() == "$1\r\n1\r\n");
  CHECK(client->read() == "-MOVED 15495 127.0.0.1:7098\r\n");
}

TEST_CASE("a fence goes on over snapshots that carry it along") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  REQUIRE(proxy.is_acked(1));
  auto client = proxy.client();
  client->send(request_of({"SET", "b", "1"}));
  REQUIRE(proxy.holds(1));
  proxy.install(kBefore);
  CHECK(proxy.stats().fenced_clients.get() == 1);
  CHECK(proxy.acks().size() == 1);
  SUBCASE("until it ends") {}
  SUBCASE("and another one in its place is waited for as well") {
    proxy.begin_fence(2);
    REQUIRE(proxy.is_acked(2));
    REQUIRE(proxy.holds(1));
    CHECK_FALSE(client->has_reply());
  }
  proxy.lift();
  CHECK(client->read() == kOk);
}

TEST_CASE("a fence is acknowledged when all that was sent before it is answered") {
  FencedWorker proxy;
  keep_waiting(proxy.a, "SET");
  keep_waiting(proxy.b, "SET");
  auto client = proxy.client();
  client->send(request_of({"SET", "c", "1"}));
  auto elsewhere = proxy.client();
  elsewhere->send(request_of({"SET", "a", "1"}));
  REQUIRE(proxy.run_until(
      [&] { return proxy.a.count_of("SET") == 1 && proxy.b.count_of("SET") == 1; }));
  proxy.begin_fence(1);
  // Behind the fence: not waited for.
  client->send(request_of({"SET", "c", "2"}));
  REQUIRE(proxy.run_until([&] { return proxy.a.count_of("SET") == 2; }));
  CHECK(proxy.acks().empty());
  proxy.a.send_unasked(kOk);
  REQUIRE(proxy.is_acked(1));
  CHECK(client->read() == kOk);
  CHECK(proxy.acks().back().lost_client_ids.empty());
}

TEST_CASE("a fence waits for flushes of other nodes too") {
  FencedWorker proxy;
  keep_waiting(proxy.b, "FLUSHALL");
  auto client = proxy.client();
  client->send(request_of({"FLUSHALL"}));
  REQUIRE(proxy.run_until([&] { return proxy.b.count_of("FLUSHALL") == 1; }));
  SUBCASE("of a client that is still there") {}
  SUBCASE("of one that has left") { client->close(); }
  proxy.begin_fence(1);
  proxy.install(kBefore);
  CHECK(proxy.acks().empty());
  proxy.b.send_unasked(kOk);
  CHECK(proxy.is_acked(1));
}

TEST_CASE("a flush that a node may still execute is counted for ever") {
  FencedWorker proxy;
  CHECK(proxy.client()->ask({"FLUSHALL"}) == kOk);
  CHECK(proxy.stats().lost_flushes.get() == 0);
  keep_waiting(proxy.b, "FLUSHALL");
  auto client = proxy.client();
  client->send(request_of({"FLUSHALL"}));
  REQUIRE(proxy.run_until([&] { return proxy.b.count_of("FLUSHALL") == 2; }));
  SUBCASE("of a client that is still there") {}
  SUBCASE("of one that has left") { client->close(); }
  proxy.b.drop_connections();
  CHECK(proxy.run_until([&] { return proxy.stats().lost_flushes.get() == 1; }));
}

TEST_CASE("a fence waits for requests that have to be sent again") {
  // More than the kernel takes for a node that does not read.
  constexpr std::size_t kClients = 20;
  constexpr std::size_t kRequestsEach = 16;
  FencedWorker proxy;
  CHECK(proxy.client()->ask({"SET", "c", "0"}) == kOk);
  proxy.a.stop_reading();
  const std::string set = request_of({"SET", "c", std::string(60'000, 'v')});
  std::vector<std::unique_ptr<RigClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(proxy.client());
    for (std::size_t k = 0; k < kRequestsEach; ++k) clients.back()->send(set);
  }
  REQUIRE(proxy.run_until(
      [&] { return proxy.stats().requests.get() == 1 + kClients * kRequestsEach; }));
  proxy.begin_fence(1);
  keep_waiting(proxy.a, "SET");
  proxy.a.requests.clear();
  proxy.a.drop_connections();
  auto sent_again = [&] { return kClients * kRequestsEach - proxy.stats().outcome_unknown.get(); };
  REQUIRE(proxy.run_until([&] { return proxy.stats().outcome_unknown.get() > 0; }));
  REQUIRE(proxy.run_until([&] { return proxy.a.count_of("SET") == sent_again(); }));
  CHECK(sent_again() > 0);
  CHECK(proxy.acks().empty());
  for (std::size_t i = sent_again(); i > 0; --i) proxy.a.send_unasked(kOk);
  REQUIRE(proxy.is_acked(1));
  CHECK(proxy.acks().back().lost_client_ids.size() == 1);
}

TEST_CASE("a fence that ends before it was acknowledged never is") {
  FencedWorker proxy;
  keep_waiting(proxy.a, "SET");
  auto client = proxy.client();
  client->send(request_of({"SET", "c", "1"}));
  REQUIRE(proxy.run_until([&] { return proxy.a.count_of("SET") == 1; }));
  proxy.begin_fence(1);
  proxy.lift();
  proxy.a.send_unasked(kOk);
  CHECK(client->read() == kOk);
  proxy.begin_fence(2);
  REQUIRE(proxy.is_acked(2));
  CHECK(proxy.acks().size() == 1);
}

TEST_CASE("a fence waits for a streamed request that has begun, and keeps back one that has not") {
  const std::string value(200'000, 'v');
  const std::string large = request_of({"SET", "b", value});
  FencedWorker proxy;
  auto client = proxy.client();
  REQUIRE(proxy.run_until([&] { return proxy.a.accepted == 1; }));
  SUBCASE("begun") {
    client->send(large.substr(0, 100'000));
    REQUIRE(proxy.run_until([&] { return proxy.a.accepted == 2; }));
    proxy.begin_fence(1);
    proxy.install(kBefore);
    CHECK(proxy.acks().empty());
    client->send(large.substr(100'000));
    CHECK(client->read() == kOk);
    CHECK(proxy.is_acked(1));
  }
  SUBCASE("not begun") {
    proxy.begin_fence(1);
    client->send(large);
    REQUIRE(proxy.holds(1));
    REQUIRE(proxy.is_acked(1));
    CHECK(proxy.a.accepted == 1);
    proxy.commit();
    CHECK(client->read() == kOk);
    CHECK(proxy.b.keys["b"] == value);
    CHECK(proxy.stats().requests.get() == 1);
  }
}

namespace {

// A client's SET that node a has read and does not answer, until the connection is lost.
struct LostRequest : FencedWorker {
  std::unique_ptr<RigClient> asks = client();

  LostRequest() {
    keep_waiting(a, "SET");
    asks->send(request_of({"SET", "b", "1"}));
    REQUIRE(run_until([&] { return a.count_of("SET") == 1; }));
  }
  void lose() {
    a.drop_connections();
    CHECK(asks->read().starts_with("-"));
    serve(a);
  }
  std::vector<std::uint64_t> lost_ids(std::uint64_t id) {
    REQUIRE(is_acked(id));
    return acks().back().lost_client_ids;
  }
};

const std::vector<std::uint64_t> kFirst{1};  // The id of the first connection at its node.

}  // namespace

TEST_CASE("an acknowledgement names connections that were lost with unanswered requests") {
  LostRequest proxy;
  SUBCASE("before the fence") {
    proxy.lose();
    proxy.begin_fence(1);
  }
  SUBCASE("while it waits") {
    proxy.begin_fence(1);
    CHECK(proxy.acks().empty());
    proxy.lose();
  }
  CHECK(proxy.lost_ids(1) == kFirst);
}

TEST_CASE("a lost connection is named until it can't do harm any more") {
  LostRequest proxy;
  proxy.lose();
  proxy.begin_fence(1);
  CHECK(proxy.lost_ids(1) == kFirst);
  SUBCASE("again, when the fence has come to nothing") {
    proxy.lift();
    proxy.begin_fence(2);
    CHECK(proxy.lost_ids(2) == kFirst);
  }
  SUBCASE("again, when a script keeps the server from saying which process it is") {
    proxy.a.busy = true;
    proxy.lift();
    REQUIRE(
        proxy.run_until([&] { return proxy.client()->ask({"GET", "c"}).starts_with("-BUSY"); }));
    proxy.a.busy = false;
    proxy.begin_fence(2);
    CHECK(proxy.lost_ids(2) == kFirst);
  }
  SUBCASE("not again, when the slots have moved: it was ended for that") {
    proxy.commit();
    proxy.begin_fence(2, slots::slot_of_key("c"));
    CHECK(proxy.lost_ids(2).empty());
  }
  SUBCASE("not again, when the server was restarted") {
    proxy.a.restart_as(std::string(40, 'b'));
    proxy.lift();
    REQUIRE(proxy.run_until([&] { return proxy.client()->ask({"SET", "c", "1"}) == kOk; }));
    proxy.begin_fence(2);
    CHECK(proxy.lost_ids(2).empty());
  }
}

TEST_CASE("a client that hangs up while a fence holds it leaves its request unexecuted") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto client = proxy.client();
  client->send(request_of({"SET", "b", "1"}));
  REQUIRE(proxy.holds(1));
  auto other = proxy.client();
  SUBCASE("by itself") { client->close(); }
  SUBCASE("having sent more") {
    client->send(request_of({"SET", "c", "1"}));
    client->close();
  }
  SUBCASE("or is made to") {
    CHECK(other->ask({"CLIENT", "KILL", "ID", "1"}) == ":1\r\n");
    CHECK(proxy.holds(0));
    CHECK(proxy.run_until([&] { return client->is_closed(); }));
  }
  proxy.lift();
  CHECK(other->ask({"GET", "b"}) == "$-1\r\n");
  CHECK(proxy.a.count_of("SET") == 0);
  CHECK(proxy.run_until([&] { return proxy.stats().clients.get() == 1; }));
}

TEST_CASE("a client that a fence holds is not closed as stalled") {
  FencedWorker proxy;
  proxy.timeouts.stalled_client = conf::Milliseconds(1);
  proxy.begin_fence(1);
  auto waits = proxy.client();
  // Behind the request, half of another: it owes nothing while it is not read from.
  waits->send(request_of({"SET", "b", "1"}) + "*2\r\n$3\r\nGET");
  REQUIRE(proxy.holds(1));
  auto stalls = proxy.client();
  stalls->send("*2\r\n$3\r\nGET");
  REQUIRE(proxy.run_until([&] { return stalls->is_closed(); }));
  CHECK_FALSE(waits->is_closed());
  proxy.timeouts.stalled_client = conf::Milliseconds(60'000);
  proxy.lift();
  waits->send("\r\n$1\r\nb\r\n");
  CHECK(waits->read() == kOk);
  CHECK(waits->read() == "$1\r\n1\r\n");
}

TEST_CASE("a worker that drains waits for the end of a fence") {
  FencedWorker proxy;
  proxy.begin_fence(1);
  auto waits = proxy.client();
  waits->send(request_of({"SET", "b", "1"}));
  auto idle = proxy.client();
  REQUIRE(proxy.holds(1));
  REQUIRE(proxy.run_until([&] { return proxy.stats().clients.get() == 2; }));
  std::atomic<bool> is_drained = false;
  proxy.worker().drain([&] { is_drained = true; });
  REQUIRE(proxy.run_until([&] { return idle->is_closed(); }));
  CHECK_FALSE(waits->is_closed());
  CHECK_FALSE(is_drained);
  proxy.lift();
  CHECK(waits->read() == kOk);
  CHECK(proxy.run_until([&] { return waits->is_closed() && is_drained; }));
}
