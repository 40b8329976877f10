#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "proxy/acl/user.h"
#include "proxy/resp/key_finder.h"

namespace {

using proxy::acl::Denied;
using proxy::acl::User;
using proxy::acl::Verdict;
using proxy::resp::CommandTable;

// A user of these rules; each must be right.
User user_of(std::string_view rules) {
  User user("u", CommandTable::built_in());
  const auto words = proxy::acl::split_rules(rules);
  REQUIRE(words.has_value());
  for (const std::string& word : *words) {
    CAPTURE(word);
    REQUIRE(user.apply(word).has_value());
  }
  return user;
}

// Why a rule is wrong behind others that are right; "": it is not.
std::string mistake_of(std::string_view rule, std::string_view before = "") {
  User user = user_of(before);
  const auto applied = user.apply(rule);
  return applied ? "" : applied.error().message;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// As the data file has it: ok, command, or the key or channel.
std::string verdict_of(const User& user, std::string_view call) {
  const std::vector<std::string> words = words_of(call);
  const std::vector<std::string_view> args(words.begin(), words.end());
  const auto* spec = proxy::resp::find_command(*CommandTable::built_in(), args);
  REQUIRE(spec != nullptr);
  const Verdict verdict = user.judge(*spec, args);
  if (verdict.is_allowed()) return "ok";
  return verdict.denied == Denied::Command ? "command" : words[verdict.argument];
}

std::string verdict_of(std::string_view rules, std::string_view call) {
  return verdict_of(user_of(rules), call);
}

constexpr const char* kUnknown = "Unknown command or category name in ACL";
constexpr const char* kSyntax = "Syntax error";

}  // namespace

TEST_CASE("requests are judged as a server judges them") {
  std::ifstream file(SLOTPROXY_SOURCE_DIR "/tests/unit/data/acl.txt");
  std::size_t judged = 0;
  User user = user_of("");
  std::string rules;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    if (line.starts_with("rules ")) {
      rules = line.substr(6);
      user = user_of(rules);
      continue;
    }
    const std::size_t arrow = line.find(" -> ");
    REQUIRE(arrow != std::string::npos);
    CAPTURE(rules);
    CAPTURE(line);
    CHECK(verdict_of(user, line.substr(0, arrow)) == line.substr(arrow + 4));
    ++judged;
  }
  CHECK(judged > 2500);
}

TEST_CASE("a user without rules may do nothing but log in and leave") {
  CHECK(verdict_of("", "get a") == "command");
  for (const char* call : {"auth a", "hello 3", "quit", "reset"})
    CHECK(verdict_of("", call) == "ok");
  CHECK_FALSE(user_of("on nopass").is_unrestricted());
  CHECK_FALSE(user_of("on nopass +@all ~*").is_unrestricted());
  CHECK_FALSE(user_of("+@all ~* &* -get").is_unrestricted());
  CHECK(user_of("+@all ~* &*").is_unrestricted());
  CHECK(user_of("allcommands allkeys allchannels").is_unrestricted());
}

TEST_CASE("what is wrong with a rule is said in Redis's words") {
  CHECK(mistake_of("+foo") == kUnknown);
  CHECK(mistake_of("+@foo") == kUnknown);
  CHECK(mistake_of("+config|nosuch") == kUnknown);
  CHECK(mistake_of("-select|0") == kUnknown);
  CHECK(mistake_of("+") == kUnknown);
  CHECK(mistake_of("+config|get|x") == "Allowing first-arg of a subcommand is not supported");
  CHECK(mistake_of("blah") == kSyntax);
  CHECK(mistake_of("") == kSyntax);
  CHECK(mistake_of("%x") == kSyntax);
  CHECK(mistake_of("%R") == kSyntax);
  CHECK(mistake_of("%~x") == kSyntax);
  CHECK(mistake_of("%RR~x") == kSyntax);
  CHECK(mistake_of("%RWX~x") == kSyntax);
  CHECK(mistake_of(std::string_view("~a\0b", 4)) == kSyntax);
  CHECK(mistake_of("#abc").starts_with("The password hash must be exactly 64 characters"));
  CHECK(
      mistake_of("~x", "~*").starts_with("Adding a pattern after the * pattern (or the 'allkeys'"));
  CHECK(
      mistake_of("&x", "&*").starts_with("Adding a pattern after the * pattern (or the 'allchan"));
  CHECK(mistake_of("(+get ~x").starts_with(kSyntax));
  CHECK(mistake_of("(+nosuch)") == kUnknown);
  CHECK(mistake_of("(on)") == kSyntax);
  CHECK(mistake_of("(+get ~x))") == kSyntax);
  CHECK(mistake_of("(+get)~x") == kSyntax);
  CHECK_FALSE(mistake_of(">secret").empty());
  CHECK_FALSE(proxy::acl::split_rules("on (+get ~x").has_value());
}

TEST_CASE("case does not matter in words, and does in patterns") {
  CHECK(mistake_of("+GET").empty());
  CHECK(mistake_of("+@READ").empty());
  CHECK(mistake_of("AllKeys").empty());
  CHECK(verdict_of("+GET %r~a", "get a") == "ok");
  CHECK(verdict_of("+get ~a", "GET A") == "A");
  CHECK(verdict_of("+select|0 ~*", "SELECT 0") == "ok");
  CHECK(verdict_of("+get|Abc ~*", "get aBC") == "ok");
}

TEST_CASE("a module's command may be named before anybody knows it") {
  CHECK(mistake_of("+json.get").empty());
  CHECK(user_of("+json.get").selectors().front().commands_text() == "-@all +json.get");
}

TEST_CASE("the last rule about something counts, and is the one that is shown") {
  const auto shown = [](std::string_view rules) {
    return user_of(rules).selectors().front().text();
  };
  CHECK(shown("") == "resetchannels -@all");
  CHECK(shown("+get -get +get ~* &*") == "~* &* -@all +get");
  CHECK(shown("+@all -@dangerous +info") == "resetchannels +@all -@dangerous +info");
  CHECK(shown("+get +@all") == "resetchannels +@all");
  CHECK(shown("+config|get +config|set -config") == "resetchannels -@all -config");
  CHECK(shown("-config +config|get") == "resetchannels -@all -config +config|get");
  CHECK(shown("%R~a %W~a ~b %W~c &x &y") == "~a ~b %W~c resetchannels &x &y -@all");
  CHECK(shown("~a ~b resetkeys ~c") == "~c resetchannels -@all");
  CHECK(shown("%R~* %W~* ~b") == "%RW~* ~b resetchannels -@all");
  CHECK(user_of("on nopass ~a +get (~b +set)").text() ==
        "user u on nopass ~a resetchannels -@all +get (~b resetchannels -@all +set)");
  CHECK(user_of("on (+get) clearselectors").selectors().size() == 1);
}

TEST_CASE("channels are matched, patterns to be subscribed taken literally") {
  CHECK(verdict_of("+@pubsub &news.*", "subscribe news.a news.b") == "ok");
  CHECK(verdict_of("+@pubsub &news.*", "subscribe news.a other") == "other");
  CHECK(verdict_of("+@pubsub &news.*", "psubscribe news.*") == "ok");
  CHECK(verdict_of("+@pubsub &news.*", "psubscribe news.a*") == "news.a*");
  CHECK(verdict_of("+@pubsub &news.*", "publish news.a b") == "ok");
  CHECK(verdict_of("+@pubsub &news.*", "spublish x b") == "x");
  CHECK(verdict_of("+@pubsub", "unsubscribe x") == "ok");
  CHECK(user_of("&a (&b)").may_subscribe("b", false));
  CHECK_FALSE(user_of("&a*").may_subscribe("ab", true));
}

TEST_CASE("wrong arguments are the command's to refuse") {
  CHECK(verdict_of("+eval ~a", "eval s x b") == "ok");
  CHECK(verdict_of("+zunion ~a", "zunion 5 b") == "ok");
}

TEST_CASE("any of the passwords will do") {
  User user = user_of("on");
  CHECK_FALSE(user.accepts(conf::hash_of("")));
  user.add_password(conf::hash_of("one"));
  user.add_password(conf::hash_of("two"));
  user.add_password(conf::hash_of("two"));
  CHECK(user.passwords().size() == 2);
  CHECK(user.accepts(conf::hash_of("one")));
  CHECK(user.accepts(conf::hash_of("two")));
  CHECK_FALSE(user.accepts(conf::hash_of("three")));
  REQUIRE(user.apply("nopass").has_value());
  CHECK(user.needs_no_password());
  CHECK(user.passwords().empty());
  REQUIRE(user.apply("#" + conf::hex_of(conf::hash_of("one"))).has_value());
  CHECK_FALSE(user.needs_no_password());
  CHECK(user.text().find("#7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed") !=
        std::string::npos);
  REQUIRE(user.apply("reset").has_value());
  CHECK(user.text() == "user u off resetchannels -@all");
}
