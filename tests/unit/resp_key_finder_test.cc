#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/resp/key_finder.h"

namespace {

using proxy::resp::Args;
using proxy::resp::CommandFlag;
using proxy::resp::CommandSpec;
using proxy::resp::CommandTable;
using proxy::resp::KeyRule;

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word == "\"\"" ? "" : word);
  return words;
}

const CommandSpec* spec_of(Args args) {
  const CommandTable& table = *CommandTable::built_in();
  const CommandSpec* spec = table.find(args[0]);
  if (spec == nullptr || spec->rule != KeyRule::Container || args.size() == 1) return spec;
  return table.find_sub(*spec, args[1]);
}

// What find_keys() says of a call: the keys parted by blanks, or the error behind a '-'.
std::string keys_of(const std::vector<std::string>& call) {
  std::vector<std::string_view> args(call.begin(), call.end());
  const CommandSpec* spec = spec_of(args);
  REQUIRE(spec != nullptr);
  std::vector<std::uint32_t> positions = {7};
  if (auto found = proxy::resp::find_keys(*spec, args, positions); !found) {
    CHECK(positions.empty());
    return "-" + found.error().message;
  }
  std::string keys;
  for (std::uint32_t position : positions) {
    REQUIRE(position < args.size());
    keys.append(keys.empty() ? "" : " ").append(args[position]);
  }
  return keys;
}

std::string keys_of(std::string_view call) { return keys_of(words_of(call)); }

bool reads_blocking(std::string_view call) {
  auto words = words_of(call);
  return proxy::resp::block_option(std::vector<std::string_view>(words.begin(), words.end())) > 0;
}

}  // namespace

TEST_CASE("keys are found where a redis-server finds them, and mistakes get its own words") {
  std::ifstream file(std::string(SLOTPROXY_SOURCE_DIR) + "/tests/unit/data/getkeys.txt");
  REQUIRE(file.is_open());
  std::size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::size_t arrow = line.find(" -> ");
    REQUIRE(arrow != std::string::npos);
    bool is_error = line.starts_with("error ");
    std::size_t begin = line.find(' ') + 1;
    auto call = words_of(std::string_view(line).substr(begin, arrow - begin));
    std::vector<std::string_view> args(call.begin(), call.end());
    const CommandSpec* spec = spec_of(args);
    CAPTURE(line);
    REQUIRE(spec != nullptr);
    CHECK(spec->arity_ok(args.size()));
    // Channels are no keys to Redis, but have slots all the same.
    if (spec->has(CommandFlag::PubSub)) continue;
    CHECK(keys_of(call) == (is_error ? "-" : "") + line.substr(arrow + 4));
    ++compared;
  }
  CHECK(compared > 2000);
}

TEST_CASE("sharded channels count as keys") {
  CHECK(keys_of("SPUBLISH news hello") == "news");
  CHECK(keys_of("SSUBSCRIBE a b") == "a b");
  CHECK(keys_of("SUNSUBSCRIBE") == "");
  CHECK(keys_of("PUBLISH news hello") == "");
}

TEST_CASE("a number of keys in the millions is an error, not work") {
  CHECK(keys_of("EVAL s 4294967295 a") ==
        "-ERR Number of keys can't be greater than number of args");
  CHECK(keys_of("ZUNION 9223372036854775807 a") == "-ERR syntax error");
  CHECK(keys_of("ZUNION -9223372036854775808 a") ==
        "-ERR at least 1 input key is needed for 'zunion' command");
}

TEST_CASE("a script without keys has none") {
  CHECK(keys_of("EVAL s 0 a b") == "");
  CHECK(keys_of("FCALL_RO f 0") == "");
}

TEST_CASE("the last STORE or STOREDIST of GEORADIUS is the one that counts") {
  CHECK(keys_of("GEORADIUS k 1 2 3 km STORE a STOREDIST b") == "k b");
  CHECK(keys_of("GEORADIUSBYMEMBER k m 3 km storedist store") == "k store");
  CHECK(keys_of("GEORADIUS k 1 2 3 km STORE") == "k");
}

TEST_CASE("words that are values of options are not options") {
  SUBCASE("of SORT") { CHECK(keys_of("SORT k BY store GET store LIMIT store x") == "k"); }
  SUBCASE("of XREADGROUP") {
    CHECK(keys_of("XREADGROUP GROUP streams streams COUNT 2 STREAMS a b 0 0") == "a b");
    CHECK(keys_of("XREADGROUP GROUP count block STREAMS a >") == "a");
  }
}

TEST_CASE("a read of streams blocks when BLOCK is among its options") {
  CHECK(reads_blocking("XREAD BLOCK 0 STREAMS a $"));
  CHECK(reads_blocking("XREAD COUNT 1 block 0 STREAMS a $"));
  CHECK(reads_blocking("XREADGROUP GROUP streams c BLOCK 0 STREAMS a >"));
  CHECK_FALSE(reads_blocking("XREADGROUP GROUP block block STREAMS a >"));
  CHECK_FALSE(reads_blocking("XREAD STREAMS block $"));
  CHECK_FALSE(reads_blocking("XREAD COUNT"));
}

TEST_CASE("a learned command whose keys nobody can tell is refused") {
  CommandSpec spec;
  spec.name = "mystery";
  spec.rule = KeyRule::Unknown;
  std::vector<std::string_view> args = {"mystery", "a"};
  std::vector<std::uint32_t> positions;
  auto found = proxy::resp::find_keys(spec, args, positions);
  REQUIRE_FALSE(found);
  CHECK(found.error().message ==
        "ERR the keys of 'mystery' can't be told from what the nodes say of it");
}

TEST_CASE("What a command does with each key is what the server says") {
  std::ifstream file(SLOTPROXY_SOURCE_DIR "/tests/unit/data/keyaccess.txt");
  constexpr const char* kNames[] = {"Neither", "Read", "Write", "Both"};
  std::size_t calls = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t arrow = line.find(" -> ");
    REQUIRE(arrow != std::string::npos);
    const std::vector<std::string> call = words_of(line.substr(0, arrow));
    const std::vector<std::string_view> args(call.begin(), call.end());
    const CommandSpec* spec = spec_of(args);
    REQUIRE(spec != nullptr);
    std::vector<std::uint32_t> positions;
    REQUIRE(proxy::resp::find_keys(*spec, args, positions));
    std::string said;
    for (std::size_t place = 0; place < positions.size(); ++place) {
      const auto access = proxy::resp::key_access(*spec, args, place);
      said.append(said.empty() ? "" : " ").append(kNames[static_cast<std::size_t>(access)]);
    }
    INFO(line);
    CHECK(said == line.substr(arrow + 4));
    ++calls;
  }
  CHECK(calls > 400);
}
