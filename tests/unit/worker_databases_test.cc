// Over which connections requests of several databases go, and when.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/worker_rig.h"

namespace {

using tests::Command;
using tests::FakeNode;
using tests::kBefore;
using tests::request_of;
using tests::TestLoop;
using tests::WorkerRig;

const std::string kOk = "+OK\r\n";

// What a node got, with the database in which its connection was.
struct Seen {
  std::map<int, std::string> databases;  // By connection.
  std::vector<std::string> requests;     // "3 GET k"; SELECT itself not.
  bool holds_back = false;               // Answers no GET of database 0.
};

std::shared_ptr<Seen> serve(FakeNode& node, bool has_many = true) {
  auto seen = std::make_shared<Seen>();
  node.on_command = [seen, &node, has_many](const Command& command) -> std::optional<std::string> {
    std::string& database = seen->databases.try_emplace(node.asking, "0").first->second;
    if (command[0] == "SELECT") {
      if (!has_many) return "-ERR DB index is out of range\r\n";
      database = command[1];
      return kOk;
    }
    if (command[0] != "GET" && command[0] != "SET") return std::nullopt;
    if (command[1].starts_with("__slotproxy:")) return std::nullopt;
    seen->requests.push_back(database + " " + command[0] + " " + command[1]);
    if (command[0] == "SET") return kOk;
    return seen->holds_back && database == "0" ? "" : "$1\r\n" + database + "\r\n";
  };
  return seen;
}

struct WithLoop {
  TestLoop loop;
};

struct Rig : WithLoop, WorkerRig {
  FakeNode& a = node("a");
  FakeNode& b = node("b");

  Rig() : WorkerRig(loop) { serve(b); }
};

}  // namespace

TEST_CASE("each database has connections of its own, which are in it before any request is") {
  Rig rig;
  const auto seen = serve(rig.a);
  rig.install(kBefore);
  auto zero = rig.client();
  auto three = rig.client();
  CHECK(three->ask({"SELECT", "3"}) == kOk);
  CHECK(three->ask({"GET", "b"}) == "$1\r\n3\r\n");
  CHECK(zero->ask({"GET", "b"}) == "$1\r\n0\r\n");
  rig.a.drop_connections();
  std::string reply;
  for (int i = 0; i < 1000 && reply != "$1\r\n3\r\n"; ++i) {
    reply = three->ask({"GET", "b"});
    CHECK((reply == "$1\r\n3\r\n" || reply.starts_with('-')));
  }
  CHECK(reply == "$1\r\n3\r\n");
}

TEST_CASE("what a client asks in one database is answered before it goes on in another") {
  Rig rig;
  const auto seen = serve(rig.a);
  rig.install(kBefore);
  auto client = rig.client();
  seen->holds_back = true;
  client->send(request_of({"GET", "b"}) + request_of({"SELECT", "3"}) +
               request_of({"SET", "b", "1"}));
  CHECK(rig.loop.run_until([&] { return seen->requests.size() == 1; }));
  auto other = rig.client();
  CHECK(other->ask({"SELECT", "3"}) == kOk);
  CHECK(other->ask({"GET", "b"}) == "$1\r\n3\r\n");
  CHECK(seen->requests == std::vector<std::string>{"0 GET b", "3 GET b"});
  rig.a.drop_connections();
  CHECK(client->read().starts_with('-'));
  CHECK(client->read() == kOk);
  client->read();
  for (const std::string& request : seen->requests) CHECK(request != "0 SET b");
}

TEST_CASE("a node that lacks a database serves the others") {
  Rig rig;
  serve(rig.a, /*has_many=*/false);
  rig.install(kBefore);
  auto client = rig.client();
  CHECK(client->ask({"SELECT", "5"}) == kOk);
  const std::string refused = client->ask({"GET", "b"});
  CHECK(refused.find("does not serve database 5: ERR DB index is out of range") !=
        std::string::npos);
  CHECK(client->ask({"SELECT", "0"}) == kOk);
  CHECK(client->ask({"GET", "b"}) == "$1\r\n0\r\n");
}
