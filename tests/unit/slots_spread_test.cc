#include <doctest/doctest.h>

#include "slots/spread.h"

using slots::spread_of;

TEST_CASE("the spread is the largest load over the share that the weight gives") {
  CHECK(spread_of({10, 10}, {1, 1}) == 1);
  CHECK(spread_of({30, 10}, {1, 1}) == 1.5);
  CHECK(spread_of({30, 10}, {3, 1}) == 1);
  CHECK(spread_of({40, 0}, {1, 3}) == 4);
}

TEST_CASE("a node that should own nothing makes others no fuller, and no load is even") {
  CHECK(spread_of({10, 10, 5}, {1, 1, 0}) == doctest::Approx(1));
  CHECK(spread_of({0, 0}, {1, 1}) == 1);
  CHECK(spread_of({1, 1}, {1e308, 1e308}) == doctest::Approx(1));
}
