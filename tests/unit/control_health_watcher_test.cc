#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "proxy/control/health_watcher.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"
#include "tests/support/watched_nodes.h"

using conf::Milliseconds;
using proxy::NodeState;
using proxy::control::Command;
using proxy::control::HealthCallbacks;
using proxy::control::HealthOptions;
using proxy::control::HealthWatcher;
using proxy::control::NodeStatus;
using proxy::control::WatchedNode;
using tests::as;
using tests::FakeNode;
using tests::kKey;
using tests::kRunA;
using tests::kRunB;
using tests::quick;
using tests::TestLoop;
using tests::Watch;

TEST_CASE("a good node comes up with its identity, its facts and its commands") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  CHECK(watch.state("a") == NodeState::Unverified);
  CHECK(watch.changes.empty());
  REQUIRE(watch.becomes("a", NodeState::Up));
  REQUIRE(loop.run_until([&] { return watch.first_rounds == 1; }));

  const NodeStatus status = watch.watcher->status("a");
  CHECK(status.reason.empty());
  CHECK(status.version == "7.0.15");
  CHECK(status.run_id == kRunA);
  CHECK(status.incarnation == 1);
  CHECK(status.facts.used_memory == 1000);
  REQUIRE(watch.identities.size() == 1);
  CHECK(watch.identities[0] == "a=" + node.keys[kKey]);
  CHECK(node.keys[kKey].starts_with("shop/a/"));
  CHECK(node.keys[kKey].size() == std::string("shop/a/").size() + 16);
  CHECK(watch.warnings.empty());
  REQUIRE(watch.changes.size() == 1);
  CHECK(watch.changes[0].status.state == NodeState::Up);
  REQUIRE(watch.watcher->command_reply("a") != nullptr);
  CHECK(*watch.watcher->command_reply("a") == "*1\r\n*2\r\n$3\r\nget\r\n:2\r\n");
  CHECK(node.requests[0] == Command{"CLIENT", "SETNAME", "slotproxy:shop:5f3a:7"});
}

TEST_CASE("a node is asked for a sign of life again and again, on one connection") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(loop.run_until([&] { return node.count_of("PING") >= 4; }));
  CHECK(node.accepted == 1);
  CHECK(watch.state("a") == NodeState::Up);
}

TEST_CASE("without nodes the first round is over at once, though not inside the call") {
  TestLoop loop;
  Watch watch(loop);
  watch.watcher->set_nodes({});
  CHECK(watch.first_rounds == 0);
  CHECK(loop.run_until([&] { return watch.first_rounds == 1; }));
}

TEST_CASE(
    "the first round is over when every node was found up, refused, failing or loading, and told "
    "once") {
  TestLoop loop;
  FakeNode good(loop.get());
  FakeNode replica(loop.get());
  replica.role = "slave";
  FakeNode loading(loop.get());
  loading.loading = true;
  loading.run_id = kRunB;
  FakeNode dead(loop.get());
  dead.stop();
  FakeNode silent(loop.get());
  silent.silent = true;
  Watch watch(loop);
  watch.watcher->set_nodes({as("good", good), as("replica", replica), as("loading", loading),
                            as("dead", dead), as("silent", silent)});
  REQUIRE(loop.run_until([&] { return watch.first_rounds == 1; }));
  CHECK(watch.state("good") == NodeState::Up);
  CHECK(watch.state("replica") == NodeState::Refused);
  CHECK(watch.state("loading") == NodeState::Unverified);
  CHECK(watch.watcher->status("loading").reason == "is loading its data set");
  CHECK(watch.state("dead") == NodeState::Down);
  CHECK(watch.watcher->status("dead").reason == "connection refused");
  CHECK(watch.state("silent") == NodeState::Down);
  CHECK(watch.watcher->status("silent").reason == "does not answer for 150 ms");
  dead.start();
  REQUIRE(watch.becomes("dead", NodeState::Refused, "same server as node good"));
  CHECK(watch.first_rounds == 1);
}

TEST_CASE("a node that falls silent is down, and up again when it answers") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  auto heard_at = std::chrono::steady_clock::now();
  node.on_command = [&heard_at](const Command&) {
    heard_at = std::chrono::steady_clock::now();
    return std::optional<std::string>();
  };
  REQUIRE(watch.becomes("a", NodeState::Up));
  node.silent = true;
  const auto silent_at = std::chrono::steady_clock::now();
  REQUIRE(watch.becomes("a", NodeState::Down, "does not answer for 150 ms"));
  CHECK(std::chrono::steady_clock::now() - heard_at >= Milliseconds{100});
  CHECK(watch.watcher->status("a").since >= silent_at);
  node.silent = false;
  REQUIRE(watch.becomes("a", NodeState::Up));
  CHECK(watch.watcher->status("a").incarnation == 1);
}

TEST_CASE("a node that is up and busy with a script is told as such, and when that is over") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  node.busy = true;
  REQUIRE(loop.run_until([&] { return watch.changes.back().status.is_busy; }));
  CHECK(watch.changes.back().status.state == NodeState::Up);
  node.busy = false;
  REQUIRE(loop.run_until([&] { return !watch.changes.back().status.is_busy; }));
  CHECK(watch.changes.back().status.state == NodeState::Up);
}

TEST_CASE("LOADING and BUSY are answers: a node that was up stays up") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  SUBCASE("busy") { node.busy = true; }
  SUBCASE("loading") { node.loading = true; }
  const std::size_t before = node.count_of("PING");
  // More signs of life than the time of silence would allow to be missed.
  REQUIRE(loop.run_until([&] { return node.count_of("PING") >= before + 5; }));
  CHECK(watch.state("a") == NodeState::Up);
  CHECK(node.accepted == 1);
  CHECK(watch.changes.size() == (node.busy ? 2U : 1U));  // That it is busy is told.
}

TEST_CASE(
    "a node that is found loading or busy is used as soon as it can be verified, on the same "
    "connection") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  SUBCASE("loading") { node.loading = true; }
  SUBCASE("busy") { node.busy = true; }
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Unverified,
                        node.loading ? "is loading its data set" : "is busy"));
  REQUIRE(loop.run_until([&] { return node.requests.size() >= 5; }));
  CHECK(watch.state("a") == NodeState::Unverified);
  node.loading = node.busy = false;
  REQUIRE(watch.becomes("a", NodeState::Up));
  CHECK(node.accepted == 1);
}

TEST_CASE(
    "a node that reloads its data set keeps its state over a lost connection, another process does "
    "not") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  node.loading = true;
  SUBCASE("the same run_id") {
    node.drop_connections();
    const std::size_t infos = node.count_of("INFO");
    REQUIRE(loop.run_until([&] { return node.count_of("INFO") >= infos + 4; }));
    CHECK(watch.state("a") == NodeState::Up);
    CHECK(watch.changes.size() == 1);
  }
  SUBCASE("another run_id") {
    node.restart_as(kRunB);
    REQUIRE(watch.becomes("a", NodeState::Down, "is loading its data set"));
    node.loading = false;
    REQUIRE(watch.becomes("a", NodeState::Up));
    CHECK(watch.watcher->status("a").incarnation == 2);
  }
}

TEST_CASE("a cut connection to a server that lives on is no outage") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(loop.run_until([&] { return node.count_of("PING") >= 1; }));
  node.drop_connections();
  REQUIRE(loop.run_until([&] { return node.accepted == 2 && node.count_of("GET") == 2; }));
  REQUIRE(loop.run_until([&] { return node.requests.back() == Command{"PING"}; }));
  CHECK(watch.changes.size() == 1);
  CHECK(watch.state("a") == NodeState::Up);
}

TEST_CASE("a server that hangs up on every connection is not hammered") {
  TestLoop loop;
  FakeNode node(loop.get());
  HealthOptions options = quick();
  SUBCASE("at its first question") {}
  SUBCASE("once it is up") { options.established = Milliseconds{1000}; }
  const bool when_up = options.established.count() != 0;
  Watch watch(loop, options);
  node.on_command = [&](const Command& command) -> std::optional<std::string> {
    if (when_up && command[0] != "PING") return std::nullopt;
    node.drop_connections();
    return std::optional(std::string());
  };
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(loop.run_until([&] { return node.accepted == 1; }));
  const auto start = std::chrono::steady_clock::now();
  // Between five attempts lie at least the halves of 50, 100, 200 and 400 ms.
  REQUIRE(loop.run_until([&] { return node.accepted >= 5; }));
  CHECK(std::chrono::steady_clock::now() - start >= Milliseconds{375});
}

TEST_CASE("a restarted node is used again, as a new incarnation") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  node.stop();
  REQUIRE(watch.becomes("a", NodeState::Down, "connection refused"));
  node.run_id = kRunB;
  node.start();
  REQUIRE(watch.becomes("a", NodeState::Up));
  CHECK(watch.watcher->status("a").incarnation == 2);
  CHECK(watch.watcher->status("a").run_id == kRunB);
  REQUIRE(loop.run_until([&] { return watch.changes.back().status.state == NodeState::Up; }));
  CHECK(watch.warnings.empty());
}

TEST_CASE("a restart that is over before anybody noticed is a change of incarnation alone") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  REQUIRE(loop.run_until([&] { return watch.changes.size() == 1; }));
  node.restart_as(kRunB);
  REQUIRE(loop.run_until([&] { return watch.changes.size() == 2; }));
  CHECK(watch.changes[1].status.state == NodeState::Up);
  CHECK(watch.changes[1].status.incarnation == 2);
}

TEST_CASE("a node whose COMMAND breaks the connection comes up without it") {
  TestLoop loop;
  FakeNode node(loop.get());
  node.on_command = [&](const Command& command) -> std::optional<std::string> {
    if (command[0] != "COMMAND") return std::nullopt;
    return "%1\r\n";  // Not RESP2.
  };
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  CHECK(watch.watcher->command_reply("a") == nullptr);
}

TEST_CASE("equal answers to COMMAND are kept once") {
  TestLoop loop;
  FakeNode a(loop.get());
  FakeNode b(loop.get());
  b.run_id = kRunB;
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", a), as("b", b)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  REQUIRE(watch.becomes("b", NodeState::Up));
  CHECK(watch.watcher->command_reply("a") == watch.watcher->command_reply("b"));
}

TEST_CASE("a removed node is forgotten and its connection closed") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  watch.watcher->set_nodes({});
  CHECK(watch.watcher->status("a").reason == "unknown node");
  CHECK(loop.run_until([&] { return node.open_connections() == 0; }));
}

TEST_CASE("a callback may change the nodes and end the watcher") {
  TestLoop loop;
  FakeNode node(loop.get());
  std::unique_ptr<HealthWatcher> watcher;
  HealthCallbacks callbacks;
  bool called_after = false;
  callbacks.on_change = [&](const std::string&, const NodeStatus&) {
    watcher->set_nodes({});
    watcher.reset();
  };
  callbacks.first_round_done = [&] { called_after = true; };
  watcher = std::make_unique<HealthWatcher>(loop.get(), quick(), callbacks);
  watcher->set_nodes({as("a", node)});
  REQUIRE(loop.run_until([&] { return watcher == nullptr; }));
  CHECK_FALSE(called_after);
}
