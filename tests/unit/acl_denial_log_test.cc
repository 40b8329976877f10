#include <doctest/doctest.h>

#include <string>

#include "proxy/acl/denial_log.h"

using proxy::acl::Denial;
using proxy::acl::DenialLog;

namespace {

Denial denial_of(std::string object) {
  Denial denial;
  denial.reason = "key";
  denial.context = "toplevel";
  denial.object = std::move(object);
  denial.user = "app";
  return denial;
}

}  // namespace

TEST_CASE("denials are listed from the newest, alike ones together") {
  DenialLog log;
  log.add(denial_of("a"), 1000);
  log.add(denial_of("b"), 2000);
  log.add(denial_of("a"), 3000);
  auto entries = log.newest(10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].object == "a");
  CHECK(entries[0].count == 2);
  CHECK(entries[0].last_ms == 3000);
  CHECK(entries[1].object == "b");
  CHECK(log.newest(1).size() == 1);
  SUBCASE("after a minute they are others") {
    log.add(denial_of("a"), 63'001);
    CHECK(log.newest(10).size() == 3);
    CHECK(log.newest(10).front().count == 1);
  }
  SUBCASE("one of another user is another one") {
    Denial other = denial_of("a");
    other.user = "eva";
    log.add(other, 3000);
    CHECK(log.newest(10).size() == 3);
  }
  SUBCASE("and forgotten when asked to") {
    log.clear();
    CHECK(log.newest(10).empty());
  }
}

TEST_CASE("neither many denials nor long names grow it") {
  DenialLog log;
  for (int i = 0; i < 1000; ++i) log.add(denial_of(std::to_string(i)), 1000);
  CHECK(log.newest(1000).size() == DenialLog::kEntriesMax);
  CHECK(log.newest(1).front().object == "999");
  log.add(denial_of(std::string(100'000, 'x')), 1000);
  CHECK(log.newest(1).front().object.size() == DenialLog::kTextMax);
}
