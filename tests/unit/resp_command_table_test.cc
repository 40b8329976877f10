#include <doctest/doctest.h>

#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "proxy/resp/command_table.h"

namespace {

using proxy::resp::CommandFlag;
using proxy::resp::CommandId;
using proxy::resp::CommandSpec;
using proxy::resp::CommandTable;
using proxy::resp::KeyRule;
using proxy::resp::kLearnedCommand;
using proxy::resp::ReplyPolicy;
using proxy::resp::RequestPolicy;

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}
std::string number(int value) { return ":" + std::to_string(value) + "\r\n"; }
std::string list(const std::vector<std::string>& items) {
  std::string out = "*" + std::to_string(items.size()) + "\r\n";
  for (const std::string& item : items) out += item;
  return out;
}

// One of COMMAND's entries, as Redis 7 shapes it.
struct Entry {
  std::string name;
  int arity = -2;
  std::vector<std::string> flags = {};
  int first = 0;
  int last = 0;
  int step = 0;
  std::vector<std::string> tips = {};
  std::vector<std::string> key_specs = {};
  std::vector<std::string> subcommands = {};

  [[nodiscard]] std::string resp() const {
    std::vector<std::string> flag_items;
    for (const std::string& flag : flags) flag_items.push_back("+" + flag + "\r\n");
    std::vector<std::string> tip_items;
    for (const std::string& tip : tips) tip_items.push_back(bulk(tip));
    return list({bulk(name), number(arity), list(flag_items), number(first), number(last),
                 number(step), list({"+@slow\r\n", "+@json\r\n"}), list(tip_items), list(key_specs),
                 list(subcommands)});
  }
};

std::string key_spec(const std::string& begin, const std::string& find) {
  return list(
      {bulk("flags"), list({"+RW\r\n"}), bulk("begin_search"), begin, bulk("find_keys"), find});
}
std::string typed(std::string_view type, const std::vector<std::string>& spec) {
  return list({bulk("type"), bulk(type), bulk("spec"), list(spec)});
}
std::string at_index(int index) { return typed("index", {bulk("index"), number(index)}); }
std::string at_word(std::string_view word) {
  return typed("keyword", {bulk("keyword"), bulk(word), bulk("startfrom"), number(1)});
}
std::string counted() {
  return typed("keynum", {bulk("keynumidx"), number(0), bulk("firstkey"), number(1),
                          bulk("keystep"), number(1)});
}
std::string range(int last) {
  return typed("range", {bulk("lastkey"), number(last), bulk("keystep"), number(1), bulk("limit"),
                         number(0)});
}
std::string unknown() { return typed("unknown", {}); }

std::shared_ptr<const CommandTable> learned(const std::vector<Entry>& entries,
                                            const CommandTable& base = *CommandTable::built_in()) {
  std::vector<std::string> items;
  for (const Entry& entry : entries) items.push_back(entry.resp());
  auto table = CommandTable::with_learned(base, list(items));
  REQUIRE(table);
  return *table;
}

CommandSpec learned_spec(const Entry& entry) {
  auto table = learned({entry});
  const CommandSpec* spec = table->find(entry.name);
  REQUIRE(spec != nullptr);
  CHECK(spec->id == kLearnedCommand);
  CommandSpec copy = *spec;
  copy.name = {};
  return copy;
}

}  // namespace

TEST_CASE("every command is found by its name in any case, and by nothing else") {
  auto table = CommandTable::built_in();
  for (const CommandSpec& spec : table->specs()) {
    CAPTURE(std::string(spec.name));
    std::size_t bar = spec.name.find('|');
    if (bar == std::string_view::npos) {
      CHECK(table->find(spec.name) == &spec);
      CHECK(table->find(upper(spec.name)) == &spec);
      continue;
    }
    const CommandSpec* container = table->find(spec.name.substr(0, bar));
    REQUIRE(container != nullptr);
    CHECK(container->rule == KeyRule::Container);
    std::string_view sub = spec.name.substr(bar + 1);
    CHECK(table->find_sub(*container, sub) == &spec);
    CHECK(table->find_sub(*container, upper(sub)) == &spec);
    CHECK(table->find(spec.name) == nullptr);
  }
}

TEST_CASE("names that no command has are not found") {
  auto table = CommandTable::built_in();
  using std::string_view_literals::operator""sv;
  for (std::string_view name :
       {""sv, "g"sv, "ge"sv, "gett"sv, "get "sv, "GET\0"sv, "\0"sv, "g\0t"sv, "zrangebyscor"sv,
        "zrangebyscoree"sv, "georadiusbymember_r0"sv, "command|count"sv,
        "no-such-command-is-as-long-as-this"sv}) {
    CAPTURE(std::string(name));
    CHECK(table->find(name) == nullptr);
  }
  // Bytes that differ from letters by the bit of case alone, or lie beyond ASCII.
  CHECK(table->find("\x07\x05\x14") == nullptr);
  CHECK(table->find("\xe7\xe5\xf4") == nullptr);
  CHECK(table->find("restore\x0d"
                    "asking") == nullptr);
  CHECK(table->find("eval\x7fro") == nullptr);
}

TEST_CASE("random names are found exactly when they are names") {
  auto table = CommandTable::built_in();
  const std::uint32_t seed = 1;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    auto specs = table->specs();
    std::string name(specs[random() % specs.size()].name);
    name[random() % name.size()] = static_cast<char>(random());
    bool is_name = false;
    for (const CommandSpec& spec : specs) is_name |= upper(spec.name) == upper(name);
    is_name &= name.find('|') == std::string::npos;
    CAPTURE(name);
    CHECK((table->find(name) != nullptr) == is_name);
  }
}

TEST_CASE("a subcommand belongs to its container") {
  auto table = CommandTable::built_in();
  const CommandSpec* client = table->find("client");
  const CommandSpec* config = table->find("config");
  REQUIRE(client != nullptr);
  REQUIRE(config != nullptr);
  CHECK(table->find_sub(*client, "setname")->id == CommandId::ClientSetname);
  CHECK(table->find_sub(*config, "setname") == nullptr);
  CHECK(table->find_sub(*client, "help")->id == CommandId::ClientHelp);
  CHECK(table->find_sub(*config, "help")->id == CommandId::ConfigHelp);
  CHECK(table->find_sub(*config, "") == nullptr);
  CHECK(table->find_sub(*table->find("get"), "help") == nullptr);
}

TEST_CASE("ids are places in the list of specs") {
  auto specs = CommandTable::built_in()->specs();
  REQUIRE(specs.size() == static_cast<std::size_t>(CommandId::Count));
  for (std::size_t i = 0; i < specs.size(); ++i) CHECK(static_cast<std::size_t>(specs[i].id) == i);
}

TEST_CASE("what Redis 7.0 says of a command is what the table says") {
  auto table = CommandTable::built_in();
  const CommandSpec* set = table->find("set");
  REQUIRE(set != nullptr);
  CHECK(set->arity == -3);
  CHECK(set->has(CommandFlag::Write));
  CHECK(set->has(CommandFlag::DenyOom));
  CHECK_FALSE(set->has(CommandFlag::ReadOnly));
  const CommandSpec* scripts = table->find_sub(*table->find("script"), "exists");
  REQUIRE(scripts != nullptr);
  CHECK(scripts->request_policy == RequestPolicy::AllShards);
  CHECK(scripts->reply_policy == ReplyPolicy::AggLogicalAnd);
}

TEST_CASE("subcommands that newer clients send are known") {
  auto table = CommandTable::built_in();
  CHECK(table->find_sub(*table->find("client"), "SETINFO")->arity_ok(4));
  CHECK(table->find_sub(*table->find("client"), "NO-TOUCH")->arity_ok(3));
  CHECK(table->find_sub(*table->find("cluster"), "MYSHARDID")->arity_ok(2));
}

TEST_CASE("an arity counts the name; a negative one is a least") {
  CommandSpec spec;
  spec.arity = 2;
  CHECK(spec.arity_ok(2));
  CHECK_FALSE(spec.arity_ok(1));
  CHECK_FALSE(spec.arity_ok(3));
  spec.arity = -2;
  CHECK(spec.arity_ok(2));
  CHECK(spec.arity_ok(9));
  CHECK_FALSE(spec.arity_ok(1));
}

TEST_CASE("a node teaches commands that the table lacks") {
  auto table = learned({{.name = "JSON.MGET",
                         .arity = -3,
                         .flags = {"readonly", "from_the_future"},
                         .first = 1,
                         .last = -2,
                         .step = 1,
                         .tips = {"request_policy:multi_shard", "response_policy:special"}},
                        {.name = "get", .arity = 7, .flags = {"admin"}}});
  const CommandSpec* spec = table->find("json.mget");
  REQUIRE(spec != nullptr);
  CHECK(spec == table->find("JSON.MGET"));
  CHECK(spec->name == "json.mget");
  CHECK(spec->id == kLearnedCommand);
  CHECK(spec->arity == -3);
  CHECK(spec->has(CommandFlag::ReadOnly));
  CHECK(spec->rule == KeyRule::Range);
  CHECK(spec->first_key == 1);
  CHECK(spec->last_key == -2);
  CHECK(spec->key_step == 1);
  CHECK(spec->request_policy == RequestPolicy::MultiShard);
  CHECK(spec->reply_policy == ReplyPolicy::Special);
  SUBCASE("and nothing of those that it has") {
    CHECK(table->find("get")->arity == 2);
    CHECK_FALSE(table->find("get")->has(CommandFlag::Admin));
  }
  SUBCASE("one node after the other") {
    auto next = learned({{.name = "ft.search"}, {.name = "json.mget", .arity = 5}}, *table);
    table.reset();
    CHECK(next->find("ft.search") != nullptr);
    CHECK(next->find("JSON.MGET")->name == "json.mget");
    CHECK(next->find("json.mget")->arity == -3);
    CHECK(next->specs().size() == CommandTable::built_in()->specs().size() + 2);
  }
}

TEST_CASE("a node that takes a command's arguments more loosely judges them itself") {
  auto table = learned({{.name = "zrank", .arity = -3},
                        {.name = "expire", .arity = 3},
                        {.name = "append", .arity = -4},
                        {.name = "mget", .arity = -1}});
  CHECK(table->find("zrank")->arity == -3);
  CHECK(table->find("expire")->arity == -3);
  CHECK(table->find("append")->arity == 3);
  CHECK(table->find("mget")->arity == -1);
}

TEST_CASE("a node teaches subcommands, of known commands and of others") {
  auto table = learned(
      {{.name = "client",
        .subcommands = {Entry{.name = "client|new", .arity = 3}.resp(),
                        Entry{.name = "client|id", .arity = 9}.resp()}},
       {.name = "ts.config",
        .subcommands = {
            Entry{.name = "ts.config|get", .arity = 3, .first = 2, .last = 2, .step = 1}.resp()}}});
  CHECK(table->find_sub(*table->find("client"), "NEW")->arity == 3);
  CHECK(table->find_sub(*table->find("client"), "id")->id == CommandId::ClientId);
  const CommandSpec* config = table->find("ts.config");
  REQUIRE(config != nullptr);
  CHECK(config->rule == KeyRule::Container);
  CHECK(table->find_sub(*config, "get")->rule == KeyRule::Range);
  CHECK(table->find_sub(*config, "set") == nullptr);
}

TEST_CASE("a container of an older table finds its subcommands in a newer one") {
  const CommandSpec* client = CommandTable::built_in()->find("client");
  auto table = learned({{.name = "x.y"}});
  CHECK(table->find_sub(*client, "setname")->id == CommandId::ClientSetname);
}

TEST_CASE("keys that move among the arguments are learned from key specs") {
  Entry entry{.name = "x.y", .flags = {"write", "movablekeys"}};
  SUBCASE("a number of keys, then keys") {
    entry.key_specs = {key_spec(at_index(2), counted())};
    CommandSpec spec = learned_spec(entry);
    CHECK(spec.rule == KeyRule::NumKeys);
    CHECK(spec.first_key == 3);
    CHECK(spec.extra_key == 0);
  }
  SUBCASE("and one key more") {
    entry.key_specs = {key_spec(at_index(1), range(0)), key_spec(at_index(2), counted())};
    CommandSpec spec = learned_spec(entry);
    CHECK(spec.rule == KeyRule::NumKeys);
    CHECK(spec.first_key == 3);
    CHECK(spec.extra_key == 1);
  }
  SUBCASE("streams") {
    entry.key_specs = {key_spec(at_word("STREAMS"), range(-1))};
    CHECK(learned_spec(entry).rule == KeyRule::Streams);
  }
  SUBCASE("anything else is not known, even where some keys are") {
    entry.first = entry.last = entry.step = 1;
    CHECK(learned_spec(entry).rule == KeyRule::Unknown);
    entry.key_specs = {key_spec(at_index(1), range(0)), key_spec(unknown(), unknown())};
    CHECK(learned_spec(entry).rule == KeyRule::Unknown);
    entry.key_specs = {key_spec(at_index(1), range(0)), key_spec(at_word("STORE"), range(0))};
    CHECK(learned_spec(entry).rule == KeyRule::Unknown);
    entry.key_specs = {key_spec(at_index(1), counted()), key_spec(at_index(3), counted())};
    CHECK(learned_spec(entry).rule == KeyRule::Unknown);
  }
}

TEST_CASE("a node of Redis 6 tells less of a command, and that is enough") {
  std::string entry = list({bulk("x.y"), number(-2), list({"+write\r\n"}), number(1), number(1),
                            number(1), list({"+@slow\r\n"})});
  auto table = CommandTable::with_learned(*CommandTable::built_in(), list({entry}));
  REQUIRE(table);
  CHECK((*table)->find("x.y")->rule == KeyRule::Range);
}

TEST_CASE("a name too long for the table is left out, and the rest learned") {
  auto table = learned({{.name = "x.a-command-with-a-name-beyond-it"}, {.name = "x.z"}});
  CHECK(table->find("x.a-command-with-a-name-beyond-it") == nullptr);
  CHECK(table->find("x.z") != nullptr);
}

TEST_CASE("bytes that are no reply to COMMAND are refused") {
  const CommandTable& base = *CommandTable::built_in();
  std::string good = list({Entry{.name = "x.y",
                                 .flags = {"write", "movablekeys"},
                                 .tips = {"request_policy:all_shards"},
                                 .key_specs = {key_spec(at_index(1), counted())}}
                               .resp()});
  REQUIRE(CommandTable::with_learned(base, good));
  SUBCASE("cut short anywhere") {
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      CHECK_FALSE(CommandTable::with_learned(base, std::string_view(good).substr(0, size)));
    }
  }
  SUBCASE("of another shape") {
    for (std::string reply : {"+OK\r\n", "-ERR no\r\n", "$-1\r\n", "*-1\r\n", "*1\r\n*-1\r\n",
                              "*1\r\n*0\r\n", "*1\r\n*6\r\n:1\r\n:1\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
                              "*1\r\n*6\r\n$1\r\nx\r\n:0\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
                              "*1\r\n*6\r\n$1\r\nx\r\n:99999\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
                              "*1\r\n*6\r\n$0\r\n\r\n:1\r\n*0\r\n:0\r\n:0\r\n:0\r\n"}) {
      CAPTURE(reply);
      CHECK_FALSE(CommandTable::with_learned(base, reply));
    }
  }
  SUBCASE("with a byte changed: refused or taken, never a crash") {
    std::mt19937 random(1);
    for (int i = 0; i < 5000; ++i) {
      std::string changed = good;
      changed[random() % changed.size()] = static_cast<char>(random());
      (void)CommandTable::with_learned(base, changed);
    }
  }
  SUBCASE("with more commands than anybody has") {
    std::vector<std::string> entries;
    for (int i = 0; i < 10001; ++i) {
      entries.push_back(Entry{.name = "x." + std::to_string(i)}.resp());
    }
    auto table = CommandTable::with_learned(base, list(entries));
    REQUIRE_FALSE(table);
    CHECK(table.error().code == slots::Errc::LimitExceeded);
  }
}

TEST_CASE("refused commands name no keys, and all others stay as they are") {
  const auto base = CommandTable::built_in();
  const std::vector<std::string> names = {"append", "config", "acl|list", "nosuch"};
  const auto table = CommandTable::refusing(base, names);
  CHECK(table->find("APPEND")->is_refused);
  CHECK(table->find("append")->rule == KeyRule::None);
  CHECK(table->find("config")->rule == KeyRule::Container);
  CHECK(table->find_sub(*table->find("config"), "get")->is_refused);
  CHECK(table->find_sub(*table->find("acl"), "list")->is_refused);
  CHECK_FALSE(table->find_sub(*table->find("acl"), "cat")->is_refused);
  CHECK_FALSE(table->find("acl")->is_refused);
  CHECK_FALSE(table->find("get")->is_refused);
  CHECK(table->find("get")->rule == KeyRule::Range);
  CHECK_FALSE(base->find("append")->is_refused);
  CHECK(CommandTable::refusing(base, {}) == base);
}

TEST_CASE("categories and accesses to keys are learned as a node says them") {
  using proxy::resp::CommandCategory;
  using proxy::resp::KeyAccess;
  const CommandTable& base = *CommandTable::built_in();
  const auto table = CommandTable::with_learned(
      base,
      list({Entry{.name = "x.get", .flags = {"readonly"}, .first = 1, .last = 1, .step = 1}.resp(),
            Entry{.name = "x.set", .flags = {"write"}, .first = 1, .last = 1, .step = 1}.resp()}));
  REQUIRE(table.has_value());
  CHECK((*table)->find("x.get")->is_in(CommandCategory::Slow));
  CHECK_FALSE((*table)->find("x.get")->is_in(CommandCategory::Fast));
  CHECK((*table)->find("x.get")->first_access == KeyAccess::Read);
  CHECK((*table)->find("x.set")->first_access == KeyAccess::Both);
  CHECK(base.find("get")->is_in(CommandCategory::Fast));
  CHECK(base.find("get")->is_in(CommandCategory::String));
}
