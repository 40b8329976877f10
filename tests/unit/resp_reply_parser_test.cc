#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/reply_parser.h"

namespace {

using namespace std::string_literals;
using proxy::resp::ReplyParser;

// Feeds one part in memory of exactly its size: a byte read too far is seen by the sanitizer.
// Nothing: more must come, or failed.
std::optional<std::size_t> feed(ReplyParser& parser, std::string_view part) {
  auto exact = std::make_unique<char[]>(part.size());
  std::memcpy(exact.get(), part.data(), part.size());
  const char* reply_end = parser.next(exact.get(), exact.get() + part.size());
  if (reply_end == nullptr) return std::nullopt;
  return static_cast<std::size_t>(reply_end - exact.get());
}

bool fails(std::string_view bytes) {
  ReplyParser parser;
  return !feed(parser, bytes) && parser.failed();
}

bool needs_more(std::string_view bytes) {
  ReplyParser parser;
  return !feed(parser, bytes) && !parser.failed() && parser.is_inside();
}

// Where replies end when the bytes come in parts of random sizes up to `part_max`.
std::vector<std::size_t> ends_in_parts(std::string_view bytes, std::mt19937& random,
                                       std::size_t part_max) {
  std::vector<std::size_t> ends;
  ReplyParser parser;
  std::size_t at = 0;
  while (at < bytes.size() && !parser.failed()) {
    std::string_view part = bytes.substr(at, 1 + random() % part_max);
    std::size_t taken = 0;
    while (taken < part.size()) {
      auto length = feed(parser, part.substr(taken));
      if (!length) break;
      taken += *length;
      ends.push_back(at + taken);
    }
    at += part.size();
  }
  return ends;
}

const std::vector<std::string> kReplies = {
    // RESP2
    "+OK\r\n",
    "+\r\n",
    "-ERR unknown command\r\n",
    ":0\r\n",
    ":-9223372036854775808\r\n",
    ":9223372036854775807\r\n",
    "$0\r\n\r\n",
    "$5\r\nhello\r\n",
    "$6\r\n\r\n$3\r\n\r\n",
    "$12\r\n*2\r\n:1\r\n:2\r\n\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*3\r\n:1\r\n$-1\r\n+a\r\n",
    "*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n$2\r\nab\r\n",
    "$123456\r\n" + std::string(123456, '\n') + "\r\n",
    "$10\r\n" + "\0\xff\r\n\r\n$1*:"s + "\r\n",
    // RESP3
    "_\r\n",
    "#t\r\n",
    "#f\r\n",
    ",3.14\r\n",
    ",-inf\r\n",
    ",nan\r\n",
    "(3492890328409238509324850943850943825024385\r\n",
    "!21\r\nSYNTAX invalid syntax\r\n",
    "=15\r\ntxt:Some string\r\n",
    "%0\r\n",
    "%2\r\n+first\r\n:1\r\n+second\r\n*1\r\n_\r\n",
    "~3\r\n:1\r\n:2\r\n~0\r\n",
    ">3\r\n+message\r\n+channel\r\n$2\r\nhi\r\n",
    "|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n",
    "*2\r\n:1\r\n|1\r\n+a\r\n%1\r\n+b\r\n+c\r\n:2\r\n",
    "|0\r\n|1\r\n+a\r\n|1\r\n+b\r\n+c\r\n+d\r\n+OK\r\n",
};

// A reply of random shape, made without the parser's knowledge.
std::string random_reply(std::mt19937& random, int depth) {
  auto text = [&](std::size_t most, std::string_view letters) {
    std::string made(random() % most, ' ');
    for (char& c : made) c = letters[random() % letters.size()];
    return made;
  };
  std::size_t kinds = depth > 0 ? 12 : 6;
  std::string bytes;
  switch (std::size_t kind = random() % kinds) {
    case 0:
      return "+" + text(20, "abc :$*") + "\r\n";
    case 1:
      return ":" + std::to_string(static_cast<int>(random())) + "\r\n";
    case 2:
    case 3: {
      std::string payload = text(random() % 5 == 0 ? 3000 : 20, "\r\n$*:0a");
      return "$" + std::to_string(payload.size()) + "\r\n" + payload + "\r\n";
    }
    case 4:
      return random() % 2 == 0 ? "$-1\r\n" : "*-1\r\n";
    case 5:
      return random() % 2 == 0 ? "_\r\n" : "#t\r\n";
    default: {
      std::size_t count = random() % 4;
      char type = "*~>%|*"[kind - 6];
      std::size_t values = type == '%' ? 2 * count : type == '|' ? 2 * count + 1 : count;
      bytes = type + std::to_string(count) + "\r\n";
      for (std::size_t i = 0; i < values; ++i) bytes += random_reply(random, depth - 1);
      return bytes;
    }
  }
}

}  // namespace

TEST_CASE("a reply of any type ends where it ends") {
  for (const std::string& reply : kReplies) {
    CAPTURE(reply);
    ReplyParser parser;
    CHECK_FALSE(parser.is_inside());
    CHECK(feed(parser, reply) == reply.size());
    CHECK_FALSE(parser.is_inside());
    CHECK_FALSE(parser.failed());
    CHECK(parser.type() == reply.front());
    // The bytes of the next one are left alone, and read next.
    CHECK(feed(parser, reply + "+next\r\n") == reply.size());
    CHECK(feed(parser, "+next\r\n") == 7);
    CHECK(parser.type() == '+');
  }
}

TEST_CASE("where a reply is cut does not matter") {
  for (const std::string& reply : kReplies) {
    CAPTURE(reply);
    std::size_t step = 1 + reply.size() / 200;
    for (std::size_t cut = 1; cut < reply.size(); cut += step) {
      CAPTURE(cut);
      ReplyParser parser;
      REQUIRE_FALSE(feed(parser, std::string_view(reply).substr(0, cut)));
      REQUIRE(parser.is_inside());
      REQUIRE(parser.type() == reply.front());
      REQUIRE(feed(parser, reply.substr(cut) + "+x\r\n") == reply.size() - cut);
    }
  }
  SUBCASE("one byte after another") {
    for (const std::string& reply : kReplies) {
      CAPTURE(reply);
      ReplyParser parser;
      for (std::size_t i = 0; i + 1 < reply.size(); ++i) {
        REQUIRE_FALSE(feed(parser, std::string_view(reply).substr(i, 1)));
        REQUIRE_FALSE(parser.failed());
      }
      REQUIRE(feed(parser, std::string_view(reply).substr(reply.size() - 1)) == 1);
    }
  }
}

TEST_CASE("a stream of random replies is cut apart in random parts") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::string bytes;
    std::vector<std::size_t> ends;
    for (int i = 0; i < 8; ++i) {
      bytes += random_reply(random, 4);
      ends.push_back(bytes.size());
    }
    REQUIRE(ends_in_parts(bytes, random, 1) == ends);
    REQUIRE(ends_in_parts(bytes, random, 1 + random() % 90) == ends);
    REQUIRE(ends_in_parts(bytes, random, bytes.size()) == ends);
  }
}

TEST_CASE("depth costs nothing") {
  for (std::string_view header : {"*1\r\n", "%1\r\n+k\r\n", "|1\r\n+k\r\n"}) {
    CAPTURE(header);
    std::string deep;
    std::string rest;
    for (int i = 0; i < 2000; ++i) {
      deep += header;
      if (header.front() == '|') rest += ":2\r\n";  // What each attribute belongs to.
    }
    deep += ":1\r\n" + rest;
    ReplyParser parser;
    CHECK(feed(parser, deep + "+x\r\n") == deep.size());
    CHECK(needs_more(std::string_view(deep).substr(0, deep.size() - 4)));
  }
  SUBCASE("not even a million levels") {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += "*1\r\n";
    ReplyParser parser;
    CHECK(feed(parser, deep + "_\r\n") == deep.size() + 3);
  }
}

TEST_CASE("a large reply is waited for without being kept") {
  ReplyParser parser;
  CHECK_FALSE(feed(parser, "$536870912\r\n"));
  std::string part(1 << 20, '\r');
  for (int i = 0; i < 512; ++i) REQUIRE_FALSE(feed(parser, part));
  CHECK(feed(parser, "\r\n:1\r\n") == 2);
}

TEST_CASE("an error or a push tells itself by its first byte") {
  ReplyParser parser;
  feed(parser, "-MOVED 1 a:1\r\n");
  CHECK(parser.type() == '-');
  feed(parser, ">2\r\n+invalidate\r\n_\r\n");
  CHECK(parser.type() == '>');
  feed(parser, "$1\r\na\r\n");
  CHECK(parser.type() == '$');
  CHECK_FALSE(feed(parser, "*1\r\n-ERR inside\r\n").value_or(0) == 0);
  CHECK(parser.type() == '*');
}

TEST_CASE("bytes that are no reply fail, wherever they are cut") {
  for (const std::string& bytes : {
           "x"s,
           "\r\n"s,
           "\0"s,
           "HTTP/1.1 400\r\n"s,
           "*2\r\n:1\r\nx"s,
           "$\r\n"s,
           "*\r\n"s,
           ":\r\n"s,
           ":-\r\n"s,
           "$-\r\n"s,
           "$x\r\n"s,
           "$1x\r\n"s,
           "$+1\r\n"s,
           "$--1\r\n"s,
           "$1-\r\n"s,
           "$-2\r\n"s,
           "*-2\r\n"s,
           "$?\r\n"s,
           "*?\r\n"s,
           ":1.5\r\n"s,
           "$5\n"s,
           "+OK\n"s,
           "+\n"s,
           "-ERR x\n+OK\r\n"s,
           "+a\nb\r\n"s,
           "+a\rb\n"s,
           ",1.5\n"s,
           "*2\r\n+a\n+b\r\n"s,
           "$1\r5\r\n"s,
           "$3\rxabc\r\n"s,
           "$5\rxhello\r\n"s,
           "$5\r\nhelloxx"s,
           "$5\r\nhello\rx"s,
           "$5\r\nhello!\r\n"s,
           "!3\r\nabcde"s,
           "*9999999999999\r\n"s,
           "%999999999999999999\r\n"s,
           "$9999999999999999999\r\n"s,
           "*99999999999999999999999999999\r\n"s,
           ":99999999999999999999\r\n"s,
       }) {
    CAPTURE(bytes);
    CHECK(fails(bytes));
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      CAPTURE(cut);
      ReplyParser parser;
      CHECK_FALSE(feed(parser, std::string_view(bytes).substr(0, cut)));
      if (!parser.failed()) CHECK_FALSE(feed(parser, std::string_view(bytes).substr(cut)));
      CHECK(parser.failed());
    }
  }
}

TEST_CASE("aggregates can't promise more values than anybody sends") {
  CHECK(needs_more("*1000000000\r\n"));
  std::string bytes;
  for (int i = 0; i < 30; ++i) bytes += "*1000000000\r\n";
  CHECK(needs_more(bytes));
  CHECK(fails("*999999999999\r\n*999999999999\r\n"));
}

TEST_CASE("nothing given changes nothing") {
  ReplyParser parser;
  CHECK_FALSE(feed(parser, ""));
  CHECK_FALSE(parser.is_inside());
  feed(parser, "$2\r\na");
  CHECK_FALSE(feed(parser, ""));
  CHECK(feed(parser, "b\r\n") == 3);
}
