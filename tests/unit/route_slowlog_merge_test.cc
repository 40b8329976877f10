#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proxy/route/slowlog_merge.h"

using proxy::route::merge_slowlogs;

namespace {

constexpr std::string_view kFirst =
    "*2\r\n*6\r\n:7\r\n:100\r\n:20\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nx\r\n$0\r\n\r\n"
    "*6\r\n:3\r\n:90\r\n:21\r\n*1\r\n$4\r\nPING\r\n$1\r\nx\r\n$0\r\n\r\n";
constexpr std::string_view kSecond =
    "*1\r\n*6\r\n:7\r\n:95\r\n:22\r\n*1\r\n$4\r\nINFO\r\n$1\r\ny\r\n$0\r\n\r\n";

}  // namespace

TEST_CASE("entries of all nodes come newest first, and no two have the same id") {
  CHECK(merge_slowlogs(std::vector{kFirst, kSecond}, 10) ==
        "*3\r\n"
        "*6\r\n:14\r\n:100\r\n:20\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nx\r\n$0\r\n\r\n"
        "*6\r\n:15\r\n:95\r\n:22\r\n*1\r\n$4\r\nINFO\r\n$1\r\ny\r\n$0\r\n\r\n"
        "*6\r\n:6\r\n:90\r\n:21\r\n*1\r\n$4\r\nPING\r\n$1\r\nx\r\n$0\r\n\r\n");
}

TEST_CASE("no more entries are shown than were asked for, and none of empty logs") {
  const auto two = merge_slowlogs(std::vector{kFirst, kSecond}, 2);
  REQUIRE(two.has_value());
  CHECK(two->starts_with("*2\r\n*6\r\n:14\r\n:100\r\n"));
  CHECK(merge_slowlogs(std::vector{kFirst, kSecond}, 0) == "*0\r\n");
  CHECK(merge_slowlogs(std::vector<std::string_view>{"*0\r\n", "*0\r\n"}, 10) == "*0\r\n");
}

TEST_CASE("what no Redis says gives nothing") {
  for (const std::string_view reply :
       {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*1\r\n:1\r\n", "*1\r\n*3\r\n:1\r\n$1\r\nx\r\n:2\r\n",
        "*2\r\n*2\r\n:1\r\n:2\r\n", "*1\r\n*3\r\n:1\r\n:2\r\n"}) {
    CAPTURE(reply);
    CHECK_FALSE(merge_slowlogs(std::vector{reply}, 10).has_value());
  }
}
