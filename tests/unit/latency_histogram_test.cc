#include "proxy/latency_histogram.h"

#include <doctest/doctest.h>

using proxy::LatencyHistogram;

TEST_CASE("a quantile is right to an eighth, and never too low") {
  for (const std::uint64_t value : {8ULL, 9ULL, 100ULL, 999ULL, 4600ULL, 1'000'000ULL}) {
    CAPTURE(value);
    LatencyHistogram histogram;
    histogram.add(value);
    CHECK(histogram.quantile(0.99) >= value);
    CHECK(histogram.quantile(0.99) <= value + value / 8 + 1);
  }
  CHECK(LatencyHistogram().quantile(0.99) == 0);
}

TEST_CASE("one slow answer in a hundred does not make the p99, two do") {
  LatencyHistogram histogram;
  for (int i = 0; i < 198; ++i) histogram.add(100);
  histogram.add(50'000);
  CHECK(histogram.quantile(0.99) < 120);
  histogram.add(50'000);
  histogram.add(50'000);
  CHECK(histogram.quantile(0.99) > 49'000);
}

TEST_CASE("histograms add up, fade, and bear what no node should take") {
  LatencyHistogram one;
  LatencyHistogram other;
  for (int i = 0; i < 10; ++i) one.add(100);
  for (int i = 0; i < 30; ++i) other.add(~std::uint64_t{0});
  one.merge(other);
  CHECK(one.total() == 40);
  CHECK(one.quantile(0.1) < 120);
  CHECK(one.quantile(0.5) > 60'000'000);
  one.fade();
  CHECK(one.total() == 20);
}
