#include <doctest/doctest.h>

#include "conf/units.h"

TEST_CASE("sizes have units of powers of 10 and of 2") {
  CHECK(conf::parse_size("64MB").value() == 64'000'000);
  CHECK(conf::parse_size("64 MB").value() == 64'000'000);
  CHECK(conf::parse_size("1MiB").value() == 1'048'576);
  CHECK(conf::parse_size("2KB").value() == 2'000);
  CHECK(conf::parse_size("2KiB").value() == 2'048);
  CHECK(conf::parse_size("1.5GB").value() == 1'500'000'000);
  CHECK(conf::parse_size("0.5KiB").value() == 512);
  CHECK(conf::parse_size("17B").value() == 17);
  CHECK(conf::parse_size("17").value() == 17);
  SUBCASE("anything else is refused") {
    for (const char* text :
         {"", "MB", "64 XB", "64mb", "64M", "-1MB", "1.5B", "1..5MB", ".", "1.", ".5MB", "1e6",
          "99999999999999999999GB", "2000000GiB", "0.0000000001GB", "64MB "}) {
      CAPTURE(text);
      CHECK_FALSE(conf::parse_size(text).has_value());
    }
  }
}

TEST_CASE("sizes are printed as short as exactness allows") {
  CHECK(conf::print_size(64'000'000) == "64MB");
  CHECK(conf::print_size(65'536) == "64KiB");
  CHECK(conf::print_size(512ULL << 20) == "512MiB");
  CHECK(conf::print_size(1'024'000) == "1024KB");
  CHECK(conf::print_size(1'234'567) == "1234567B");
  CHECK(conf::print_size(0) == "0");
}

TEST_CASE("durations have units") {
  CHECK(conf::parse_duration("250ms").value().count() == 250);
  CHECK(conf::parse_duration("3s").value().count() == 3'000);
  CHECK(conf::parse_duration("1.5s").value().count() == 1'500);
  CHECK(conf::parse_duration("2m").value().count() == 120'000);
  CHECK(conf::parse_duration("1h").value().count() == 3'600'000);
  CHECK(conf::parse_duration("0").value().count() == 0);
  CHECK(conf::parse_duration("0s").value().count() == 0);
  for (const char* text : {"", "3", "s", "-3s", "3sec", "3 d", "1.5ms", "9000h", "1s500ms"}) {
    CAPTURE(text);
    CHECK_FALSE(conf::parse_duration(text).has_value());
  }
}

TEST_CASE("durations are printed as people write them") {
  CHECK(conf::print_duration(conf::Milliseconds{1'500}) == "1500ms");
  CHECK(conf::print_duration(conf::Milliseconds{60'000}) == "60s");
  CHECK(conf::print_duration(conf::Milliseconds{120'000}) == "2m");
  CHECK(conf::print_duration(conf::Milliseconds{7'200'000}) == "2h");
  CHECK(conf::print_duration(conf::Milliseconds{0}) == "0");
}

TEST_CASE("what is printed reads back to the same value") {
  for (const conf::ByteCount bytes :
       {0ULL, 1ULL, 999ULL, 1'000ULL, 1'024ULL, 1'000'000ULL, 1ULL << 40}) {
    CHECK(conf::parse_size(conf::print_size(bytes)).value() == bytes);
  }
  for (const int milliseconds : {0, 1, 999, 1'000, 60'000, 61'000, 3'600'000, 3'600'001}) {
    CHECK(conf::parse_duration(conf::print_duration(conf::Milliseconds{milliseconds}))
              .value()
              .count() == milliseconds);
  }
  for (const double weight : {0.0, 0.1, 1.0, 2.5, 1.0 / 3, 1e6}) {
    CHECK(conf::parse_weight(conf::print_weight(weight)).value() == weight);
  }
}

TEST_CASE("a rate is a size per second, or unlimited") {
  CHECK(conf::parse_rate("20MB/s").value() == 20'000'000);
  CHECK(conf::parse_rate("unlimited").value() == 0);
  for (const std::uint64_t rate : {0ULL, 1ULL, 500'000ULL, 1ULL << 20})
    CHECK(conf::parse_rate(conf::print_rate(rate)).value() == rate);
  for (const char* text : {"", "20MB", "0MB/s", "MB/s", "20 apples/s", "-1MB/s"}) {
    CAPTURE(text);
    CHECK_FALSE(conf::parse_rate(text).has_value());
  }
}
