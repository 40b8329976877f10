#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/control/stray_survey.h"
#include "slots/key_hash.h"
#include "slots/key_slot.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

using namespace proxy::control;
using conf::Milliseconds;
using slots::key_hash;
using slots::slot_of_key;
using tests::FakeNode;
using tests::TestLoop;

namespace {

constexpr Milliseconds kLong{5000};

// A node with these keys, 100 bytes each, which was given others before.
struct Server {
  explicit Server(uv_loop_t* loop) : node(loop) {
    node.on_command = [this](const Command& command) { return answer(command); };
  }

  std::optional<std::string> answer(const Command& command) {
    const auto list = [](const std::set<std::string>& names) {
      std::vector<Reply> elements;
      for (const std::string& name : names) elements.push_back(Reply::string(name));
      return Reply::array(std::move(elements));
    };
    if (command[0] == "SCAN") return encode_resp2(Reply::array({Reply::string("0"), list(keys)}));
    if (command[0] == "SMEMBERS") return encode_resp2(list(notes));
    if (command[0] == "EXISTS")
      return encode_resp2(Reply::integer_of(keys.contains(command[1]) ? 1 : 0));
    if (command[0] == "MEMORY") return encode_resp2(Reply::integer_of(100));
    return std::nullopt;
  }

  FakeNode node;
  std::set<std::string> keys = {"__slotproxy:identity"};
  std::set<std::string> notes = {};
};

struct Fixture {
  TestLoop loop;
  Server a{loop.get()};
  Server b{loop.get()};
  slots::SlotMap::Owners owners{};  // All a's, but for:
  slots::SlotSet kept_by_a = {};

  std::vector<slots::StrayMove> count() {
    const auto map = slots::SlotMap::create({{"a", 1}, {"b", 1}}, owners, 1).value();
    const auto asked = [](const char* name, const FakeNode& node) {
      return AskedNode{.name = name, .address = node.address(), .username = {}, .password = {}};
    };
    std::optional<slots::Result<std::vector<slots::StrayMove>>> found;
    StraySurvey survey(loop.get(), map, {{asked("a", a.node), kept_by_a}, {asked("b", b.node)}},
                       "test", kLong, kLong, [&](auto strays) { found = std::move(strays); });
    REQUIRE(loop.run_until([&] { return found.has_value(); }));
    REQUIRE(found->has_value());
    return **found;
  }
};

}  // namespace

TEST_CASE("strays are counted by who has them and who owns them, and by what the owner has too") {
  Fixture f;
  for (const char* key : {"k:1", "k:2"}) f.owners[slot_of_key(key)] = 1;
  f.a.keys.insert({"k:1", "k:2", "k:3"});
  f.b.keys.insert("k:2");
  const auto strays = f.count();
  REQUIRE(strays.size() == 1);
  CHECK(strays[0].from == "a");
  CHECK(strays[0].to == "b");
  CHECK(strays[0].keys() == 1);
  CHECK(strays[0].bytes == 100);
  CHECK(strays[0].conflicts == std::vector{key_hash("k:2")});
  CHECK(strays[0].conflict_names == std::vector<std::string>{"k:2"});
  CHECK(strays[0].slots.size() == 2);
}

TEST_CASE("copies that a node keeps of an earlier plan are no strays") {
  Fixture f;
  f.owners[slot_of_key("k:1")] = 1;
  f.a.keys.insert("k:1");
  f.kept_by_a.add(slot_of_key("k:1"));
  CHECK(f.count().empty());
}

TEST_CASE("a stray that its owner was given before is collected whatever the owner has by now") {
  Fixture f;
  f.owners[slot_of_key("k:1")] = 1;
  f.a.keys.insert("k:1");
  f.b.keys.insert("k:1");
  f.b.notes.insert("a:k:1");
  CHECK(f.count().at(0).keys() == 1);
}

TEST_CASE("a stray that was given to an earlier owner is left alone") {
  Fixture f;
  f.a.keys.insert("k:2");
  f.b.keys.insert("k:1");  // Of a's; noted at b by c's collection, say.
  f.a.notes.insert("x:k:1");
  f.b.notes.insert("b:k:1");
  const auto strays = f.count();
  REQUIRE(strays.size() == 1);
  CHECK(strays[0].keys() == 0);
  CHECK(strays[0].conflict_names == std::vector<std::string>{"k:1"});
}

TEST_CASE("a survey ends when a node can't be asked, and names it") {
  Fixture f;
  f.b.node.stop();
  const auto map = slots::SlotMap::create({{"a", 1}, {"b", 1}}, f.owners, 1).value();
  std::optional<slots::Result<std::vector<slots::StrayMove>>> found;
  StraySurvey survey(
      f.loop.get(), map,
      {{{.name = "a", .address = f.a.node.address(), .username = {}, .password = {}}, {}},
       {{.name = "b", .address = f.b.node.address(), .username = {}, .password = {}}, {}}},
      "test", kLong, kLong, [&](auto strays) { found = std::move(strays); });
  REQUIRE(f.loop.run_until([&] { return found.has_value(); }));
  REQUIRE_FALSE(found->has_value());
  CHECK(found->error().message.find("node b") != std::string::npos);
}

TEST_CASE("the hash of a key is the same everywhere") {
  CHECK(key_hash("") == 0xcbf29ce484222325ULL);
  CHECK(key_hash("a") == 0xaf63dc4c8601ec8cULL);
}
