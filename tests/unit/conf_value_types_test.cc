#include <doctest/doctest.h>

#include "conf/value_types.h"

using namespace conf;

TEST_CASE("a latency is a duration, a factor, or off") {
  CHECK(value::Latency::parse("5ms").value().at_most == Milliseconds(5));
  CHECK(value::Latency::parse("1.5x").value().times_usual == 1.5);
  CHECK_FALSE(value::Latency::parse("off").value().is_set());
  for (const char* text : {"5ms", "2s", "1.5x", "10x", "off"})
    CHECK(value::Latency::print(value::Latency::parse(text).value()) == text);
  for (const char* text : {"", "x", "1x", "0.5x", "0", "0ms", "-5ms", "5", "fast", "5ms x"}) {
    CAPTURE(text);
    CHECK_FALSE(value::Latency::parse(text).has_value());
  }
}

TEST_CASE("a spread is a number above 1, or off") {
  CHECK(value::Spread::parse("1.25").value() == 1.25);
  CHECK(value::Spread::parse("off").value() == 0);
  CHECK(value::Spread::print(1.25) == "1.25");
  CHECK(value::Spread::print(0) == "off");
  for (const char* text : {"", "1", "0.5", "-2", "125%", "on"}) {
    CAPTURE(text);
    CHECK_FALSE(value::Spread::parse(text).has_value());
  }
}

TEST_CASE("a measure is one of four words") {
  CHECK(value::MeasureName::parse("bytes").value() == slots::Measure::Bytes);
  CHECK(value::MeasureName::print(slots::Measure::Operations) == "ops");
  CHECK(value::MeasureName::parse("key").error().message.find("did you mean \"keys\"?") !=
        std::string::npos);
}
