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
using tests::TestLoop;
using tests::WorkerRig;

std::string array_of(std::initializer_list<std::string_view> items) {
  std::string bytes;
  proxy::resp::append_request(bytes, items);
  return bytes;
}

// "subscribe", its topic and a count.
std::string confirmation(std::string_view word, std::string_view name, int count) {
  std::string bytes = "*3\r\n";
  proxy::resp::append_bulk(bytes, word);
  proxy::resp::append_bulk(bytes, name);
  return bytes + ":" + std::to_string(count) + "\r\n";
}

struct WithLoop {
  TestLoop loop;
};

struct PubSubRig : WithLoop, WorkerRig {
  // A node confirms what it is asked to subscribe, and answers PING, unless the test does.
  struct Manner {
    bool confirms = true;
    bool pongs = true;
  };

  FakeNode& a = node("a");
  FakeNode& b = node("b");
  Manner manner_of_a;
  Manner manner_of_b;

  explicit PubSubRig(unsigned workers = 1) : WorkerRig(loop, workers) {
    serve(a, manner_of_a);
    serve(b, manner_of_b);
    install(kBefore);
  }
  static void serve(FakeNode& node, const Manner& manner) {
    node.on_command = [&manner](const Command& command) -> std::optional<std::string> {
      const std::string& word = command.front();
      if (word == "PING" && !manner.pongs) return "";
      if (!word.ends_with("subscribe")) return std::nullopt;
      return manner.confirms ? confirmation(word, command[1], 1) : "";
    };
  }
  void begin_fence() {
    proxy::Fence next{1, {}, "a", "b"};
    next.slots.add(3300);
    fence = std::make_shared<proxy::Fence>(std::move(next));
    install(kBefore);
  }
  void commit() {
    fence = nullptr;
    install(kMoved);
  }
  bool has_asked(FakeNode& node, const std::string& word, std::size_t times = 1) {
    return run_until([&] { return node.count_of(word) == times; });
  }
  // Once every node has been given time to say more.
  bool is_unread(tests::RigClient& client) {
    for (int i = 0; i < 20; ++i) run_until([] { return true; });
    return !client.has_reply();
  }
};

}  // namespace

TEST_CASE("SUBSCRIBE is confirmed once all nodes have it, and what comes behind it waits") {
  PubSubRig rig;
  rig.manner_of_b.confirms = false;
  auto client = rig.client();
  client->send(request_of({"SUBSCRIBE", "ch"}) + request_of({"PING"}));
  REQUIRE(rig.has_asked(rig.a, "subscribe"));
  REQUIRE(rig.has_asked(rig.b, "subscribe"));
  CHECK(rig.is_unread(*client));
  rig.a.send_unasked(array_of({"message", "ch", "early"}));
  CHECK(rig.is_unread(*client));
  rig.b.send_unasked(confirmation("subscribe", "ch", 1));
  CHECK(client->read() == confirmation("subscribe", "ch", 1));
  // Each node is heard on its own: a's words may come late.
  const std::string early = array_of({"message", "ch", "early"});
  const std::string pong = array_of({"pong", ""});
  const std::string first = client->read();
  CHECK((first == early || first == pong));
  CHECK(client->read() == (first == early ? pong : early));
}

TEST_CASE("clients share a node's subscription, which ends with the last of them") {
  PubSubRig rig;
  auto one = rig.client();
  auto other = rig.client_at("b");
  CHECK(one->ask({"SUBSCRIBE", "ch"}) == confirmation("subscribe", "ch", 1));
  CHECK(other->ask({"SUBSCRIBE", "ch"}) == confirmation("subscribe", "ch", 1));
  CHECK(rig.a.count_of("subscribe") == 1);
  rig.a.send_unasked(array_of({"message", "ch", "m"}));
  CHECK(one->read() == array_of({"message", "ch", "m"}));
  CHECK(other->read() == array_of({"message", "ch", "m"}));
  one->close();
  other->close();
  CHECK(rig.has_asked(rig.a, "unsubscribe"));
  CHECK(rig.has_asked(rig.b, "unsubscribe"));
}

TEST_CASE("a fence is acknowledged once its sharded channels are heard at the target") {
  PubSubRig rig;
  auto client = rig.client();
  CHECK(client->ask({"SSUBSCRIBE", "b"}) == confirmation("ssubscribe", "b", 1));
  CHECK(rig.b.count_of("ssubscribe") == 0);
  rig.manner_of_b.confirms = false;
  rig.begin_fence();
  REQUIRE(rig.has_asked(rig.b, "ssubscribe"));
  CHECK(rig.is_unread(*client));
  CHECK(rig.hub_acked() == 0);
  rig.b.send_unasked(confirmation("ssubscribe", "b", 1));
  CHECK(rig.run_until([&] { return rig.hub_acked() == 1; }));
}

TEST_CASE("what the target of a move says is told after what the source has said") {
  PubSubRig rig;
  auto client = rig.client();
  auto at_endpoint = rig.client_at("a");
  CHECK(client->ask({"SSUBSCRIBE", "b"}) == confirmation("ssubscribe", "b", 1));
  CHECK(at_endpoint->ask({"SSUBSCRIBE", "b"}) == confirmation("ssubscribe", "b", 1));
  rig.begin_fence();
  REQUIRE(rig.run_until([&] { return rig.hub_acked() == 1; }));
  const std::size_t pings = rig.a.count_of("PING");
  rig.manner_of_a.pongs = false;
  rig.commit();
  REQUIRE(rig.has_asked(rig.a, "PING", pings + 1));
  rig.b.send_unasked(array_of({"smessage", "b", "second"}));
  CHECK(rig.is_unread(*client));
  rig.a.send_unasked(array_of({"smessage", "b", "first"}));
  CHECK(client->read() == array_of({"smessage", "b", "first"}));
  CHECK(rig.is_unread(*client));
  rig.a.send_unasked("+PONG\r\n");
  CHECK(client->read() == array_of({"smessage", "b", "second"}));
  // The endpoint's client has lost it in between, as with a cluster node.
  CHECK(at_endpoint->read() == array_of({"smessage", "b", "first"}));
  CHECK(at_endpoint->read() == confirmation("sunsubscribe", "b", 0));
  CHECK(rig.is_unread(*at_endpoint));
  CHECK(rig.has_asked(rig.a, "sunsubscribe"));
  CHECK(rig.b.count_of("sunsubscribe") == 0);
}

TEST_CASE("a fence that is lifted leaves sharded channels where they were") {
  PubSubRig rig;
  auto client = rig.client();
  CHECK(client->ask({"SSUBSCRIBE", "b"}) == confirmation("ssubscribe", "b", 1));
  rig.begin_fence();
  REQUIRE(rig.run_until([&] { return rig.hub_acked() == 1; }));
  rig.fence = nullptr;
  rig.install(kBefore);
  CHECK(rig.has_asked(rig.b, "sunsubscribe"));
  CHECK(rig.a.count_of("sunsubscribe") == 0);
  rig.a.send_unasked(array_of({"smessage", "b", "m"}));
  CHECK(client->read() == array_of({"smessage", "b", "m"}));
}

TEST_CASE("PUBLISH counts the subscribers of all workers") {
  PubSubRig rig(2);
  rig.a.on_command = [&rig](const Command& command) -> std::optional<std::string> {
    if (command.front() == "PUBLISH") return ":1\r\n";
    if (!command.front().ends_with("subscribe")) return std::nullopt;
    return confirmation(command.front(), command[1], 1);
  };
  auto one = rig.client();
  auto other = rig.client();
  CHECK(one->ask({"SUBSCRIBE", "ch"}) == confirmation("subscribe", "ch", 1));
  CHECK(other->ask({"PSUBSCRIBE", "c*"}) == confirmation("psubscribe", "c*", 1));
  auto publisher = rig.client();
  CHECK(publisher->ask({"PUBLISH", "ch", "m"}) == ":2\r\n");
  CHECK(publisher->ask({"PUBLISH", "other", "m"}) == ":0\r\n");
  CHECK(rig.b.count_of("PUBLISH") == 0);
}

TEST_CASE("a subscriber that does not read is closed at limits.unread_messages") {
  PubSubRig rig;
  rig.limits.unread_messages = 1'000'000;
  rig.install(kBefore);
  auto slow = rig.client();
  CHECK(slow->ask({"SUBSCRIBE", "ch"}) == confirmation("subscribe", "ch", 1));
  const std::string payload(100'000, 'x');
  CHECK(rig.run_until([&] {
    rig.a.send_unasked(array_of({"message", "ch", payload}));
    return rig.stats().slow_subscribers.get() == 1;
  }));
}

TEST_CASE("a node that is lost is subscribed to again") {
  PubSubRig rig;
  auto client = rig.client();
  CHECK(client->ask({"SUBSCRIBE", "ch"}) == confirmation("subscribe", "ch", 1));
  rig.a.drop_connections();
  CHECK(rig.has_asked(rig.a, "subscribe", 2));
  rig.a.send_unasked(array_of({"message", "ch", "m"}));
  CHECK(client->read() == array_of({"message", "ch", "m"}));
}
