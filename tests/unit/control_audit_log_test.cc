#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "proxy/control/audit_log.h"
#include "tests/support/temp_folder.h"

using proxy::control::AuditLog;

TEST_CASE("the audit log keeps who did what, when and why") {
  const tests::TempFolder folder;
  const std::string path = folder.file("audit.log");
  const AuditLog log(path);
  CHECK(log.history({}).empty());
  const admin::HistoryEntry approved{1'790'000'000'123,    12,         "ana",
                                     "uid 1000, pid 4711", "approved", "black friday\n\"now\""};
  const admin::HistoryEntry paused{1'790'000'001'000, 13, "system", "", "paused", "node b is down"};
  REQUIRE(log.append(approved).has_value());
  REQUIRE(log.append(paused).has_value());
  CHECK(log.history({}) == std::vector<admin::HistoryEntry>{approved, paused});
  CHECK(log.history(13) == std::vector<admin::HistoryEntry>{paused});
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  CHECK(line.starts_with("2026-09-21T14:13:20Z {\"at_ms\":1790000000123,\"plan\":12,"));
  SUBCASE("a line that is none is passed over") {
    std::ofstream(path, std::ios::app) << "torn {\"at_ms\":1\n";
    CHECK(AuditLog(path).history({}).size() == 2);
  }
}

TEST_CASE("an audit log that can't be written says so") {
  const AuditLog log("/nowhere/audit.log");
  CHECK_FALSE(log.append({}).has_value());
}
