#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/request_parser.h"
#include "proxy/session/request_stream.h"

namespace {

using proxy::resp::FrameOutcome;
using proxy::resp::FrameState;
using proxy::resp::parse_request;
using proxy::session::FrameSkipper;

std::string frame_of(const std::vector<std::string>& args) {
  std::string bytes = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) {
    bytes += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  }
  return bytes;
}

// Hands the bytes over in random parts, until the frame's end or an error. How many were taken.
std::size_t take_in_parts(FrameSkipper& skipper, std::string_view bytes, std::mt19937& random,
                          std::size_t part_max) {
  std::size_t taken = 0;
  while (taken < bytes.size() && !skipper.is_done() && !skipper.failed()) {
    std::string part(bytes.substr(taken, 1 + random() % part_max));
    std::size_t count = skipper.take(part.data(), part.size());
    taken += count;
    if (count < part.size()) CHECK((skipper.is_done() || skipper.failed()));
  }
  return taken;
}

bool fails(std::string_view rest) {
  FrameSkipper skipper(1, 0);
  skipper.take(rest.data(), rest.size());
  return skipper.failed();
}

}  // namespace

TEST_CASE("the rest of a frame ends where the whole frame ends, wherever it is cut") {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::string> args(1 + random() % 6);
    for (std::string& arg : args) {
      arg.resize(random() % (random() % 3 == 0 ? 3000 : 9));
      for (char& c : arg) c = "\r\n$*0129"[random() % 8];
    }
    std::string frame = frame_of(args);
    std::string bytes = frame + frame_of({"GET", "next"});
    // Where the session stops keeping the request: behind any byte of it.
    FrameState state;
    std::size_t kept = 1 + random() % (frame.size() - 1);
    REQUIRE(parse_request(state, bytes.data(), kept, {}) == FrameOutcome::NeedMore);
    if (state.args_left < 0) continue;
    std::uint64_t of_argument =
        state.bulk_length < 0 ? 0 : static_cast<std::uint64_t>(state.bulk_length) + 2;
    FrameSkipper skipper(state.args_left, of_argument);
    std::size_t taken = take_in_parts(skipper, std::string_view(bytes).substr(state.position),
                                      random, 1 + random() % 700);
    REQUIRE(skipper.is_done());
    REQUIRE_FALSE(skipper.failed());
    REQUIRE(state.position + taken == frame.size());
  }
}

TEST_CASE("a frame without anything to come is done at once") {
  FrameSkipper skipper(0, 0);
  CHECK(skipper.is_done());
  CHECK(skipper.take("*1\r\n", 4) == 0);
}

TEST_CASE("an empty argument is its header and a line end") {
  FrameSkipper skipper(1, 0);
  CHECK(skipper.take("$0\r\n\r\nrest", 10) == 6);
  CHECK(skipper.is_done());
}

TEST_CASE("the largest argument is counted, not kept") {
  FrameSkipper skipper(1, (512ULL << 20) + 2);
  std::string part(1 << 20, 'x');
  for (int i = 0; i < 512; ++i) {
    REQUIRE(skipper.take(part.data(), part.size()) == part.size());
    REQUIRE_FALSE(skipper.is_done());
  }
  CHECK(skipper.take("\r\n$1\r\n", 6) == 2);
  CHECK(skipper.is_done());
}

TEST_CASE("a broken header fails, as it does in a request that is kept") {
  for (std::string_view rest :
       {"*1\r\n", ":1\r\n", "x", "$\r\n", "$x\r\n", "$-1\r\n", "$+1\r\n", "$01\r\na\r\n",
        "$1\rx\r\n", "$536870913\r\n", "$99999999999999999999999\r\n"}) {
    CAPTURE(rest);
    CHECK(fails(rest));
  }
  CHECK_FALSE(fails("$536870912\r\n"));
  SUBCASE("and stays failed") {
    FrameSkipper skipper(2, 0);
    skipper.take("x", 1);
    CHECK(skipper.take("$1\r\na\r\n", 7) == 0);
    CHECK(skipper.failed());
  }
}

TEST_CASE("an argument that does not end in CRLF fails, as it does in a request that is kept") {
  // The bytes are forwarded: a node that reads them otherwise would answer something else.
  FrameSkipper skipper(1, 0);
  std::string_view rest = "$4\r\nPINGxx";
  CHECK(skipper.take(rest.data(), rest.size()) ==
        rest.size() - 2);  // A node must not get it whole.
  CHECK(skipper.failed());
  CHECK(fails("$4\r\nPING\rx"));
  CHECK(fails("$0\r\nab"));
  FrameSkipper cut(1, 0);
  cut.take("$2\r\nab", 6);
  CHECK_FALSE(cut.failed());
  cut.take("\r", 1);
  CHECK_FALSE(cut.failed());
  cut.take("x", 1);
  CHECK(cut.failed());
}
