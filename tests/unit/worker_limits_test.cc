// What each of a client's limits does to it, and leaves to others.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::FakeNode;
using tests::request_of;
using tests::TestLoop;
using tests::WorkerRig;

// "bar" lies in slot 5061, "b" in 3300.
const std::vector<WorkerRig::Part> kOne = {{"n1", "0-16383"}};
const std::string kNull = "$-1\r\n";

// The node takes GETs and SETs and answers nothing: the test does.
void hold(FakeNode& node) {
  node.on_command = [](const Command& request) {
    const bool is_held = request[0] == "GET" ? !request[1].starts_with("__") : request[0] == "SET";
    return is_held ? std::optional<std::string>("") : std::nullopt;
  };
}

std::string times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::size_t held_at(const FakeNode& node) {
  std::size_t count = 0;
  for (const Command& request : node.requests) {
    if (request.size() > 1 && request[1].starts_with("bar")) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a client has no more requests in flight than its limit, and goes on at half of it") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.inflight_requests = 4;
  rig.install(kOne);
  FakeNode& node = rig.node("n1");
  hold(node);
  auto client = rig.client();
  client->send(times(10, request_of({"GET", "bar"})));
  REQUIRE(rig.run_until([&] { return held_at(node) == 4; }));
  // Whatever were on its way from the first would have come before what the second one asks.
  auto other = rig.client();
  other->send(request_of({"GET", "b"}));
  REQUIRE(rig.run_until([&] { return node.requests.back() == Command{"GET", "b"}; }));
  CHECK(held_at(node) == 4);
  node.send_unasked(kNull);
  CHECK(client->read() == kNull);
  node.send_unasked(kNull);
  CHECK(client->read() == kNull);
  REQUIRE(rig.run_until([&] { return held_at(node) == 6; }));
  node.send_unasked(times(3, kNull));
  for (int i = 0; i < 2; ++i) CHECK(client->read() == kNull);
  CHECK(other->read() == kNull);
}

TEST_CASE("a client has no more bytes in flight than its limit, and one request at least") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.inflight_bytes = 1000;
  rig.install(kOne);
  FakeNode& node = rig.node("n1");
  hold(node);
  std::size_t fit = 0;
  std::string request;
  SUBCASE("several fit") {
    request = request_of({"SET", "bar", std::string(400, 'x')});
    fit = 3;  // The third goes over it.
  }
  SUBCASE("a single one is larger") {
    request = request_of({"SET", "bar", std::string(5000, 'x')});
    fit = 1;
  }
  auto client = rig.client();
  client->send(times(10, request));
  REQUIRE(rig.run_until([&] { return held_at(node) == fit; }));
  auto other = rig.client();
  other->send(request_of({"GET", "b"}));
  REQUIRE(rig.run_until([&] { return node.requests.back() == Command{"GET", "b"}; }));
  CHECK(held_at(node) == fit);
  node.send_unasked(times(static_cast<int>(fit), "+OK\r\n") + kNull);
  REQUIRE(rig.run_until([&] { return held_at(node) == 2 * fit; }));
  CHECK(other->read() == kNull);
}

TEST_CASE("a reply above its limit takes its connection for itself, and others get a new one") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.limits.stream_reply = 50'000;
  rig.install(kOne);
  FakeNode& node = rig.node("n1");
  const std::string part(60'000, 'x');
  node.on_command = [&](const Command& request) -> std::optional<std::string> {
    if (request[0] == "STRLEN") return ":0\r\n";
    if (request[0] != "GETDEL") return std::nullopt;
    return "$120000\r\n" + part;
  };
  auto client = rig.client();
  client->send(request_of({"GETDEL", "bar"}));
  REQUIRE(rig.run_until([&] { return client->received() > part.size(); }));
  CHECK(node.accepted == 1);
  CHECK(rig.client()->ask({"STRLEN", "b"}) == ":0\r\n");
  CHECK(node.accepted == 2);
  node.send_unasked(part + "\r\n");
  CHECK(client->read().size() == 9 + 120'000 + 2);
}
