#include <doctest/doctest.h>

#include "proxy/control/spread_watch.h"

using proxy::control::SpreadWatch;

namespace {

constexpr SpreadWatch::Rule kRule{1.25, 10'000};

// How many of the next seconds ask for a proposal.
struct Watch {
  int run(int seconds, double spread, bool is_busy = false, SpreadWatch::Rule rule = kRule) {
    int proposals = 0;
    for (int i = 0; i < seconds; ++i) {
      now_ms += 1000;
      proposals += watch.step(rule, spread, is_busy, now_ms) ? 1 : 0;
    }
    return proposals;
  }

  SpreadWatch watch;
  std::uint64_t now_ms = 0;
};

}  // namespace

TEST_CASE("a spread above the threshold for long enough is worth one proposal") {
  Watch w;
  CHECK(w.run(10, 1.4) == 0);
  CHECK(w.run(1, 1.4) == 1);
  CHECK(w.run(100, 1.4) == 0);

  SUBCASE("and another one once it was below") {
    CHECK(w.run(1, 1.1) == 0);
    CHECK(w.run(11, 1.4) == 1);
  }
}

TEST_CASE("a short rise is worth nothing") {
  Watch w;
  for (int i = 0; i < 10; ++i) CHECK(w.run(9, 1.4) + w.run(1, 1.2) == 0);
}

TEST_CASE("while a plan waits or runs nothing is proposed, and the time begins anew behind it") {
  Watch w;
  CHECK(w.run(60, 1.4, true) == 0);
  CHECK(w.run(9, 1.4) == 0);
  CHECK(w.run(2, 1.4) == 1);
}

TEST_CASE("without a threshold nothing is ever proposed") {
  Watch w;
  CHECK(w.run(1000, 5, false, {}) == 0);
}
