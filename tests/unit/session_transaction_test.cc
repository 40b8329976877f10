#include <doctest/doctest.h>

#include "proxy/resp/command_table.h"
#include "proxy/session/transaction.h"
#include "proxy/session/transaction_rules.h"

namespace {

using proxy::Fence;
using proxy::resp::CommandTable;
using proxy::session::queued_as;
using proxy::session::QueuedAs;
using proxy::session::Transaction;
using proxy::session::with_own_answers;

QueuedAs rule_of(std::initializer_list<std::string_view> args) {
  const auto commands = CommandTable::built_in();
  const std::vector<std::string_view> list(args);
  const proxy::resp::CommandSpec* spec = commands->find(list[0]);
  REQUIRE(spec != nullptr);
  if (spec->rule == proxy::resp::KeyRule::Container) spec = commands->find_sub(*spec, list[1]);
  REQUIRE(spec != nullptr);
  return queued_as(*spec, list);
}

const std::string kPing = "*1\r\n$4\r\nPING\r\n";
const std::string kId = "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n";

}  // namespace

TEST_CASE("a transaction is sent as one piece, in the order in which it was queued") {
  Transaction transaction;
  transaction.add_for_node(kPing);
  transaction.add_for_proxy(kId);
  transaction.add_for_node(kPing);
  CHECK(transaction.size() == 3);
  CHECK(transaction.size_at_node() == 2);
  REQUIRE(transaction.own().size() == 1);
  CHECK(transaction.own()[0].place == 1);
  CHECK(transaction.own()[0].text == kId);
  CHECK(transaction.take_bytes() ==
        "*1\r\n$5\r\nMULTI\r\n" + kPing + kPing + "*1\r\n$4\r\nEXEC\r\n");
}

TEST_CASE("a transaction that is spoiled keeps nothing of what is queued, and counts it") {
  Transaction transaction;
  transaction.add_for_node(kPing);
  transaction.spoil();
  transaction.add_for_node(kPing);
  transaction.add_for_proxy(kId);
  CHECK(transaction.is_spoiled());
  CHECK(transaction.size() == 3);
  CHECK(transaction.own().empty());
  CHECK(transaction.has_room(std::string(90, 'x'), 100));
}

TEST_CASE("a transaction has room up to its limit, whoever answers what is queued") {
  Transaction transaction;
  CHECK(transaction.has_room(kId, 15 + kId.size()));
  transaction.add_for_proxy(kId);
  CHECK_FALSE(transaction.has_room(kPing, 15 + kId.size()));
  transaction.add_for_node(kPing);
  CHECK_FALSE(transaction.has_room("x", 15 + kId.size() + kPing.size()));
}

TEST_CASE("a fence keeps a transaction back for its slot, or when it may write any key") {
  Fence fence{1, {}, "a", "b"};
  fence.slots.add(5);
  Transaction transaction;
  CHECK_FALSE(transaction.is_kept_back_by(fence));
  transaction.set_slot(6);
  CHECK_FALSE(transaction.is_kept_back_by(fence));
  SUBCASE("its slot") { transaction.set_slot(5); }
  SUBCASE("any key") { transaction.writes_any_key(); }
  CHECK(transaction.is_kept_back_by(fence));
  transaction.spoil();  // Then nothing is sent.
  CHECK_FALSE(transaction.is_kept_back_by(fence));
}

TEST_CASE("the proxy's own answers stand in their places in EXEC's reply") {
  const std::vector<Transaction::Own> own = {{0, ":7\r\n"}, {2, "+OK\r\n"}};
  CHECK(with_own_answers("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", 4, own) ==
        "*4\r\n:7\r\n$1\r\na\r\n+OK\r\n*1\r\n:1\r\n");
  CHECK(with_own_answers("*2\r\n%1\r\n+k\r\n_\r\n#t\r\n", 4, own) ==
        "*4\r\n:7\r\n%1\r\n+k\r\n_\r\n+OK\r\n#t\r\n");
  for (const std::string reply :
       {"*-1\r\n", "_\r\n", "-EXECABORT no\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n"})
    CHECK(with_own_answers(reply, 4, own) == reply);
  CHECK(with_own_answers("*0\r\n", 2, {{0, ":1\r\n"}, {1, ":2\r\n"}}) == "*2\r\n:1\r\n:2\r\n");
}

TEST_CASE("what runs at once, what a node executes, what the proxy answers, what is refused") {
  for (auto name : {"multi", "exec", "discard", "reset", "quit"})
    CHECK(rule_of({name}) == QueuedAs::AtOnce);
  CHECK(rule_of({"watch", "k"}) == QueuedAs::AtOnce);
  CHECK(rule_of({"ping"}) == QueuedAs::NodeCommand);
  CHECK(rule_of({"blpop", "k", "0"}) == QueuedAs::NodeCommand);
  CHECK(rule_of({"script", "load", "x"}) == QueuedAs::NodeCommand);
  CHECK(rule_of({"get", "k"}) == QueuedAs::AsUsual);
  CHECK(rule_of({"debug", "sleep"}) == QueuedAs::AsUsual);
  CHECK(rule_of({"client", "id"}) == QueuedAs::OwnAnswer);
  CHECK(rule_of({"select", "0"}) == QueuedAs::OwnAnswer);
  CHECK(rule_of({"dbsize"}) == QueuedAs::MeansAll);
  CHECK(rule_of({"client", "list"}) == QueuedAs::MeansAll);
  CHECK(rule_of({"hello"}) == QueuedAs::ChangesReply);
  CHECK(rule_of({"sort", "k"}) == QueuedAs::NodeCommand);
  CHECK(rule_of({"sort", "k", "by", "w_*"}) == QueuedAs::AsUsual);
  CHECK(rule_of({"copy", "a", "b"}) == QueuedAs::NodeCommand);
}

TEST_CASE("what is denied at EXEC is answered in its place, and the rest is sent") {
  Transaction transaction;
  const std::string get = "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n";
  transaction.add_for_node(kPing);
  transaction.add_for_proxy(kId);
  transaction.add_for_node(get);
  transaction.add_for_proxy(kId);
  std::vector<std::string> seen;
  transaction.withdraw([&](proxy::resp::Args args) -> std::string {
    seen.emplace_back(args[0]);
    return args[0] == "GET" || seen.size() == 2 ? "-NOPERM\r\n" : "";
  });
  CHECK(seen == std::vector<std::string>{"PING", "CLIENT", "GET", "CLIENT"});
  CHECK(transaction.size() == 4);
  CHECK(transaction.size_at_node() == 1);
  REQUIRE(transaction.own().size() == 3);
  CHECK(transaction.own()[0].is_answered);
  CHECK(transaction.own()[0].text == "-NOPERM\r\n");
  CHECK(transaction.own()[1].place == 2);
  CHECK(transaction.own()[1].is_answered);
  CHECK_FALSE(transaction.own()[2].is_answered);
  CHECK(transaction.own()[2].text == kId);
  CHECK(transaction.take_bytes() == "*1\r\n$5\r\nMULTI\r\n" + kPing + "*1\r\n$4\r\nEXEC\r\n");
}
