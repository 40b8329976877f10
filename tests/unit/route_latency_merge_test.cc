#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "proxy/route/latency_merge.h"

using namespace proxy::route;
using Replies = std::vector<std::string_view>;

TEST_CASE("histograms add up bucket by bucket, and a node counts where it names no bucket too") {
  const Replies replies{
      "*4\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:3\r\n$14\r\nhistogram_usec\r\n*4\r\n:1\r\n:2\r\n:"
      "8\r\n:3\r\n"
      "$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:2\r\n:1\r\n",
      "*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:5\r\n$14\r\nhistogram_usec\r\n*2\r\n:4\r\n:5\r\n"};
  CHECK(merge_latency_histograms(replies, false) ==
        "*4\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:8\r\n$14\r\nhistogram_usec\r\n"
        "*6\r\n:1\r\n:2\r\n:4\r\n:7\r\n:8\r\n:8\r\n"
        "$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n*2\r\n:2\r\n:1\r\n");
}

TEST_CASE("histograms are maps in RESP3") {
  CHECK(
      merge_latency_histograms(Replies{"%1\r\n$3\r\nset\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$"
                                       "14\r\nhistogram_usec\r\n%1\r\n:2\r\n:1\r\n",
                                       "%0\r\n"},
                               true) ==
      "%1\r\n$3\r\nset\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n%1\r\n:2\r\n:1\r\n");
}

TEST_CASE("of an event the newest spike of all nodes is shown, and the longest") {
  CHECK(
      merge_latency_latest(Replies{"*2\r\n*4\r\n$7\r\ncommand\r\n:100\r\n:30\r\n:900\r\n*4\r\n$"
                                   "4\r\nfork\r\n:5\r\n:6\r\n:7\r\n",
                                   "*1\r\n*4\r\n$7\r\ncommand\r\n:101\r\n:40\r\n:50\r\n",
                                   "*0\r\n"}) ==
      "*2\r\n*4\r\n$7\r\ncommand\r\n:101\r\n:40\r\n:900\r\n*4\r\n$4\r\nfork\r\n:5\r\n:6\r\n:7\r\n");
}

TEST_CASE("a history is in the order of time, with the longest spike of a second") {
  CHECK(merge_latency_history(Replies{"*2\r\n*2\r\n:10\r\n:5\r\n*2\r\n:12\r\n:6\r\n",
                                      "*2\r\n*2\r\n:11\r\n:1\r\n*2\r\n:12\r\n:9\r\n"}) ==
        "*3\r\n*2\r\n:10\r\n:5\r\n*2\r\n:11\r\n:1\r\n*2\r\n:12\r\n:9\r\n");
}

TEST_CASE("what no Redis says to LATENCY gives nothing") {
  for (const std::string_view reply :
       {"+OK\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "*1\r\n:1\r\n", "*1\r\n*1\r\n:1\r\n",
        "*2\r\n$1\r\na\r\n*2\r\n$5\r\ncalls\r\n$1\r\nx\r\n"}) {
    CAPTURE(reply);
    CHECK_FALSE(merge_latency_latest(Replies{reply}).has_value());
    CHECK_FALSE(merge_latency_history(Replies{reply}).has_value());
    CHECK_FALSE(merge_latency_histograms(Replies{reply}, false).has_value());
  }
}
