#include <doctest/doctest.h>

#include "conf/value_types.h"

using namespace conf;

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
