#include <doctest/doctest.h>

#include <string>

#include "proxy/control/preflight.h"

using namespace proxy::control;

namespace {

// Slots 0-99 from a to b, 1 MB of keys.
PlanRecord plan() {
  PlanRecord record;
  record.plan.content.moves = {{{0, 99}, "a", "b"}};
  record.forecast.loads = {{"a", {100, 100}}};
  return record;
}

NodeFinding healthy() {
  NodeFinding finding;
  finding.facts.version = "7.0.15";
  finding.facts.run_id = "r";
  finding.facts.role = "master";
  finding.facts.maxmemory_policy = "noeviction";
  finding.is_persistent = true;
  finding.rights_known = true;
  return finding;
}

Findings both_healthy() { return {{"a", healthy()}, {"b", healthy()}}; }

// The results of the checks whose text has this part.
std::string results(const Findings& findings, const std::string& part,
                    const PlanRecord& record = plan()) {
  std::string all;
  for (const admin::PlanCheck& check : judge(record, findings)) {
    CHECK((check.result == "pass") == check.advice.empty());
    if (check.what.find(part) != std::string::npos) all += (all.empty() ? "" : " ") + check.result;
  }
  return all;
}

}  // namespace

TEST_CASE("healthy nodes pass every check") {
  for (const admin::PlanCheck& check : judge(plan(), both_healthy())) {
    CAPTURE(check.what);
    CHECK(check.result == "pass");
  }
}

TEST_CASE("what fails blocks") {
  Findings findings = both_healthy();
  NodeFinding& a = findings["a"];
  NodeFinding& b = findings["b"];
  SUBCASE("a node that does not answer") {
    b.problem = "can't be reached: connection refused";
    CHECK(results(findings, "b can't be reached") == "fail");
  }
  SUBCASE("a replica") {
    b.facts.role = "slave";
    CHECK(results(findings, "b is a replica") == "fail");
  }
  SUBCASE("a target that is older than the source") {
    b.facts.version = "6.2.14";
    CHECK(results(findings, "versions") == "fail");
    a.facts.version = "6.2.1";
    CHECK(results(findings, "versions") == "pass");
  }
  SUBCASE("clocks that differ") {
    a.clock_ms_ahead = -800;
    b.clock_ms_ahead = 800;
    CHECK(results(findings, "clocks") == "fail");
    b.clock_ms_ahead = 100;
    CHECK(results(findings, "clocks") == "pass");
  }
  SUBCASE("keys in other databases of the source, not of the target") {
    b.other_databases = "db3";
    CHECK(results(findings, "db3").empty());
    a.other_databases = "db1";
    CHECK(results(findings, "db1") == "fail");
  }
  SUBCASE("memory") {
    b.facts.used_memory = 500'000;
    b.facts.maxmemory = 1'400'000;
    CHECK(results(findings, "memory of b") == "fail");
    b.facts.maxmemory = 1'600'000;
    CHECK(results(findings, "memory of b") == "warn");
    b.facts.maxmemory = 16'000'000;
    CHECK(results(findings, "memory of b") == "pass");
    b.facts.maxmemory_policy = "allkeys-lru";
    CHECK(results(findings, "evicts") == "warn");
  }
  SUBCASE("rights") {
    b.denied = {"RESTORE"};
    CHECK(results(findings, "b denies RESTORE") == "fail");
    b = healthy();
    b.rights_known = false;
    CHECK(results(findings, "rights on b can't be asked for") == "warn");
  }
  SUBCASE("a node that joins with keys of its own") {
    PlanRecord joining = plan();
    joining.plan.content.edits_before = {slots::AddNode{{"b", 1}}};
    CHECK(results(findings, "joins", joining) == "pass");
    b.facts.keys = 42;
    CHECK(results(findings, "joins with 42 keys", joining) == "fail");
  }
  SUBCASE("a target that keeps nothing") {
    b.is_persistent = false;
    CHECK(results(findings, "neither AOF, RDB nor a replica") == "warn");
  }
}
