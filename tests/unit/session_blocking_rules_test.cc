#include <doctest/doctest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/session/blocking_rules.h"

namespace {

struct Call {
  std::vector<std::string> words;
  std::vector<std::string_view> args;
  const proxy::resp::CommandSpec* spec;

  explicit Call(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) words.push_back(word);
    args.assign(words.begin(), words.end());
    spec = proxy::resp::CommandTable::built_in()->find(args.front());
    REQUIRE(spec != nullptr);
  }
};

std::optional<std::uint64_t> time_of(const std::string& text) {
  const Call call(text);
  return proxy::session::blocking_time(*call.spec, call.args);
}

// A request in RESP as words again.
std::string words_of(const std::string& request) {
  std::string words;
  std::istringstream in(request);
  for (std::string line; std::getline(in, line);) {
    if (line.front() == '*' || (line.front() == '$' && line.size() > 2)) continue;
    words += (words.empty() ? "" : " ") + line.substr(0, line.find('\r'));
  }
  return words;
}

std::string with_time(const std::string& text, std::uint64_t time_ms) {
  const Call call(text);
  return words_of(proxy::session::with_time(*call.spec, call.args, time_ms));
}

}  // namespace

TEST_CASE("each blocking command says its time in its own place and unit") {
  CHECK(time_of("BLPOP a b 1.5") == 1500);
  CHECK(time_of("BRPOP a 0") == 0);
  CHECK(time_of("BLMOVE a b LEFT RIGHT 2") == 2000);
  CHECK(time_of("BRPOPLPUSH a b 3") == 3000);
  CHECK(time_of("BLMPOP 4 1 a LEFT COUNT 10") == 4000);
  CHECK(time_of("BZMPOP 0.25 1 a MIN") == 250);
  CHECK(time_of("BZPOPMIN a 1") == 1000);
  CHECK(time_of("BZPOPMAX a 1e1") == 10'000);
  CHECK(time_of("WAIT 1 700") == 700);
  CHECK(time_of("XREAD COUNT 2 BLOCK 700 STREAMS a $") == 700);
  CHECK(time_of("XREADGROUP GROUP block c BLOCK 0 STREAMS a >") == 0);
  CHECK(time_of("XREAD STREAMS block 0") == std::nullopt);
}

TEST_CASE("less than a millisecond blocks for one, and what is no time is the node's to refuse") {
  CHECK(time_of("BLPOP a 0.0001") == 1);
  for (const char* text : {"BLPOP a x", "BLPOP a -1", "BLPOP a 1x", "BLPOP a nan", "BLPOP a 1e300",
                           "XREAD BLOCK x STREAMS a 0", "XREAD BLOCK -1 STREAMS a 0", "WAIT 1 x"}) {
    CAPTURE(text);
    CHECK(time_of(text) == std::nullopt);
  }
}

TEST_CASE("a request is said again for the rest of its time") {
  CHECK(with_time("BLPOP a b 5", 1) == "BLPOP a b 0.001");
  CHECK(with_time("BLMOVE a b LEFT RIGHT 5", 4999) == "BLMOVE a b LEFT RIGHT 4.999");
  CHECK(with_time("BZMPOP 5 1 a MIN", 1020) == "BZMPOP 1.020 1 a MIN");
  CHECK(with_time("XREAD BLOCK 500 STREAMS a 0", 7) == "XREAD BLOCK 7 STREAMS a 0");
}

TEST_CASE("ids that mean the last entry of now are found and replaced") {
  const Call call("XREAD BLOCK 0 STREAMS {a}1 {a}$ {a}3 $ 0-1 $");
  const auto found = proxy::session::ids_of_now(*call.spec, call.args);
  REQUIRE(found.size() == 2);
  CHECK(call.args[found[0].stream] == "{a}1");
  CHECK(call.args[found[1].stream] == "{a}3");
  CHECK(words_of(proxy::session::with_ids(call.args, found, {"5-0", "7-1"})) ==
        "XREAD BLOCK 0 STREAMS {a}1 {a}$ {a}3 5-0 0-1 7-1");
  const Call group("XREADGROUP GROUP g c BLOCK 0 STREAMS a >");
  CHECK(proxy::session::ids_of_now(*group.spec, group.args).empty());
}

TEST_CASE("the last id of a stream is in its node's description, whole or cut") {
  using proxy::session::last_id_in;
  CHECK(last_id_in("*20\r\n$6\r\nlength\r\n:1\r\n$17\r\nlast-generated-id\r\n$5\r\n12-34\r\n$20") ==
        "12-34");
  CHECK(last_id_in("-ERR no such key\r\n") == "0-0");
  CHECK(last_id_in("-LOADING Redis is loading\r\n") == std::nullopt);
  CHECK(last_id_in("") == std::nullopt);
}
