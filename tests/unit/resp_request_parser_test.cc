#include <doctest/doctest.h>

#include <climits>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/request_parser.h"

namespace {

using namespace std::string_literals;
using proxy::resp::FrameOutcome;
using proxy::resp::FrameState;
using proxy::resp::parse_inline;
using proxy::resp::parse_request;
using proxy::resp::RequestLimits;

using Words = std::vector<std::string>;

struct Parsed {
  FrameOutcome outcome = FrameOutcome::NeedMore;
  Words args;
  std::size_t length = 0;  // Of a complete frame.
  std::string error;

  friend bool operator==(const Parsed&, const Parsed&) = default;
};

Parsed result_of(const FrameState& frame, FrameOutcome outcome) {
  Parsed parsed;
  parsed.outcome = outcome;
  if (outcome == FrameOutcome::Complete) {
    parsed.args.assign(frame.args.begin(), frame.args.end());
    parsed.length = frame.position;
  }
  if (outcome == FrameOutcome::Invalid) parsed.error = frame.error;
  return parsed;
}

// Parses in memory of exactly this size: a byte read too far is seen by the sanitizer.
Parsed parse_whole(std::string_view bytes, const RequestLimits& limits = {}) {
  auto exact = std::make_unique<char[]>(bytes.size());
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  FrameState frame;
  FrameOutcome outcome = parse_request(frame, exact.get(), bytes.size(), limits);
  return result_of(frame, outcome);
}

// Hands over the bytes up to each of `ends`, at another address each time.
Parsed parse_in_parts(std::string_view bytes, const std::vector<std::size_t>& ends,
                      const RequestLimits& limits = {}) {
  FrameState frame;
  std::unique_ptr<char[]> last;
  FrameOutcome outcome = FrameOutcome::NeedMore;
  for (std::size_t end : ends) {
    auto next = std::make_unique<char[]>(end);
    std::memcpy(next.get(), bytes.data(), end);
    if (last) frame.rebase(last.get(), next.get());
    last = std::move(next);
    outcome = parse_request(frame, last.get(), end, limits);
    if (outcome != FrameOutcome::NeedMore) break;
  }
  return result_of(frame, outcome);
}

std::string error_of(std::string_view bytes, const RequestLimits& limits = {}) {
  Parsed parsed = parse_whole(bytes, limits);
  return parsed.outcome == FrameOutcome::Invalid ? parsed.error : "no error";
}

bool needs_more(std::string_view bytes) {
  return parse_whole(bytes).outcome == FrameOutcome::NeedMore;
}

std::string frame_of(const Words& args) {
  std::string bytes = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) {
    bytes += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  }
  return bytes;
}

struct Inline {
  FrameOutcome outcome;
  Words words;
  std::size_t consumed = 0;
  std::string error;
};

Inline inline_of(std::string_view bytes) {
  Inline parsed;
  parsed.outcome =
      parse_inline(bytes.data(), bytes.size(), parsed.words, parsed.consumed, parsed.error);
  return parsed;
}

const std::vector<Words> kRequests = {
    {"PING"},
    {"GET", "sku:8437008201"},
    {"SET", "sku:1", ""},
    {"SET", "binary", "\r\n$3\r\n\0*\xff"s},
    {"MSET", std::string(9, 'k'), std::string(10, 'v'), std::string(99, 'k'), std::string(100, 'v'),
     std::string(999, 'k'), std::string(1000, 'v')},
    {"", "", ""},
};

}  // namespace

TEST_CASE("a request is an array of bulk strings") {
  for (const Words& args : kRequests) {
    std::string bytes = frame_of(args);
    CAPTURE(bytes);
    Parsed parsed = parse_whole(bytes);
    CHECK(parsed.outcome == FrameOutcome::Complete);
    CHECK(parsed.args == args);
    CHECK(parsed.length == bytes.size());
  }
  SUBCASE("only the first request of several is taken") {
    std::string first = frame_of({"GET", "a"});
    Parsed parsed = parse_whole(first + frame_of({"GET", "b"}));
    CHECK(parsed.args == Words{"GET", "a"});
    CHECK(parsed.length == first.size());
  }
  SUBCASE("an empty or negative array is a request of no arguments") {
    for (std::string_view bytes : {"*0\r\n", "*-1\r\n", "*-77\r\n"}) {
      Parsed parsed = parse_whole(bytes);
      CHECK(parsed.outcome == FrameOutcome::Complete);
      CHECK(parsed.args.empty());
      CHECK(parsed.length == bytes.size());
    }
  }
}

TEST_CASE("where a request is cut does not matter") {
  SUBCASE("two parts, cut anywhere") {
    for (const Words& args : kRequests) {
      std::string bytes = frame_of(args);
      Parsed whole = parse_whole(bytes);
      for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
        CAPTURE(cut);
        REQUIRE(needs_more(bytes.substr(0, cut)));
        REQUIRE(parse_in_parts(bytes, {cut, bytes.size()}) == whole);
      }
    }
  }
  SUBCASE("byte by byte") {
    for (const Words& args : kRequests) {
      std::string bytes = frame_of(args);
      std::vector<std::size_t> ends;
      for (std::size_t end = 1; end <= bytes.size(); ++end) ends.push_back(end);
      CHECK(parse_in_parts(bytes, ends) == parse_whole(bytes));
    }
  }
  SUBCASE("random requests in random parts") {
    for (unsigned seed = 1; seed <= 300; ++seed) {
      CAPTURE(seed);
      std::mt19937 random(seed);
      Words args(1 + random() % 5);
      for (std::string& arg : args) {
        arg.resize(random() % (random() % 4 == 0 ? 2000 : 12));
        for (char& c : arg) c = "\r\n$*19ab"[random() % 8];
      }
      std::string bytes = frame_of(args);
      std::vector<std::size_t> ends;
      for (std::size_t end = 0; end < bytes.size();) {
        end = std::min(bytes.size(), end + 1 + random() % (1 + bytes.size() / 3));
        ends.push_back(end);
      }
      REQUIRE(parse_in_parts(bytes, ends).args == args);
    }
  }
}

TEST_CASE("a broken request gets Redis's text, wherever it is cut") {
  struct Case {
    std::string bytes;
    std::string error;
  };
  const std::vector<Case> cases = {
      {"*x\r\n", "Protocol error: invalid multibulk length"},
      {"*\r\n", "Protocol error: invalid multibulk length"},
      {"*+1\r\n", "Protocol error: invalid multibulk length"},
      {"*01\r\n", "Protocol error: invalid multibulk length"},
      {"*1 \r\n", "Protocol error: invalid multibulk length"},
      {"*-0\r\n", "Protocol error: invalid multibulk length"},
      {"*2147483648\r\n", "Protocol error: invalid multibulk length"},
      {"*99999999999999999999\r\n", "Protocol error: invalid multibulk length"},
      {"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"},
      {"*1\r\nPING\r\n", "Protocol error: expected '$', got 'P'"},
      {"*2\r\n$4\r\nPING\r\n*1\r\n", "Protocol error: expected '$', got '*'"},
      {"*1\r\n$\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$x\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$04\r\nPING\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$4\rxPING\r\n", "Protocol error: invalid bulk length"},
      {"*1\r\n$4\r\nPINGxx", "Protocol error: expected CRLF behind an argument"},
      {"*1\r\n$4\r\nPING\rx", "Protocol error: expected CRLF behind an argument"},
      {"*1\r\n$1000\r\n" + std::string(1000, 'x') + "yy",
       "Protocol error: expected CRLF behind an argument"},
  };
  for (const Case& broken : cases) {
    CAPTURE(broken.bytes);
    CHECK(error_of(broken.bytes) == broken.error);
    std::vector<std::size_t> ends;
    for (std::size_t end = 1; end <= broken.bytes.size(); ++end) {
      ends.push_back(end);
      CHECK(parse_in_parts(broken.bytes, {end, broken.bytes.size()}).error == broken.error);
    }
    CHECK(parse_in_parts(broken.bytes, ends).error == broken.error);
  }
}

TEST_CASE("sizes have limits") {
  SUBCASE("a header without an end is given up above 64 KB") {
    CHECK(needs_more("*" + std::string(65536, '1')));
    CHECK(error_of("*" + std::string(65537, '1')) == "Protocol error: too big mbulk count string");
    CHECK(needs_more("*1\r\n$" + std::string(65536, '1')));
    CHECK(error_of("*1\r\n$" + std::string(65537, '1')) ==
          "Protocol error: too big bulk count string");
    CHECK(error_of("*1\r\nx" + std::string(65537, '1')) ==
          "Protocol error: too big bulk count string");
  }
  SUBCASE("the largest argument is configuration") {
    RequestLimits limits;
    limits.bulk_bytes_max = 4;
    CHECK(parse_whole(frame_of({"PING"}), limits).outcome == FrameOutcome::Complete);
    CHECK(error_of(frame_of({"HELLO"}), limits) == "Protocol error: invalid bulk length");
    limits.bulk_bytes_max = 1000;
    CHECK(error_of("*1\r\n$1001\r\n", limits) == "Protocol error: invalid bulk length");
  }
  SUBCASE("as many arguments as an int can count") {
    CHECK(needs_more("*" + std::to_string(INT_MAX) + "\r\n"));
    CHECK(needs_more("*1\r\n$536870912\r\n"));
  }
  SUBCASE("before a password was given they are small") {
    RequestLimits limits;
    limits.authenticated = false;
    CHECK(parse_whole(frame_of(Words(10, "x")), limits).outcome == FrameOutcome::Complete);
    CHECK(error_of("*11\r\n", limits) == "Protocol error: unauthenticated multibulk length");
    CHECK(parse_whole(frame_of({"AUTH", std::string(16384, 'x')}), limits).outcome ==
          FrameOutcome::Complete);
    CHECK(error_of("*1\r\n$16385\r\n", limits) == "Protocol error: unauthenticated bulk length");
    limits.authenticated = true;
    CHECK(parse_whole(frame_of(Words(11, "x")), limits).outcome == FrameOutcome::Complete);
  }
}

TEST_CASE("an unfinished frame says how much it needs at least") {
  std::string bytes = "*2\r\n$3\r\nGET\r\n$100\r\nab";
  FrameState frame;
  REQUIRE(parse_request(frame, bytes.data(), bytes.size(), {}) == FrameOutcome::NeedMore);
  CHECK(frame.bytes_needed() == bytes.size() - 2 + 102);
  CHECK(frame.args_left == 1);
  CHECK(frame.args.size() == 1);
  SUBCASE("and can be cleared for the next one") {
    frame.clear();
    std::string next = frame_of({"PING"});
    CHECK(parse_request(frame, next.data(), next.size(), {}) == FrameOutcome::Complete);
    CHECK(frame.args.size() == 1);
    CHECK(frame.position == next.size());
  }
}

TEST_CASE("a frame is judged by its argument and by what stands before it, not by their sum") {
  auto unfinished = [](const std::string& bytes) {
    FrameState frame;
    REQUIRE(parse_request(frame, bytes.data(), bytes.size(), {}) == FrameOutcome::NeedMore);
    return frame;
  };
  const std::string key = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n";
  CHECK_FALSE(unfinished(key + "$100\r\nab").is_larger_than(100));
  CHECK(unfinished(key + "$101\r\nab").is_larger_than(100));
  CHECK_FALSE(unfinished(key + "$").is_larger_than(100));
  std::string many = "*4\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$90\r\n" + std::string(90, 'x') + "\r\n";
  CHECK(unfinished(many + "$1\r\n").is_larger_than(100));
  CHECK_FALSE(unfinished(many + "$1\r\n").is_larger_than(200));
}

TEST_CASE("an inline command is one line of words") {
  SUBCASE("parted by blanks, ended by LF or CRLF") {
    CHECK(inline_of("PING\r\n").words == Words{"PING"});
    CHECK(inline_of("PING\n").words == Words{"PING"});
    CHECK(inline_of(" \tset  a\tb  \r\n").words == Words{"set", "a", "b"});
    CHECK(inline_of("a\vb\r\n").words == Words{"a\vb"});
    CHECK(inline_of("GET a\r\nGET b\r\n").words == Words{"GET", "a"});
    CHECK(inline_of("GET a\r\nGET b\r\n").consumed == 7);
  }
  SUBCASE("an empty line has no words") {
    for (std::string_view line : {"\r\n", "\n", "  \r\n"}) {
      CHECK(inline_of(line).outcome == FrameOutcome::Complete);
      CHECK(inline_of(line).words.empty());
      CHECK(inline_of(line).consumed == line.size());
    }
  }
  SUBCASE("double quotes take escapes") {
    CHECK(inline_of("set k \"a b\"\n").words == Words{"set", "k", "a b"});
    CHECK(inline_of(R"("\n\r\t\b\a\\\"\q")"
                    "\n")
              .words == Words{"\n\r\t\b\a\\\"q"});
    CHECK(inline_of(R"("\x00\xfF\x4a\xg1\x4")"
                    "\n")
              .words == Words{"\0\xff\x4axg1x4"s});
    CHECK(inline_of("\"\"\n").words == Words{""});
  }
  SUBCASE("single quotes take one escape alone") {
    CHECK(inline_of(R"('a "b" \n \'c\'')"
                    "\n")
              .words == Words{R"(a "b" \n 'c')"});
    CHECK(inline_of("'' ''\n").words == Words{"", ""});
  }
  SUBCASE("quotes may begin inside a word") {
    CHECK(inline_of("ab\"c d\" e\n").words == Words{"abc d", "e"});
  }
  SUBCASE("quotes must end, and end the word") {
    for (std::string_view line : {"\"a\n", "'a\n", "\"a\"b\n", "'a'b\n", "\"a\\\"\n", "a \"\n",
                                  "\"a\\\n", "\"a\"\"b\"\n"}) {
      CAPTURE(line);
      CHECK(inline_of(line).outcome == FrameOutcome::Invalid);
      CHECK(inline_of(line).error == "Protocol error: unbalanced quotes in request");
    }
  }
  SUBCASE("a line without an end is given up above 64 KB") {
    CHECK(inline_of("GET a").outcome == FrameOutcome::NeedMore);
    CHECK(inline_of(std::string(65536, 'x')).outcome == FrameOutcome::NeedMore);
    CHECK(inline_of(std::string(65537, 'x')).error == "Protocol error: too big inline request");
  }
}
