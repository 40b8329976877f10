#include <doctest/doctest.h>

#include <string>

#include "proxy/control/plan_checks.h"

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
  finding.rights.are_known = true;
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
  SUBCASE("a target that can't read what the source dumps") {
    b.facts.version = "6.2.14";
    CHECK(results(findings, "versions") == "warn");
    a.facts.version = "6.2.1";
    CHECK(results(findings, "versions") == "pass");
    a.payload_version = 12;
    b.payload_version = 11;
    CHECK(results(findings, "payloads of version 12, and b reads up to 11") == "warn");
    b.payload_version = 12;
    CHECK(results(findings, "versions") == "pass");
  }
  SUBCASE("clocks that differ, as far as that is certain") {
    a.clock_ms_ahead = -800;
    b.clock_ms_ahead = 800;
    CHECK(results(findings, "clocks") == "fail");
    b.clock_ms_doubt = 700;
    CHECK(results(findings, "clocks") == "warn");
    b.clock_ms_ahead = -740;
    b.clock_ms_doubt = 5;
    CHECK(results(findings, "clocks") == "warn");
    b.clock_ms_doubt = 20;
    CHECK(results(findings, "clocks") == "pass");
  }
  SUBCASE("databases, which the target needs where the source has keys") {
    b.other_databases = {9};
    CHECK(results(findings, "b has keys in db9") == "pass");
    a.other_databases = {1, 3};
    CHECK(results(findings, "a has keys in db1, db3, which move too") == "pass");
    CHECK(results(findings, "how many databases") == "warn");
    b.databases = 3;
    CHECK(results(findings, "b has 3 databases") == "fail");
    b.databases = 4;
    CHECK(results(findings, "b has the databases of a") == "pass");
  }
  SUBCASE("memory, of the machine where there is no maxmemory") {
    b.facts.used_memory = 500'000;
    b.machine_memory = 1'400'000;
    CHECK(results(findings, "memory of b") == "fail");
    b.facts.maxmemory = 1'600'000;
    CHECK(results(findings, "memory of b") == "warn");
    b.facts.maxmemory = 16'000'000;
    CHECK(results(findings, "memory of b") == "pass");
    b.facts.maxmemory_policy = "allkeys-lru";
    CHECK(results(findings, "b evicts any key") == "warn");
    b.facts.maxmemory_policy = "volatile-ttl";
    CHECK(results(findings, "b evicts keys that expire") == "warn");
    b.facts.maxmemory = 0;
    CHECK(results(findings, "b evicts no keys") == "pass");
  }
  SUBCASE("rights, with the line that gives them") {
    b.user = "proxy";
    b.rights.denied = {"restore"};
    b.rights.denies_keys = true;
    CHECK(results(findings, "b denies its user proxy: restore, keys of the data") == "fail");
    CHECK(judge(plan(), findings).front().advice ==
          "on that server: ACL SETUSER proxy +restore ~*");
    b.rights = {.are_known = true, .wished = {"bgsave"}};
    CHECK(results(findings, "b denies its user proxy: bgsave") == "warn");
    b.rights = {.are_known = true, .missing = {"dump"}};
    CHECK(results(findings, "b does not know dump") == "fail");
    b.rights = {};
    CHECK(results(findings, "rights on b can't be asked for") == "warn");
  }
  SUBCASE("limits on replies that wait") {
    a.reply_limit = 500'000;
    CHECK(results(findings, "a cuts off clients") == "fail");
    a.reply_limit = 8'000'000;
    CHECK(results(findings, "a cuts off clients") == "warn");
    a.reply_limit = 64'000'000;
    CHECK(results(findings, "a cuts off clients") == "pass");
  }
  SUBCASE("clients that are evicted, unless those that move slots are exempt") {
    a.evicts_clients = true;
    CHECK(results(findings, "a evicts clients") == "pass");
    a.rights.wished = {"client|no-evict"};
    CHECK(results(findings, "a may evict the connections") == "warn");
  }
  SUBCASE("functions that the target lacks, unless it joins and gets them") {
    a.libraries = {{"lib", "code"}, {"other", "code"}};
    b.libraries = {{"lib", "code"}, {"other", "older code"}};
    CHECK(results(findings, "b lacks functions of a, or has others: other") == "warn");
    b.libraries["other"] = "code";
    CHECK(results(findings, "b has the functions of a") == "pass");
    PlanRecord joining = plan();
    joining.plan.content.edits_before = {slots::AddNode{{"b", 1}}};
    b.libraries.clear();
    CHECK(results(findings, "b gets the functions of a", joining) == "pass");
  }
  SUBCASE("replicas that are behind, files that could not be written") {
    a.late_replicas = {"10.0.0.9:6379 is 12 s behind"};
    CHECK(results(findings, "a replica of a, 10.0.0.9:6379") == "warn");
    b.persistence_problems = {"its last write to the AOF failed"};
    CHECK(results(findings, "b: its last write to the AOF failed") == "warn");
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

TEST_CASE("a node is asked for the rights of its part in the plan") {
  slots::PlanContent content = plan().plan.content;
  content.edits_before = {slots::AddNode{{"b", 1}}};
  const auto roles = roles_in(content);
  CHECK(roles.at("a") == PlanRole{.gives = true, .gives_functions = true});
  CHECK(roles.at("b") == PlanRole{.takes = true, .joins = true});
}
