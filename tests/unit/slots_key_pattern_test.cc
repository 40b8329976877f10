#include <doctest/doctest.h>

#include <limits>

#include "slots/key_pattern.h"

namespace {

using slots::KeyPattern;

std::string key_of(const char* pattern, std::uint64_t number) {
  return KeyPattern::parse(pattern).value().key(number);
}

TEST_CASE("a pattern puts the number where its %d stands") {
  CHECK(key_of("P-2026-%06d", 1) == "P-2026-000001");
  CHECK(key_of("P-2026-%06d", 1234567) == "P-2026-1234567");
  CHECK(key_of("%d", 42) == "42");
  CHECK(key_of("a%db", 7) == "a7b");
  CHECK(key_of("[%4d]", 7) == "[   7]");
  CHECK(key_of("%d%%", 5) == "5%");
  CHECK(key_of("%%d{%03d}", 5) == "%d{005}");
  CHECK(key_of("%0d", 5) == "5");
  CHECK(key_of("%d", std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  CHECK(key_of("%064d", 1).size() == 64);
}

TEST_CASE("anything else that printf would act on is refused with what would be right") {
  for (const char* text : {"",      "key", "%",    "%%",    "%s",
                           "%n",    "%x",  "%ld",  "%-5d",  "%+d",
                           "% d",   "%*d", "%.3d", "%1$d",  "%d%d",
                           "%d-%s", "%d%", "%5",   "%065d", "%99999999999999999999999d"}) {
    CAPTURE(text);
    const auto pattern = KeyPattern::parse(text);
    REQUIRE_FALSE(pattern.has_value());
    CHECK(pattern.error().code == slots::Errc::InvalidArgument);
    CHECK(pattern.error().message.find("write one %d or %06d") != std::string::npos);
  }
}

}  // namespace
