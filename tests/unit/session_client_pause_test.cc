#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/resp/key_finder.h"
#include "proxy/session/client_pause.h"
#include "proxy/session/function_flags.h"

using proxy::resp::CommandTable;
using proxy::session::ClientPause;
using proxy::session::declares_no_writes;
using proxy::session::may_write;
using proxy::session::MayWrite;
using proxy::session::parse_pause;
using proxy::session::PauseMode;
using proxy::session::read_only_functions;

namespace {

MayWrite rule_of(const std::vector<std::string_view>& args) {
  const auto commands = CommandTable::built_in();
  const proxy::resp::CommandSpec* spec = proxy::resp::find_command(*commands, args);
  REQUIRE(spec != nullptr);
  return may_write(*spec, args);
}

std::string error_of(const std::vector<std::string_view>& args) {
  const auto parsed = parse_pause(args);
  return parsed ? "" : parsed.error().message;
}

}  // namespace

TEST_CASE("a pause lasts for its time, or until it is ended") {
  ClientPause pause;
  CHECK_FALSE(pause.is_set());
  CHECK(pause.mode(0) == PauseMode::None);
  pause.begin(PauseMode::Write, 1000, 50);
  CHECK(pause.is_set());
  CHECK(pause.mode(1049) == PauseMode::Write);
  CHECK(pause.mode(1050) == PauseMode::None);
  SUBCASE("ended") {
    pause.end();
    CHECK_FALSE(pause.is_set());
    CHECK(pause.mode(1001) == PauseMode::None);
  }
  SUBCASE("what is over is forgotten, what is in force is not") {
    pause.forget_if_over(1049);
    CHECK(pause.is_set());
    pause.forget_if_over(1050);
    CHECK_FALSE(pause.is_set());
  }
}

TEST_CASE("a pause in force only grows") {
  ClientPause pause;
  pause.begin(PauseMode::All, 1000, 500);
  SUBCASE("a weaker and shorter one changes nothing") {
    pause.begin(PauseMode::Write, 1100, 10);
    CHECK(pause.mode(1499) == PauseMode::All);
    CHECK(pause.mode(1500) == PauseMode::None);
  }
  SUBCASE("a weaker and longer one makes the stricter one longer") {
    pause.begin(PauseMode::Write, 1100, 900);
    CHECK(pause.mode(1999) == PauseMode::All);
  }
  SUBCASE("one that begins after its end knows nothing of it") {
    pause.begin(PauseMode::Write, 1500, 10);
    CHECK(pause.mode(1501) == PauseMode::Write);
    CHECK(pause.mode(1510) == PauseMode::None);
  }
}

TEST_CASE("pauses are counted from beginning to beginning") {
  ClientPause pause;
  pause.begin(PauseMode::Write, 1000, 100);
  const auto first = pause.count();
  pause.begin(PauseMode::All, 1010, 100);
  CHECK(pause.count() == first);
  pause.end();
  pause.begin(PauseMode::Write, 1020, 100);
  CHECK(pause.count() == first + 1);
}

TEST_CASE("the longest pause that can be asked for does not end at once") {
  ClientPause pause;
  pause.begin(PauseMode::All, 1000, INT64_MAX);
  CHECK(pause.mode(1ULL << 60) == PauseMode::All);
}

TEST_CASE("CLIENT PAUSE reads its arguments as Redis does") {
  const auto plain = parse_pause(std::vector<std::string_view>{"CLIENT", "PAUSE", "100"});
  REQUIRE(plain);
  CHECK(plain->mode == PauseMode::All);
  CHECK(plain->duration_ms == 100);
  const auto write = parse_pause(std::vector<std::string_view>{"client", "pause", "0", "wRiTe"});
  REQUIRE(write);
  CHECK(write->mode == PauseMode::Write);
  CHECK(error_of({"CLIENT", "PAUSE", "1", "all"}).empty());
  CHECK(error_of({"CLIENT", "PAUSE", "1", "x"}) == "ERR CLIENT PAUSE mode must be WRITE or ALL");
  CHECK(error_of({"CLIENT", "PAUSE", "1.5"}) == "ERR timeout is not an integer or out of range");
  CHECK(error_of({"CLIENT", "PAUSE", "-1"}) == "ERR timeout is negative");
  CHECK(error_of({"CLIENT", "pause", "1", "all", "x"}) ==
        "ERR unknown subcommand or wrong number of arguments for 'pause'. Try CLIENT HELP.");
}

TEST_CASE("what may write, or send something to replicas, waits for the end of a WRITE pause") {
  for (const std::vector<std::string_view>& args :
       std::vector<std::vector<std::string_view>>{{"SET", "k", "v"},
                                                  {"getdel", "k"},
                                                  {"BLPOP", "k", "0"},
                                                  {"FLUSHALL"},
                                                  {"PUBLISH", "ch", "m"},
                                                  {"SPUBLISH", "ch", "m"},
                                                  {"PFCOUNT", "k"},
                                                  {"FUNCTION", "LOAD", "x"},
                                                  {"SORT", "k"},
                                                  {"EVAL", "return 1", "0"},
                                                  {"EVAL", "#!lua\nreturn 1", "0"}}) {
    CAPTURE(args[0]);
    CHECK(rule_of(args) == MayWrite::Yes);
  }
  for (const std::vector<std::string_view>& args : std::vector<std::vector<std::string_view>>{
           {"GET", "k"},
           {"PING"},
           {"INFO"},
           {"CLIENT", "UNPAUSE"},
           {"SCRIPT", "LOAD", "return 1"},
           {"FUNCTION", "LIST"},
           {"SUBSCRIBE", "ch"},
           {"EXEC"},
           {"EVAL_RO", "return 1", "0"},
           {"FCALL_RO", "f", "0"},
           {"EVAL", "#!lua flags=no-writes\nreturn 1", "0"}}) {
    CAPTURE(args[0]);
    CHECK(rule_of(args) == MayWrite::No);
  }
  CHECK(rule_of({"EVALSHA", "x", "0"}) == MayWrite::SaysScript);
  CHECK(rule_of({"FCALL", "f", "0"}) == MayWrite::SaysFunction);
}

TEST_CASE("a script's first line says whether it writes") {
  CHECK(declares_no_writes("#!lua flags=no-writes\nreturn 1"));
  CHECK(declares_no_writes("#!lua  flags=allow-stale,no-writes \nreturn 1"));
  CHECK_FALSE(declares_no_writes("#!lua\nreturn 1"));
  CHECK_FALSE(declares_no_writes("#!lua flags=\nreturn 1"));
  CHECK_FALSE(declares_no_writes("#!lua flags=allow-stale\nreturn 'flags=no-writes'"));
  CHECK_FALSE(declares_no_writes("#!lua flags=no-writesx\n"));
  CHECK_FALSE(declares_no_writes("#!js flags=no-writes\nreturn 1"));
  CHECK_FALSE(declares_no_writes("return 1 -- #!lua flags=no-writes"));
  CHECK_FALSE(declares_no_writes(""));
}

TEST_CASE("FUNCTION LIST says which functions don't write") {
  const std::string reply =
      "*2\r\n"
      "*6\r\n$12\r\nlibrary_name\r\n$1\r\na\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*"
      "2\r\n"
      "*6\r\n$4\r\nname\r\n$2\r\nf1\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n"
      "*6\r\n$4\r\nname\r\n$2\r\nf2\r\n$11\r\ndescription\r\n$1\r\nx\r\n$5\r\nflags\r\n"
      "*2\r\n+allow-stale\r\n+no-writes\r\n"
      "*6\r\n$12\r\nlibrary_name\r\n$1\r\nb\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*"
      "1\r\n"
      "*6\r\n$4\r\nname\r\n$2\r\nf3\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n"
      "*1\r\n$9\r\nno-writes\r\n";
  CHECK(read_only_functions(reply) == std::unordered_set<std::string>{"f2", "f3"});
  CHECK(read_only_functions("*0\r\n").empty());
  SUBCASE("what is no such reply names none beyond the place where that shows") {
    CHECK(read_only_functions("").empty());
    CHECK(read_only_functions("-ERR x\r\n").empty());
    CHECK(read_only_functions("*1\r\n*2\r\n$9\r\nfunctions\r\n*1\r\n:1\r\n").empty());
    CHECK(read_only_functions(std::string_view(reply).substr(0, reply.size() - 12)) ==
          std::unordered_set<std::string>{"f2"});
  }
}
