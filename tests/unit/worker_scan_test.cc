// SCAN, RANDOMKEY and what reads a slot, as a client meets them: over several nodes, and in order.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::request_of;
using tests::TestLoop;
using tests::WorkerRig;
using Parts = std::vector<WorkerRig::Part>;

// "b" lies in slot 3300, "bar" in 5061, "c" in 7365, "foo" in 12182, "a" in 15495.
const Parts kTwo = {{"n1", "0-8191"}, {"n2", "8192-16383"}};

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

// A node that shows one key at each call of SCAN.
void scan_one_by_one(tests::FakeNode& node) {
  node.on_command = [&node](const Command& request) -> std::optional<std::string> {
    if (request[0] == "DBSIZE") return ":" + std::to_string(node.keys.size()) + "\r\n";
    if (request[0] != "SCAN") return std::nullopt;
    std::size_t at = std::stoul(request[1]);
    if (node.keys.empty()) return "*2\r\n$1\r\n0\r\n*0\r\n";
    auto key = std::next(node.keys.begin(), static_cast<std::ptrdiff_t>(at));
    std::size_t next = at + 1 < node.keys.size() ? at + 1 : 0;
    return "*2\r\n" + bulk(std::to_string(next)) + "*1\r\n" + bulk(key->first);
  };
}

struct Page {
  std::string cursor;
  std::string keys;  // As they came.
};

Page page_of(const std::string& reply) {
  REQUIRE(reply.starts_with("*2\r\n$"));
  std::size_t begin = reply.find("\r\n", 4) + 2;
  std::size_t end = reply.find("\r\n", begin);
  return {reply.substr(begin, end - begin), reply.substr(end + 2)};
}

std::string id_of(const std::string& name) { return slots::node_id_of("rig", name); }

}  // namespace

TEST_CASE("SCAN misses no key of a slot that moves to a node that was scanned already") {
  TestLoop loop;
  WorkerRig rig(loop);
  // Scanned first is the one with the lower id.
  std::string first = id_of("n1") < id_of("n2") ? "n1" : "n2";
  std::string second = first == "n1" ? "n2" : "n1";
  Parts before = {{first, "0-8191"}, {second, "8192-16383"}};
  Parts after = {{first, "0-8191,12182"}, {second, "8192-12181,12183-16383"}};
  for (const std::string& name : {first, second}) scan_one_by_one(rig.node(name));
  rig.node(first).keys = {{"b", ""}, {"bar", ""}, {"c", ""}};
  rig.node(second).keys = {{"a", ""}, {"foo", ""}};
  rig.install(before);
  auto client = rig.client();
  std::string cursor = "0";
  std::set<std::string> seen;
  bool has_moved = false;
  int calls = 0;
  do {
    Page page = page_of(client->ask({"SCAN", cursor}));
    cursor = page.cursor;
    for (const char* key : {"a", "b", "bar", "c", "foo"}) {
      if (page.keys.find(bulk(key)) != std::string::npos) seen.insert(key);
    }
    if (++calls == 3 && !has_moved) {  // The first node is through: now "foo" goes there.
      rig.node(first).keys["foo"] = "";
      rig.install(after);
      rig.node(second).keys.erase("foo");
      has_moved = true;
    }
  } while (cursor != "0" && calls < 100);
  CHECK(cursor == "0");
  CHECK(seen == std::set<std::string>{"a", "b", "bar", "c", "foo"});
  CHECK(calls == 9);  // Three and one, then all again: four and one.
}

TEST_CASE("nothing that a client sends behind a RANDOMKEY overtakes its further questions") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install({{"n1", "0-16383"}});
  auto& node = rig.node("n1");
  int asked = 0;
  bool is_set = false;
  node.on_command = [&](const Command& request) -> std::optional<std::string> {
    if (request[0] == "SET") is_set = true;
    if (request[0] != "RANDOMKEY") return std::nullopt;
    ++asked;
    CHECK_FALSE(is_set);
    return asked < 5 ? bulk("__slotproxy:identity") : bulk("foo");
  };
  auto client = rig.client();
  client->send(request_of({"RANDOMKEY"}) + request_of({"SET", "bar", "1"}));
  CHECK(client->read() == bulk("foo"));
  CHECK(client->read() == "+OK\r\n");
  CHECK(asked == 5);
}

TEST_CASE("what reads a slot comes behind what its client has written before") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kTwo);
  auto& node = rig.node("n2");
  scan_one_by_one(node);
  auto scanning = node.on_command;
  node.on_command = [&](const Command& request) -> std::optional<std::string> {
    if (request[0] == "SET" || request[0] == "DBSIZE") return "";
    return scanning(request);
  };
  auto client = rig.client_at("n2");
  client->send(request_of({"SET", "foo", "1"}) +
               request_of({"CLUSTER", "GETKEYSINSLOT", "12182", "9"}));
  REQUIRE(rig.run_until([&] { return node.count_of("DBSIZE") == 1; }));
  // The first question follows the write on its connection; all others follow its answer.
  CHECK(node.requests[node.requests.size() - 2][0] == "SET");
  CHECK(node.accepted == 1);
  node.keys["foo"] = "1";
  node.send_unasked("+OK\r\n:1\r\n");
  CHECK(client->read() == "+OK\r\n");
  CHECK(client->read() == "*1\r\n" + bulk("foo"));
  CHECK(node.accepted == 2);
}

TEST_CASE("what reads a slot reads it at its new owner when it moves meanwhile") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.install(kTwo);
  auto& old_owner = rig.node("n2");
  auto& new_owner = rig.node("n1");
  // The old owner shows a page, and nothing behind it any more.
  old_owner.on_command = [](const Command& request) -> std::optional<std::string> {
    if (request[0] == "DBSIZE") return ":2\r\n";
    if (request[0] != "SCAN") return std::nullopt;
    return request[1] == "0" ? "*2\r\n$1\r\n7\r\n*1\r\n" + bulk("foo") : "";
  };
  scan_one_by_one(new_owner);
  for (const char* key : {"b", "foo", "{foo}2"}) new_owner.keys[key] = "1";
  auto client = rig.client_at("n1");
  std::string expected;
  SUBCASE("counted") {
    client->send(request_of({"CLUSTER", "COUNTKEYSINSLOT", "12182"}));
    expected = ":2\r\n";
  }
  SUBCASE("listed") {
    client->send(request_of({"CLUSTER", "GETKEYSINSLOT", "12182", "9"}));
    expected = "*2\r\n";
  }
  REQUIRE(rig.run_until([&] { return old_owner.count_of("SCAN") == 2; }));
  rig.install({{"n1", "0-8191,12182"}, {"n2", "8192-12181,12183-16383"}});
  old_owner.send_unasked("*2\r\n$1\r\n0\r\n*0\r\n");
  CHECK(client->read().substr(0, 4) == expected);
}
