// The map changes while clients are served: nodes join and leave, and their indexes shift.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::request_of;
using tests::TestLoop;
using tests::WorkerRig;
using Parts = std::vector<WorkerRig::Part>;

// "bar" lies in slot 5061, "c" in 7365, "foo" in 12182.
const Parts kThree = {{"a", "0-5460"}, {"b", "5461-10922"}, {"c", "10923-16383"}};
// Without a, and with a new node ahead: every index means another node than before.
const Parts kShifted = {{"z", "0-5460"}, {"x", ""}, {"b", "5461-10922"}, {"c", "10923-16383"}};
const std::string kSha(40, 'a');
const Parts kWithoutB = {{"a", "0-10922"}, {"c", "10923-16383"}};

// The node takes these commands and answers nothing: the test does.
void hold(tests::FakeNode& node, const std::string& command) {
  node.on_command = [command](const Command& request) {
    return request[0] == command ? std::optional<std::string>("") : std::nullopt;
  };
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an error of one of several nodes names the node that said it, not its old index's") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  hold(rig.node("b"), "MGET");
  hold(rig.node("c"), "MGET");
  auto client = rig.client();
  client->send(request_of({"MGET", "c", "foo"}));
  REQUIRE(rig.run_until(
      [&] { return rig.node("b").count_of("MGET") == 1 && rig.node("c").count_of("MGET") == 1; }));
  rig.install(kShifted);
  rig.node("b").send_unasked("*1\r\n$1\r\n1\r\n");
  rig.node("c").send_unasked("-OOM no room\r\n");
  CHECK(client->read() == "-OOM no room (node c, slot 12182)\r\n");
}

TEST_CASE("what a node says of itself is told with its name, whole or cut, after the map changed") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  hold(rig.node("c"), "STRLEN");
  auto client = rig.client();
  client->send(request_of({"STRLEN", "foo"}));
  REQUIRE(rig.run_until([&] { return rig.node("c").count_of("STRLEN") == 1; }));
  rig.install(kShifted);
  SUBCASE("whole") { rig.node("c").send_unasked("-NOAUTH Authentication required.\r\n"); }
  SUBCASE("cut over two reads") {
    rig.node("c").send_unasked("-NOAUTH Authen");
    // A round trip over another node: the worker's loop has come to the first half, too.
    CHECK(rig.client()->ask({"GET", "c"}) == "$-1\r\n");
    rig.node("c").send_unasked("tication required.\r\n");
  }
  std::string error = client->read();
  CHECK(error.starts_with("-CLUSTERDOWN node c "));
  CHECK(contains(error, "wants a password that the proxy does not have"));
}

TEST_CASE("a node of another cluster is no place to send clients of several nodes to either") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  rig.node("b").on_command = [](const Command& request) {
    return request[0] == "MGET" ? std::optional<std::string>("-MOVED 7365 10.0.0.1:6379\r\n")
                                : std::nullopt;
  };
  rig.node("c").on_command = [](const Command& request) {
    return request[0] == "MGET" ? std::optional<std::string>("*1\r\n$1\r\n1\r\n") : std::nullopt;
  };
  std::string error = rig.client()->ask({"MGET", "c", "foo"});
  CHECK(error.starts_with("-CLUSTERDOWN node b "));
  CHECK(contains(error, "can't serve slot 7365: runs in cluster mode"));
}

TEST_CASE("what is under way at a node that leaves the map is answered") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  hold(rig.node("b"), "SET");
  auto client = rig.client();
  client->send(request_of({"SET", "c", "1"}));
  REQUIRE(rig.run_until([&] { return rig.node("b").count_of("SET") == 1; }));
  rig.install(kWithoutB);
  SUBCASE("and nothing of the same client overtakes it at the next owner") {
    client->send(request_of({"GET", "c"}));
    auto other = rig.client();
    CHECK(other->ask({"GET", "c"}) == "$-1\r\n");
    CHECK(rig.node("a").count_of("GET") == 2);  // The other client's, and the greeting's.
    rig.node("b").send_unasked("+OK\r\n");
    CHECK(client->read() == "+OK\r\n");
    CHECK(client->read() == "$-1\r\n");
    CHECK(rig.node("a").count_of("GET") == 3);
  }
  SUBCASE("and then its connections end") {
    rig.node("b").send_unasked("+OK\r\n");
    CHECK(client->read() == "+OK\r\n");
    CHECK(rig.run_until([&] { return rig.node("b").open_connections() == 0; }));
    CHECK(client->ask({"GET", "c"}) == "$-1\r\n");
    CHECK(rig.node("b").count_of("GET") == 1);  // The greeting's.
  }
  SUBCASE("as unknown, if its connection is lost") {
    rig.node("b").stop();
    std::string error = client->read();
    CHECK(error.starts_with("-ERR outcome unknown: connection lost of node b "));
  }
}

TEST_CASE("a node that has left the map and does not answer is waited for as long as a drain is") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.timeouts.drain = conf::Milliseconds(200);
  rig.install(kThree);
  hold(rig.node("b"), "SET");
  auto client = rig.client();
  client->send(request_of({"SET", "c", "1"}));
  REQUIRE(rig.run_until([&] { return rig.node("b").count_of("SET") == 1; }));
  rig.install(kWithoutB);
  std::string error = client->read();
  CHECK(error.starts_with("-ERR outcome unknown: the node has left the map of node b "));
  CHECK(client->ask({"GET", "c"}) == "$-1\r\n");
}

TEST_CASE("idle connections to a node that leaves the map end at once") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  CHECK(rig.client()->ask({"GET", "c"}) == "$-1\r\n");
  rig.install(kWithoutB);
  CHECK(rig.run_until([&] { return rig.node("b").open_connections() == 0; }));
}

TEST_CASE("a node that leaves and comes back is a new one") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  hold(rig.node("b"), "SET");
  auto client = rig.client();
  client->send(request_of({"SET", "c", "1"}));
  REQUIRE(rig.run_until([&] { return rig.node("b").count_of("SET") == 1; }));
  rig.install(kWithoutB);
  rig.install(kThree);
  CHECK(rig.client()->ask({"GET", "c"}) == "$-1\r\n");
  CHECK(rig.node("b").accepted == 2);
}

TEST_CASE("at an endpoint whose node has left the map") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  auto client = rig.client_at("b");
  REQUIRE(client->ask({"GET", "c"}) == "$-1\r\n");
  rig.install(kWithoutB);
  SUBCASE("keys are the business of their owners") {
    CHECK(client->ask({"GET", "c"}).starts_with("-MOVED 7365 127.0.0.1:"));
    CHECK(client->ask({"MGET", "{c}1", "{c}2"}).starts_with("-MOVED 7365 "));
    CHECK(client->ask({"EVAL", "return 1", "1", "foo"}).starts_with("-MOVED 12182 "));
  }
  SUBCASE("what means the endpoint's own node is refused, and nothing goes unanswered") {
    using Words = std::initializer_list<std::string_view>;
    for (Words command :
         {Words{"DBSIZE"}, Words{"KEYS", "*"}, Words{"SCAN", "0"}, Words{"RANDOMKEY"},
          Words{"FLUSHALL"}, Words{"INFO"}, Words{"CONFIG", "GET", "maxmemory"}, Words{"COMMAND"},
          Words{"EVAL", "return 1", "0"}, Words{"EVALSHA", kSha, "0"},
          Words{"SCRIPT", "LOAD", "return 1"}, Words{"SCRIPT", "EXISTS", kSha},
          Words{"SCRIPT", "KILL"}, Words{"FUNCTION", "STATS"}, Words{"FUNCTION", "LIST"},
          Words{"CLUSTER", "MYID"}}) {
      CAPTURE(std::string(*command.begin()));
      CHECK(client->ask(command) ==
            "-CLUSTERDOWN this endpoint's node is not in the map any more\r\n");
    }
  }
  SUBCASE("the map can still be read") {
    CHECK(client->ask({"CLUSTER", "SLOTS"}).starts_with("*2\r\n"));
    CHECK(client->ask({"PING"}) == "+PONG\r\n");
  }
  SUBCASE("and when the node is back, it is served again") {
    rig.install(kThree);
    CHECK(client->ask({"GET", "c"}) == "$-1\r\n");
  }
}

TEST_CASE("a restarted server is sent nothing until the table allows that process") {
  TestLoop loop;
  WorkerRig rig(loop);
  tests::FakeNode& node = rig.node("c");
  rig.only_run_ids["c"] = node.run_id;
  rig.install(kThree);
  auto client = rig.client();
  CHECK(client->ask({"SET", "foo", "1"}) == "+OK\r\n");
  const std::string other(40, 'b');
  node.restart_as(other);
  std::string error = client->ask({"SET", "foo", "1"});
  while (contains(error, "outcome unknown")) error = client->ask({"SET", "foo", "1"});
  CHECK(error.starts_with("-CLUSTERDOWN node c "));
  CHECK(contains(error, "was restarted and has to be looked at"));
  CHECK(node.count_of("SET") == 1);
  rig.only_run_ids["c"] = other;
  rig.install(kThree);
  CHECK(client->ask({"SET", "foo", "1"}) == "+OK\r\n");
}

TEST_CASE("a connection that leads to another process than the table allows is given up") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kThree);
  auto client = rig.client();
  CHECK(client->ask({"SET", "foo", "1"}) == "+OK\r\n");
  rig.only_run_ids["c"] = std::string(40, 'b');
  rig.install(kThree);
  CHECK(client->ask({"SET", "foo", "1"}).starts_with("-CLUSTERDOWN node c "));
  CHECK(rig.node("c").count_of("SET") == 1);
}
