// In which order a client reads replies and what it is told of changes.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using proxy::control::Command;
using tests::FakeNode;
using tests::kBefore;
using tests::request_of;
using tests::RigClient;
using tests::TestLoop;
using tests::WorkerRig;

const std::string kOk = "+OK\r\n";
const std::string kAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

std::string array_of(const std::vector<std::string>& items) {
  std::string bytes;
  proxy::resp::append_array_header(bytes, items.size());
  for (const std::string& item : items) proxy::resp::append_bulk(bytes, item);
  return bytes;
}

std::string invalidate(const std::vector<std::string>& keys) {
  return ">2\r\n$10\r\ninvalidate\r\n" + array_of(keys);
}

struct WithLoop {
  TestLoop loop;
};

// Keys "b" and "c" lie on node a, "a" on node b.
struct TrackingRig : WithLoop, WorkerRig {
  FakeNode& a = node("a");
  FakeNode& b = node("b");
  std::map<FakeNode*, int> feeds;  // The ids of the connections that ask for all changes.
  bool answers_get = true;

  TrackingRig() : WorkerRig(loop) {
    for (FakeNode* node : {&a, &b}) {
      node->on_command = [this, node](const Command& command) -> std::optional<std::string> {
        if (command.front() == "CLIENT" && command[1] == "TRACKING") {
          if (command.back() == "BCAST" && command.size() == 4) feeds[node] = node->asking;
          return kOk;
        }
        if (command.front() == "CLIENT" && command[1] == "NO-EVICT") return kOk;
        // Of a client, not of a greeting.
        if (command.front() == "GET" && command[1].size() == 1 && !answers_get) return "";
        return std::nullopt;
      };
    }
    install(kBefore);
  }
  std::unique_ptr<RigClient> tracking(std::initializer_list<std::string_view> more = {}) {
    auto made = client();
    made->ask({"HELLO", "3"});
    std::vector<std::string> words = {"CLIENT", "TRACKING", "ON"};
    for (std::string_view word : more) words.emplace_back(word);
    made->send(array_of(words));
    CHECK(made->read() == kOk);
    return made;
  }
  void change(FakeNode& node, const std::vector<std::string>& keys) {
    node.send_to(feeds.at(&node), invalidate(keys));
  }
  // Once every node has been given time to say more.
  bool is_unread(RigClient& client) {
    for (int i = 0; i < 20; ++i) run_until([] { return true; });
    return !client.has_reply();
  }
};

}  // namespace

TEST_CASE("CLIENT TRACKING is confirmed once every node tells of its changes") {
  TrackingRig rig;
  auto client = rig.client();
  CHECK(client->ask({"CLIENT", "TRACKING", "ON"}) == kOk);
  CHECK(rig.feeds.size() == 2);
  auto other = rig.client();
  CHECK(other->ask({"CLIENT", "TRACKING", "ON"}) == kOk);
  CHECK(rig.a.count_of("ROLE") == 1);  // The feed serves both; requests go where they always go.
}

TEST_CASE("a change that overtakes the reply of a read is told behind it") {
  TrackingRig rig;
  auto client = rig.tracking();
  rig.answers_get = false;
  client->send(request_of({"GET", "b"}) + request_of({"GET", "c"}));
  REQUIRE(rig.run_until([&] { return rig.a.requests.back() == Command{"GET", "c"}; }));
  const int connection = rig.a.asking;
  rig.change(rig.a, {"b"});
  CHECK(rig.is_unread(*client));
  rig.a.send_to(connection, "$3\r\nold\r\n");
  CHECK(client->read() == "$3\r\nold\r\n");
  CHECK(client->read() == invalidate({"b"}));
  CHECK(rig.is_unread(*client));
  rig.a.send_to(connection, "$1\r\nc\r\n");
  CHECK(client->read() == "$1\r\nc\r\n");
  // It was told, and has to read again to hear more.
  rig.change(rig.a, {"b"});
  CHECK(rig.is_unread(*client));
}

TEST_CASE("a change of a key that nothing under way names is told at once") {
  TrackingRig rig;
  auto client = rig.tracking();
  client->ask({"GET", "b"});
  rig.answers_get = false;
  client->send(request_of({"GET", "c"}));
  REQUIRE(rig.run_until([&] { return rig.a.requests.back() == Command{"GET", "c"}; }));
  rig.change(rig.a, {"b"});
  CHECK(client->read() == invalidate({"b"}));
}

TEST_CASE("a reply that waits for an earlier one is told of behind it") {
  TrackingRig rig;
  auto client = rig.tracking();
  rig.answers_get = false;
  client->send(request_of({"GET", "b"}) + request_of({"GET", "a"}));
  REQUIRE(rig.run_until([&] { return rig.a.requests.back() == Command{"GET", "b"}; }));
  const int first = rig.a.asking;
  REQUIRE(rig.run_until([&] { return rig.b.requests.back() == Command{"GET", "a"}; }));
  rig.b.send_to(rig.b.asking, "$3\r\nold\r\n");
  rig.change(rig.b, {"a"});
  CHECK(rig.is_unread(*client));
  rig.a.send_to(first, "$1\r\nb\r\n");
  CHECK(client->read() == "$1\r\nb\r\n");
  CHECK(client->read() == "$3\r\nold\r\n");
  CHECK(client->read() == invalidate({"a"}));
}

TEST_CASE("whoever tracks is told to drop everything when a feed is lost, and once") {
  TrackingRig rig;
  auto client = rig.tracking();
  client->ask({"GET", "b"});
  rig.a.drop_connections();
  CHECK(client->read() == kAll);
  CHECK(rig.is_unread(*client));
  REQUIRE(rig.run_until([&] { return rig.a.count_of("CLIENT") >= 6; }));
  CHECK(rig.is_unread(*client));
}

TEST_CASE("what is read while changes go unheard is taken back at once") {
  TrackingRig rig;
  auto client = rig.tracking();
  auto everything = rig.tracking({"BCAST", "PREFIX", "b"});
  // The node takes no feed any more; requests are answered.
  rig.a.on_command = [](const Command& command) -> std::optional<std::string> {
    if (command.front() == "CLIENT" && command[1] == "TRACKING") return "-ERR not now\r\n";
    if (command.front() == "CLIENT") return kOk;
    return std::nullopt;
  };
  client->ask({"GET", "a"});
  everything->ask({"GET", "a"});
  rig.a.drop_connections();
  CHECK(client->read() == kAll);
  CHECK(everything->read() == kAll);
  // Until the worker has connected again.
  auto plain = rig.client();
  REQUIRE(rig.run_until([&] { return !plain->ask({"GET", "b"}).starts_with('-'); }));
  auto reads = [&](RigClient& reader) {
    CHECK(reader.ask({"GET", "b"}) == "$-1\r\n");
    CHECK(reader.read() == invalidate({"b"}));
  };
  reads(*client);
  reads(*everything);
  CHECK(everything->ask({"GET", "c"}) == "$-1\r\n");
  CHECK(rig.is_unread(*everything));
}

TEST_CASE("each node's word of a flush is passed on once") {
  TrackingRig rig;
  auto client = rig.tracking();
  client->ask({"GET", "b"});
  rig.a.send_to(rig.feeds.at(&rig.a), kAll);
  CHECK(client->read() == kAll);
  rig.b.send_to(rig.feeds.at(&rig.b), kAll);
  CHECK(rig.is_unread(*client));
  client->ask({"GET", "a"});
  rig.b.send_to(rig.feeds.at(&rig.b), kAll);
  CHECK(client->read() == kAll);
}

TEST_CASE("keys that change together are told one by one, and broadcast together") {
  TrackingRig rig;
  auto reader = rig.tracking();
  auto everything = rig.tracking({"BCAST"});
  auto prefixed = rig.tracking({"BCAST", "PREFIX", "c", "PREFIX", "x"});
  reader->ask({"GET", "b"});
  reader->ask({"GET", "c"});
  rig.change(rig.a, {"__slotproxy:x", "b", "c", "d"});
  CHECK(reader->read() == invalidate({"c"}));
  CHECK(reader->read() == invalidate({"b"}));
  CHECK(everything->read() == invalidate({"b", "c", "d"}));
  CHECK(prefixed->read() == invalidate({"c"}));
  CHECK(rig.is_unread(*prefixed));
}
