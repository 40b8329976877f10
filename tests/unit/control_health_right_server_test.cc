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

namespace {

bool is_set(const Command& request) {
  return request.size() == 4 && request[0] == "SET" && request[1] == kKey;
}

}  // namespace

TEST_CASE("a server that came back empty gets the recorded identity again, with a warning") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  const std::string recorded = "shop/a/0123456789abcdef";
  SUBCASE("at a start of the proxy") { watch.watcher->set_nodes({as("a", node, recorded)}); }
  SUBCASE("while the proxy runs") {
    node.keys[kKey] = recorded;
    watch.watcher->set_nodes({as("a", node, recorded)});
    REQUIRE(watch.becomes("a", NodeState::Up));
    CHECK(watch.warnings.empty());
    node.keys.clear();
    node.restart_as(kRunB);
  }
  REQUIRE(loop.run_until([&] { return !watch.warnings.empty(); }));
  CHECK(watch.warnings[0].starts_with("a had lost its identity"));
  CHECK(watch.state("a") == NodeState::Up);
  CHECK(node.keys[kKey] == recorded);
  CHECK(watch.identities.empty());
}

TEST_CASE("a FLUSHALL by a client takes the identity only for seconds, without a word") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  const std::string given = node.keys[kKey];
  node.keys.clear();
  REQUIRE(loop.run_until([&] { return node.keys.contains(kKey); }));
  CHECK(node.keys[kKey] == given);
  CHECK(watch.warnings.empty());
}

TEST_CASE("a wrong server is refused with the reason, and used once it is put right") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  SUBCASE("of another cluster") {
    node.keys[kKey] = "bank/a/0123456789abcdef";
    watch.watcher->set_nodes({as("a", node)});
    REQUIRE(watch.becomes("a", NodeState::Refused, "cluster \"bank\""));
    node.keys.clear();
  }
  SUBCASE("another one than recorded") {
    node.keys[kKey] = "shop/a/ffffffffffffffff";
    watch.watcher->set_nodes({as("a", node, "shop/a/0123456789abcdef")});
    REQUIRE(watch.becomes("a", NodeState::Refused, "is another server"));
    CHECK(std::ranges::none_of(node.requests, is_set));
    node.keys[kKey] = "shop/a/0123456789abcdef";
  }
  SUBCASE("a replica") {
    node.role = "slave";
    watch.watcher->set_nodes({as("a", node)});
    REQUIRE(watch.becomes("a", NodeState::Refused, "role:slave"));
    CHECK(std::ranges::none_of(node.requests, is_set));
    node.role = "master";
  }
  SUBCASE("in cluster mode") {
    node.cluster_enabled = true;
    watch.watcher->set_nodes({as("a", node)});
    REQUIRE(watch.becomes("a", NodeState::Refused, "cluster_enabled:1"));
    node.cluster_enabled = false;
  }
  SUBCASE("too old") {
    node.version = "6.0.16";
    watch.watcher->set_nodes({as("a", node)});
    REQUIRE(watch.becomes("a", NodeState::Refused, "6.0.16"));
    node.version = "6.2.14";
  }
  SUBCASE("behind a password that is not the configured one") {
    node.password = "secret";
    watch.watcher->set_nodes({as("a", node)});
    REQUIRE(watch.becomes("a", NodeState::Refused, "wants a password"));
    node.password.clear();
  }
  REQUIRE(watch.becomes("a", NodeState::Up));
}

TEST_CASE("a primary that is made a replica while it is watched is refused") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  node.role = "slave";
  REQUIRE(watch.becomes("a", NodeState::Refused, "role:slave"));
}

TEST_CASE("one server under two names serves under the first one alone") {
  TestLoop loop;
  FakeNode node(loop.get());
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  watch.watcher->set_nodes({as("a", node), as("b", node)});
  REQUIRE(watch.becomes("b", NodeState::Refused, "same server as node a"));
  CHECK(watch.state("a") == NodeState::Up);
  SUBCASE("a removed node gives its server free, though not its identity") {
    watch.watcher->set_nodes({as("b", node)});
    CHECK(watch.becomes("b", NodeState::Refused, "server of node a"));
  }
}

TEST_CASE("passwords and addresses change while it runs") {
  TestLoop loop;
  FakeNode first(loop.get());
  FakeNode second(loop.get());
  second.run_id = kRunB;
  first.password = "old";
  Watch watch(loop);
  WatchedNode node = as("a", first);
  node.password = "old";
  watch.watcher->set_nodes({node});
  REQUIRE(watch.becomes("a", NodeState::Up));
  REQUIRE(loop.run_until([&] { return watch.identities.size() == 1; }));
  const int accepted = first.accepted;

  SUBCASE("nothing changed: the connection stays") {
    watch.watcher->set_nodes({node});
    REQUIRE(loop.run_until([&] { return first.count_of("PING") >= 3; }));
    CHECK(first.accepted == accepted);
  }
  SUBCASE("a new password: connected anew, without an outage") {
    first.password = "new";
    node.password = "new";
    watch.watcher->set_nodes({node});
    REQUIRE(loop.run_until(
        [&] { return first.count_of("GET") == 2 && first.requests.back() == Command{"PING"}; }));
    CHECK(watch.changes.size() == 1);
  }
  SUBCASE("another server at the new address is refused") {
    second.keys[kKey] = "shop/a/ffffffffffffffff";
    second.password = "old";
    node.address = second.address();
    watch.watcher->set_nodes({node});
    CHECK(watch.becomes("a", NodeState::Refused, "is another server"));
  }
  SUBCASE("a wrong password") {
    node.password = "wrong";
    watch.watcher->set_nodes({node});
    CHECK(watch.becomes("a", NodeState::Refused, "node's password was not accepted"));
  }
  SUBCASE("a new address is unverified until the server there has shown the identity") {
    second.keys[kKey] = first.keys[kKey];
    second.password = "old";
    node.address = second.address();
    watch.watcher->set_nodes({node});
    CHECK(watch.state("a") == NodeState::Unverified);
    REQUIRE(watch.becomes("a", NodeState::Up));
    CHECK(watch.watcher->status("a").incarnation == 2);
    CHECK(watch.warnings.empty());
  }
}

TEST_CASE("connections of this proxy's previous run are ended once per node, before it is up") {
  TestLoop loop;
  FakeNode node(loop.get());
  node.client_list =
      "id=3 addr=x name=slotproxy:shop:5f3a:6 age=1\nid=4 addr=x name=slotproxy:shop:5f3a:7 "
      "age=1\n";
  Watch watch(loop);
  watch.watcher->set_nodes({as("a", node)});
  REQUIRE(watch.becomes("a", NodeState::Up));
  const Command kill = {"CLIENT", "KILL", "ID", "3"};
  CHECK(std::ranges::count(node.requests, kill) == 1);
  REQUIRE(loop.run_until([&] { return watch.warnings.size() == 1; }));
  CHECK(watch.warnings[0].ends_with("were ended: 1"));
  node.restart_as(kRunB);
  REQUIRE(loop.run_until([&] { return watch.watcher->status("a").incarnation == 2; }));
  CHECK(std::ranges::count(node.requests, kill) == 1);
}
