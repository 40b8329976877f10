#include <doctest/doctest.h>

#include <algorithm>

#include "proxy/control/admin_explain.h"
#include "proxy/resp/command_table.h"
#include "proxy/session/commands.h"
#include "slots/key_slot.h"

using namespace proxy;
using namespace proxy::control;

namespace {

// Slots of "a" (15495), "b" (3300) and "c" (7365) lie on high, low and low.
AdminSnapshot shop() {
  auto table = std::make_shared<RoutingTable>();
  table->cluster = "shop";
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 8192; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
  table->map = std::make_shared<const slots::SlotMap>(
      *slots::SlotMap::create({{"low", 1.0}, {"high", 1.0}}, owners, 7));
  table->nodes.resize(2);
  table->nodes[0].name = "low";
  table->nodes[0].address = {.host = "127.0.0.1", .port = 7001, .path = {}};
  table->nodes[0].state = NodeState::Up;
  table->nodes[1].name = "high";
  table->nodes[1].address = {.host = "127.0.0.1", .port = 7002, .path = {}};
  table->nodes[1].announced = conf::Address{.host = "shop", .port = 6402, .path = {}};
  table->nodes[1].state = NodeState::Down;
  table->nodes[1].reason = "connection refused";
  table->commands = resp::CommandTable::built_in();
  AdminSnapshot snapshot;
  snapshot.table = table;
  return snapshot;
}

admin::ExplainReport explain(const std::vector<std::string>& words) {
  return explain_command(shop(), words);
}

std::vector<std::string> key_names(const admin::ExplainReport& report) {
  std::vector<std::string> names;
  for (const admin::KeyPlace& place : report.keys) names.push_back(place.key.raw);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a key is explained by its hashed part, slot and owner") {
  const admin::ExplainReport report = explain_keys(shop(), {"cart:{42}", "a"});
  CHECK(report.cluster == "shop");
  CHECK(report.epoch == 7);
  REQUIRE(report.keys.size() == 2);
  CHECK(report.keys[0].hashed_part.raw == "42");
  CHECK(report.keys[0].slot == slots::slot_of_key("42"));
  CHECK(report.keys[1].slot == 15495);
  CHECK(report.keys[1].node == "high");
  CHECK(report.keys[1].address == "127.0.0.1:7002");
  CHECK(report.keys[1].announced == "shop:6402");
  CHECK(report.keys[1].state == "down");
  CHECK(report.keys[1].reason == "connection refused");
  CHECK_FALSE(report.command.has_value());
}

TEST_CASE("a key of the proxy's own is marked") {
  const admin::ExplainReport report = explain_keys(shop(), {"__slotproxy:identity", "x"});
  CHECK(report.keys.at(0).is_reserved);
  CHECK_FALSE(report.keys.at(1).is_reserved);
}

TEST_CASE("a command with one key goes to its owner") {
  const admin::ExplainReport report = explain({"get", "a"});
  CHECK(report.command == "get");
  CHECK(report.outcome == "one_node");
  CHECK(report.why == "its key lies in slot 15495");
  REQUIRE(report.parts.size() == 1);
  CHECK(report.parts[0].node == "high");
  CHECK(report.parts[0].state == "down");
  CHECK(report.parts[0].keys == std::vector<admin::Bytes>{{"a"}});
}

TEST_CASE("a command whose keys lie in one slot goes to its owner whole") {
  const admin::ExplainReport report = explain({"RENAME", "{x}1", "{x}2"});
  CHECK(report.outcome == "one_node");
  CHECK(report.parts.size() == 1);
}

TEST_CASE("six commands are split over the owners of their keys") {
  const admin::ExplainReport report = explain({"MGET", "a", "b", "c"});
  CHECK(report.outcome == "split");
  REQUIRE(report.parts.size() == 2);
  CHECK(report.parts[0].node == "high");
  CHECK(report.parts[0].keys == std::vector<admin::Bytes>{{"a"}});
  CHECK(report.parts[1].keys == std::vector<admin::Bytes>{{"b"}, {"c"}});
  for (const char* command : {"DEL", "UNLINK", "EXISTS", "TOUCH", "MGET"}) {
    CAPTURE(command);
    CHECK(explain({command, "a", "b"}).outcome == "split");
  }
  CHECK(explain({"MSET", "a", "1", "b", "2"}).outcome == "split");
  CHECK(key_names(explain({"MSET", "a", "1", "b", "2"})) == Names{"a", "b"});
}

TEST_CASE("a command that could be split is not when one node owns all its keys") {
  const admin::ExplainReport report = explain({"MGET", "b", "c"});
  CHECK(report.outcome == "one_node");
  CHECK(report.why->find("2 slots, but all on one node") != std::string::npos);
  CHECK(report.parts.size() == 1);
}

TEST_CASE("other commands over several slots are CROSSSLOT, even on one node") {
  for (const std::vector<std::string>& words :
       {Names{"RENAME", "a", "b"}, Names{"MSETNX", "b", "1", "c", "2"}, Names{"SINTER", "b", "c"},
        Names{"EVAL", "return 1", "2", "a", "b"}}) {
    CAPTURE(words.front());
    const admin::ExplainReport report = explain(words);
    CHECK(report.outcome == "cross_slot");
    CHECK(report.why->find("hash tag") != std::string::npos);
    CHECK(report.keys.size() == 2);
    CHECK(report.parts.empty());
  }
}

TEST_CASE("keys are found wherever the command has them") {
  CHECK(key_names(explain({"ZUNIONSTORE", "{x}d", "2", "{x}1", "{x}2"})) ==
        Names{"{x}d", "{x}1", "{x}2"});
  CHECK(key_names(explain({"OBJECT", "ENCODING", "k"})) == Names{"k"});
  CHECK(explain({"OBJECT", "ENCODING", "k"}).command == "object encoding");
}

TEST_CASE("a key may be any bytes") {
  const std::string key("\0\xff", 2);
  CHECK(key_names(explain({"GET", key})) == Names{key});
}

TEST_CASE("commands without keys are asked of all nodes, of any, or answered by the proxy") {
  CHECK(explain({"DBSIZE"}).outcome == "all_nodes");
  CHECK(explain({"DBSIZE"}).parts.size() == 2);
  CHECK(explain({"SCRIPT", "LOAD", "return 1"}).outcome == "all_nodes");
  CHECK(explain({"FUNCTION", "FLUSH"}).outcome == "all_nodes");
  CHECK(explain({"FUNCTION", "LIST"}).outcome == "any_node");
  CHECK(explain({"COMMAND", "COUNT"}).outcome == "any_node");
  CHECK(explain({"EVAL", "return 1", "0"}).outcome == "any_node");
  CHECK(explain({"PING"}).outcome == "local");
  CHECK(explain({"CLIENT", "ID"}).outcome == "local");
  CHECK(explain({"MULTI"}).outcome == "local");
  CHECK(explain({"WAIT", "1", "0"}).outcome == "all_nodes");
}

TEST_CASE("what clients are refused is refused here, with the reason") {
  const auto why = [](const Names& words) {
    const admin::ExplainReport report = explain(words);
    CHECK(report.outcome == "refused");
    CHECK(report.parts.empty());
    return report.why.value_or("");
  };
  CHECK(why({"SORT", "a", "BY", "w_*"}).find("BY or GET") != std::string::npos);
  CHECK(why({"GET", "__slotproxy:x"}).find("proxy's own") != std::string::npos);
  CHECK(why({"SHUTDOWN"}).find("one server") != std::string::npos);
  CHECK(why({"NOSUCH", "a"}) == "ERR unknown command 'NOSUCH'; correct the command name");
  CHECK(why({"OBJECT", "NOSUCH"}).find("unknown subcommand") != std::string::npos);
  CHECK(why({"GET"}).find("wrong number of arguments for 'get'") != std::string::npos);
  CHECK(why({"MSET", "a", "1", "b"}).find("wrong number of arguments") != std::string::npos);
  CHECK(why({"EVAL", "return 1", "x"}).find("not an integer") != std::string::npos);
}

TEST_CASE("a sharded channel has an owner, a plain one none") {
  CHECK(explain({"SSUBSCRIBE", "a"}).outcome == "one_node");
  CHECK(explain({"SPUBLISH", "a", "m"}).outcome == "one_node");
  CHECK(explain({"PUBLISH", "a", "m"}).outcome == "any_node");
  CHECK(explain({"SUBSCRIBE", "a"}).outcome == "all_nodes");
}

TEST_CASE("what blocks or watches, and SORT without foreign keys, go to their key's owner") {
  CHECK(explain({"XREAD", "STREAMS", "a", "0"}).outcome == "one_node");
  CHECK(explain({"XREAD", "BLOCK", "0", "STREAMS", "a", "0"}).outcome == "one_node");
  CHECK(explain({"BLPOP", "a", "0"}).outcome == "one_node");
  CHECK(explain({"BLMOVE", "{a}1", "{a}2", "LEFT", "LEFT", "0"}).outcome == "one_node");
  CHECK(explain({"BLPOP", "a", "b", "0"}).outcome == "cross_slot");
  CHECK(explain({"WATCH", "a"}).outcome == "one_node");
  CHECK(explain({"SORT", "a", "BY", "nosort", "GET", "#"}).outcome == "one_node");
  CHECK(explain({"COPY", "{a}1", "{a}2", "DB", "1"}).outcome == "one_node");
}

TEST_CASE("a command is said to go by its keys when sessions do not treat it in another way") {
  using resp::CommandId;
  // Sessions look at their arguments or scripts before these go by their keys all the same.
  const std::vector<CommandId> by_keys{
      CommandId::Eval,     CommandId::EvalRo,     CommandId::Evalsha,     CommandId::EvalshaRo,
      CommandId::Fcall,    CommandId::FcallRo,    CommandId::Sort,        CommandId::SortRo,
      CommandId::Xread,    CommandId::Xreadgroup, CommandId::Copy,        CommandId::Watch,
      CommandId::Blmove,   CommandId::Blmpop,     CommandId::Blpop,       CommandId::Brpop,
      CommandId::Bzmpop,   CommandId::Bzpopmax,   CommandId::Bzpopmin,    CommandId::Brpoplpush,
      CommandId::Spublish, CommandId::Ssubscribe, CommandId::Sunsubscribe};
  for (const resp::CommandSpec& spec : resp::CommandTable::built_in()->specs()) {
    if (spec.name.find('|') != std::string_view::npos) continue;
    const std::string name(spec.name);
    CAPTURE(name);
    const bool is_watched =
        std::find(by_keys.begin(), by_keys.end(), static_cast<CommandId>(spec.id)) != by_keys.end();
    const bool has_handler = session::handler_of(spec) != nullptr && !is_watched;
    if (has_handler) CHECK(way_of(spec) != CommandWay::ByKeys);
    if (!has_handler && spec.rule != resp::KeyRule::None) CHECK(way_of(spec) == CommandWay::ByKeys);
  }
}
