#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/resp/key_finder.h"
#include "proxy/session/monitor_line.h"

using namespace proxy::session;
namespace resp = proxy::resp;

namespace {

const resp::CommandSpec& spec_of(std::vector<std::string_view> args) {
  static const auto kCommands = resp::CommandTable::built_in();
  return *resp::find_command(*kCommands, args);
}

// What comes behind the time and the address.
std::string shown(const std::vector<std::string_view>& args) {
  const std::string line = monitor_line(1'700'000'000'000'123, 3, "h:1", spec_of(args), args);
  const std::string start = "+1700000000.000123 [3 h:1] ";
  REQUIRE(line.starts_with(start));
  REQUIRE(line.ends_with("\r\n"));
  return line.substr(start.size(), line.size() - start.size() - 2);
}

}  // namespace

TEST_CASE("a monitor's line quotes arguments as Redis does") {
  using namespace std::string_view_literals;
  CHECK(shown({"GET", "k"}) == R"x("GET" "k")x");
  CHECK(shown({"set", "a b", ""}) == R"x("set" "a b" "")x");
  CHECK(shown({"SET", "q\"\\", "\n\r\t\a\b"}) == R"x("SET" "q\"\\" "\n\r\t\a\b")x");
  CHECK(shown({"SET", "\0\x7f"sv, "\xc3\xa9"}) == R"x("SET" "\x00\x7f" "\xc3\xa9")x");
}

TEST_CASE("a monitor sees no password") {
  CHECK(shown({"auth", "secret"}) == R"x("auth" "(redacted)")x");
  CHECK(shown({"AUTH", "user", "secret"}) == R"x("AUTH" "(redacted)" "(redacted)")x");
  CHECK(shown({"HELLO", "3", "AUTH", "user", "secret", "SETNAME", "me"}) ==
        R"x("HELLO" "3" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me")x");
  CHECK(shown({"HELLO", "3", "SETNAME", "auth", "AUTH", "user", "secret"}) ==
        R"x("HELLO" "3" "SETNAME" "auth" "AUTH" "(redacted)" "(redacted)")x");
  CHECK(shown({"HELLO"}) == R"x("HELLO")x");
}

TEST_CASE("a monitor sees what clients ask, and nothing that administers") {
  CHECK(is_shown(spec_of({"GET", "k"})));
  CHECK(is_shown(spec_of({"EVAL", "return 1", "0"})));
  CHECK(is_shown(spec_of({"MULTI"})));
  CHECK(is_shown(spec_of({"CLIENT", "ID"})));
  CHECK(!is_shown(spec_of({"MONITOR"})));
  CHECK(!is_shown(spec_of({"CONFIG", "GET", "x"})));
  CHECK(!is_shown(spec_of({"CLIENT", "LIST"})));
}
