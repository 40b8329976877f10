#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "proxy/resp/reply_cursor.h"

namespace {

using proxy::resp::ReplyCursor;

// What read_header() says of the first value: its type and count, "nothing" when malformed.
std::string header_of(std::string_view bytes) {
  ReplyCursor cursor(bytes);
  auto header = cursor.read_header();
  return header ? header->type + std::to_string(header->count) : "nothing";
}

bool is_whole(std::string_view bytes) {
  ReplyCursor cursor(bytes);
  return cursor.skip() && cursor.at_end();
}

}  // namespace

TEST_CASE("a header says what a value is and how much belongs to it") {
  CHECK(header_of("*2\r\n:1\r\n:2\r\n") == "*2");
  CHECK(header_of("~1\r\n:1\r\n") == "~1");
  CHECK(header_of(">1\r\n:1\r\n") == ">1");
  CHECK(header_of("%1\r\n+a\r\n:1\r\n") == "%1");
  CHECK(header_of("$3\r\nabc\r\n") == "$3");
  CHECK(header_of("*0\r\n") == "*0");
  CHECK(header_of("+OK\r\n") == "+0");
  CHECK(header_of("-ERR\r\n") == "-0");
}

TEST_CASE("a null is a count of -1, in both protocols") {
  CHECK(header_of("$-1\r\n") == "$-1");
  CHECK(header_of("*-1\r\n") == "*-1");
  CHECK(header_of("_\r\n") == "_-1");
  CHECK(header_of("%-1\r\n") == "nothing");
  CHECK(header_of("*-2\r\n") == "nothing");
}

TEST_CASE("strings are read whole, whatever they hold") {
  ReplyCursor cursor("$4\r\na\r\nb\r\n+OK\r\n=7\r\ntxt:abc\r\n$0\r\n\r\n");
  CHECK(cursor.read_bulk() == "a\r\nb");
  CHECK(cursor.read_bulk() == "OK");
  CHECK(cursor.read_bulk() == "abc");
  CHECK(cursor.read_bulk() == "");
  CHECK(cursor.at_end());
  CHECK_FALSE(cursor.read_bulk());
}

TEST_CASE("a string is not read out of what is none") {
  for (std::string_view bytes : {"$-1\r\n", "_\r\n", ":1\r\n", "-ERR\r\n", "*1\r\n$1\r\na\r\n"}) {
    CAPTURE(std::string(bytes));
    CHECK_FALSE(ReplyCursor(bytes).read_bulk());
  }
}

TEST_CASE("integers are read within 64 bits") {
  ReplyCursor cursor(":0\r\n:-7\r\n:9223372036854775807\r\n:-9223372036854775808\r\n");
  CHECK(cursor.read_integer() == 0);
  CHECK(cursor.read_integer() == -7);
  CHECK(cursor.read_integer() == INT64_MAX);
  CHECK(cursor.read_integer() == INT64_MIN);
  for (std::string_view bytes : {":\r\n", ":1x\r\n", ": 1\r\n", ":9223372036854775808\r\n", ":1\r",
                                 ":1", "$1\r\n1\r\n", ""}) {
    CAPTURE(std::string(bytes));
    CHECK_FALSE(ReplyCursor(bytes).read_integer());
  }
}

TEST_CASE("a whole value is passed over or taken with all that it holds") {
  std::string_view nested =
      "*3\r\n%1\r\n+k\r\n~1\r\n,1.5\r\n$-1\r\n*2\r\n#t\r\n(12345678901234567890\r\n";
  std::string reply = std::string(nested) + ":1\r\n";
  SUBCASE("passed over") {
    ReplyCursor cursor(reply);
    CHECK(cursor.skip());
    CHECK(cursor.read_integer() == 1);
  }
  SUBCASE("taken") {
    ReplyCursor cursor(reply);
    CHECK(cursor.read_raw() == nested);
    CHECK(cursor.read_raw() == ":1\r\n");
    CHECK(cursor.read_raw().empty());
  }
  SUBCASE("the parts of an aggregate one by one") {
    ReplyCursor cursor(reply);
    CHECK(cursor.read_header());
    CHECK(cursor.read_raw() == "%1\r\n+k\r\n~1\r\n,1.5\r\n");
    CHECK(cursor.read_raw() == "$-1\r\n");
  }
}

TEST_CASE("depth costs no stack") {
  std::string deep;
  for (int i = 0; i < 1000000; ++i) deep += "*1\r\n";
  CHECK(is_whole(deep + ":1\r\n"));
  CHECK_FALSE(is_whole(deep));
}

TEST_CASE("a count that the bytes behind it can't hold is refused before anybody reserves for it") {
  CHECK(header_of("*1000000000\r\n:1\r\n") == "nothing");
  CHECK(header_of("%2\r\n+a\r\n:1\r\n") == "nothing");
  CHECK(header_of("$10\r\nabc\r\n") == "nothing");
  CHECK(header_of("*9223372036854775807\r\n") == "nothing");
  CHECK(header_of("*99999999999999999999\r\n") == "nothing");
  CHECK(header_of("*\r\n") == "nothing");
  CHECK(header_of("*1x\r\n") == "nothing");
}

TEST_CASE("a string must end where its length says") {
  CHECK_FALSE(ReplyCursor("$3\r\nabcd\r\n").read_bulk());
  CHECK_FALSE(ReplyCursor("$5\r\nabc\r\n").read_bulk());
  CHECK_FALSE(ReplyCursor("$3\r\nabc\n\r").read_bulk());
  CHECK_FALSE(ReplyCursor("=3\r\nabc\r\n").read_bulk());
  CHECK_FALSE(ReplyCursor("=5\r\nabcde\r\n").read_bulk());
}

TEST_CASE("a reply that is cut short is never whole") {
  std::string reply =
      "*4\r\n$3\r\nabc\r\n%1\r\n+k\r\n:1\r\n=7\r\ntxt:abc\r\n*2\r\n_\r\n~1\r\n#f\r\n";
  REQUIRE(is_whole(reply));
  for (std::size_t size = 0; size < reply.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(is_whole(std::string_view(reply).substr(0, size)));
  }
}

TEST_CASE("changed bytes are read or refused, within their bounds") {
  const std::string reply =
      "*4\r\n$3\r\nabc\r\n%1\r\n+k\r\n:1\r\n=7\r\ntxt:abc\r\n*2\r\n_\r\n~1\r\n#f\r\n";
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = reply;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    std::vector<char> exact(changed.begin(), changed.end());  // Its end is watched by sanitizers.
    ReplyCursor cursor({exact.data(), exact.size()});
    for (int step = 0; step < 20 && !cursor.at_end(); ++step) {
      switch (random() % 4) {
        case 0:
          (void)cursor.read_header();
          break;
        case 1:
          (void)cursor.read_bulk();
          break;
        case 2:
          (void)cursor.read_integer();
          break;
        default:
          (void)cursor.skip();
      }
    }
  }
}
