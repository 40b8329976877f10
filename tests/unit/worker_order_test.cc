// What a client may count on while its requests travel by several connections, are passed on in
// pieces, or pile up.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::FakeNode;
using tests::request_of;
using tests::TestLoop;
using tests::WorkerRig;

// "bar" lies in slot 5061, "c" in 7365, "foo" in 12182.
const std::vector<WorkerRig::Part> kTwo = {{"n1", "0-8191"}, {"n2", "8192-16383"}};
const std::string kOk = "+OK\r\n";
const std::string kNull = "$-1\r\n";

// The node takes these commands and answers nothing: the test does.
void hold(FakeNode& node, const std::string& command) {
  node.on_command = [command](const Command& request) {
    return request[0] == command ? std::optional<std::string>("") : std::nullopt;
  };
}

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// A SET that is streamed under the limits of streaming().
std::string large_set(const std::string& key, std::size_t bytes) {
  return request_of({"SET", key, std::string(bytes, 'x')});
}

void streaming(WorkerRig& rig) {
  rig.limits.stream_request = 1000;
  rig.limits.large_connections = 1;
}

}  // namespace

TEST_CASE("a large request waits for the requests of its client before it, and those behind wait") {
  TestLoop loop;
  WorkerRig rig(loop);
  streaming(rig);
  rig.install(kTwo);
  hold(rig.node("n1"), "STRLEN");
  auto client = rig.client();
  std::string large = large_set("foo", 5000);
  client->send(request_of({"STRLEN", "bar"}) + large.substr(0, 3000));
  REQUIRE(rig.run_until([&] { return rig.node("n1").count_of("STRLEN") == 1; }));
  CHECK(rig.client()->ask({"SET", "other{foo}", "1"}) == kOk);
  CHECK(rig.node("n2").count_of("SET") == 1);  // The other client's.
  CHECK(rig.node("n2").accepted == 1);
  rig.node("n1").send_unasked(":0\r\n");
  CHECK(client->read() == ":0\r\n");
  client->send(large.substr(3000) + request_of({"GET", "foo"}));
  CHECK(client->read() == kOk);
  CHECK(client->read() == bulk(std::string(5000, 'x')));
}

TEST_CASE("a client that leaves in the middle of a large request makes room for the next one") {
  TestLoop loop;
  WorkerRig rig(loop);
  streaming(rig);
  rig.install(kTwo);
  auto leaving = rig.client();
  leaving->send(large_set("foo", 5000).substr(0, 3000));
  REQUIRE(rig.run_until([&] { return rig.node("n2").accepted == 2; }));
  auto waiting = rig.client();
  waiting->send(large_set("foo", 6000));
  leaving->close();
  CHECK(waiting->read() == kOk);
  CHECK(rig.node("n2").keys["foo"].size() == 6000);
}

TEST_CASE("a frame that breaks in a part that is passed on ends its client and nobody else") {
  TestLoop loop;
  WorkerRig rig(loop);
  streaming(rig);
  rig.install(kTwo);
  auto client = rig.client();
  std::string frame = "*4\r\n$3\r\nSET\r\n$3\r\nfoo\r\n" + bulk(std::string(5000, 'x'));
  SUBCASE("at once") { client->send(frame + ":1\r\n" + request_of({"PING"})); }
  SUBCASE("later") {
    client->send(frame.substr(0, 2000));
    REQUIRE(rig.run_until([&] { return rig.node("n2").accepted == 2; }));
    client->send(frame.substr(2000) + "x");
  }
  CHECK(client->read().starts_with("-ERR Protocol error: "));
  CHECK(rig.run_until([&] { return client->is_closed(); }));
  CHECK_FALSE(rig.node("n2").keys.contains("foo"));
  auto other = rig.client();
  CHECK(other->ask({"SET", "foo", std::string(5000, 'y')}) == kOk);
  CHECK(other->ask({"GET", "foo"}) == bulk(std::string(5000, 'y')));
}

TEST_CASE("HELLO in a pipeline changes connections, and what follows still comes second") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kTwo);
  bool is_set = false;
  bool is_late = false;
  auto& node = rig.node("n2");
  node.on_command = [&](const Command& request) -> std::optional<std::string> {
    if (request[0] == "HELLO") return "%0\r\n";
    if (request[0] == "SET") is_set = true;
    if (request[0] == "STRLEN") {
      is_late = is_late || !is_set;
      return ":1\r\n";
    }
    return request[0] == "SET" ? std::optional<std::string>("") : std::nullopt;
  };
  auto client = rig.client();
  client->send(request_of({"SET", "foo", "1"}) + request_of({"HELLO", "3"}) +
               request_of({"STRLEN", "foo"}));
  REQUIRE(rig.run_until([&] { return is_set; }));
  CHECK(rig.client()->ask({"GET", "bar"}) == kNull);
  CHECK(node.count_of("STRLEN") == 0);
  node.send_unasked(kOk);
  CHECK(client->read() == kOk);
  CHECK(client->read().starts_with("%"));
  CHECK(client->read() == ":1\r\n");
  CHECK_FALSE(is_late);
}

TEST_CASE("a client that wants no replies is held by none of them") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.unread_replies = 10'000;
  rig.install(kTwo);
  hold(rig.node("n1"), "STRLEN");
  rig.node("n2").keys["foo"] = std::string(1000, 'x');
  auto client = rig.client();
  client->send(request_of({"CLIENT", "REPLY", "OFF"}) + request_of({"STRLEN", "bar"}));
  // More than it may have unread, behind the one that is not answered.
  for (int i = 0; i < 50; ++i) client->send(request_of({"GET", "foo"}));
  client->send(request_of({"CLIENT", "REPLY", "ON"}));
  REQUIRE(rig.run_until([&] { return rig.node("n2").count_of("GET") > 12; }));
  rig.node("n1").send_unasked(":0\r\n");
  CHECK(client->read() == kOk);
}

TEST_CASE("replies that wait for an earlier one count among the unread replies of all clients") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.unread_replies_total = 200'000;
  rig.install(kTwo);
  hold(rig.node("n1"), "STRLEN");
  rig.node("n2").keys["foo"] = std::string(10'000, 'x');
  auto client = rig.client();
  client->send(request_of({"STRLEN", "bar"}));
  for (int i = 0; i < 60; ++i) client->send(request_of({"GET", "foo"}));
  CHECK(rig.run_until([&] { return client->is_closed(); }));
  CHECK(rig.stats().overflowing_clients.get() == 1);
  CHECK(rig.client()->ask({"PING"}) == "+PONG\r\n");
}

TEST_CASE("what waits at one node is limited, whatever kind of command it is") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.node_queue = 1000;
  rig.timeouts.connect = conf::Milliseconds(60'000);
  rig.node("n1").silent = true;  // Nothing is sent before it has answered the greeting.
  rig.install(kTwo);
  auto first = rig.client();
  first->send(request_of({"SET", "bar", std::string(2000, 'x')}));
  using Words = std::initializer_list<std::string_view>;
  const std::string sha(40, 'a');
  for (Words command : {Words{"GET", "bar"}, Words{"MGET", "bar", "foo"}, Words{"DBSIZE"},
                        Words{"FLUSHALL"}, Words{"EVAL", "return 1", "1", "bar"},
                        Words{"EVALSHA", sha, "1", "bar"}, Words{"SCRIPT", "LOAD", "return 1"}}) {
    CAPTURE(std::string(*command.begin()));
    std::string error;
    // The first client's bytes may still be on their way.
    REQUIRE(rig.run_until([&] {
      error = rig.client()->ask(command);
      return error.find("limits.node_queue") != std::string::npos;
    }));
    CHECK(error.starts_with("-CLUSTERDOWN node n1 "));
  }
  CHECK_FALSE(first->has_reply());
}

TEST_CASE("workers that end while one of them still asks the others let go of the question") {
  TestLoop loop;
  WorkerRig rig(loop, 2);
  rig.install(kTwo);
  auto client = rig.client();
  REQUIRE(client->ask({"PING"}) == "+PONG\r\n");
  std::atomic<bool> is_asked = false;
  std::atomic<bool> may_go_on = false;
  rig.worker(1).post([&](proxy::Worker&) {
    is_asked = true;
    while (!may_go_on) std::this_thread::yield();
  });
  REQUIRE(rig.run_until([&] { return is_asked.load(); }));
  client->send(request_of({"CLIENT", "LIST"}));
  REQUIRE(rig.run_until([&] { return rig.stats().requests.get() == 2; }));
  // The answer comes when the worker that asked has ended.
  rig.stop([&] { may_go_on = true; });
}
