#include <doctest/doctest.h>

#include "admin/plan_api.h"

using namespace admin;

namespace {

PlanReport full_plan() {
  return {.id = 12,
          .digest = "3f9c-e1a2",
          .state = "paused",
          .reason = "node inv-bcn is down",
          .paused_by = "system",
          .purpose = "add inv-tar",
          .base_epoch = 7,
          .proposed_by = "system",
          .proposed_at_ms = 1'790'000'000'000,
          .approved_by = "ana",
          .approval_reason = "black friday",
          .started_at_ms = 1'790'000'060'000,
          .ended_at_ms = 1'790'000'090'000,
          .bytes_per_second = 20'000'000,
          .pause_ms = 50,
          .moves = {{"0-2730", "inv-bcn", "inv-tar", 403'000, 61'000'000},
                    {"7000", "inv-vlc", "inv-tar", {}, {}}},
          .edits = {"adds inv-tar, weight 1"},
          .slots_moved = 2732,
          .least_possible = 2732,
          .spread_before = 1.33,
          .spread_after = 1,
          .keys = 403'000,
          .bytes = 61'000'000,
          .seconds_at_limit = 4,
          .strays = {{.from = "inv-bcn",
                      .to = "inv-vlc",
                      .keys = 5,
                      .bytes = 500,
                      .conflicts = 1,
                      .conflict_names = {{"cart"}},
                      .slots = {{7000, 5, 1}}}},
          .sample = PlanSample{.keys = 9,
                               .is_whole = true,
                               .largest = {{{"feed"}, "inv-bcn", 7, "zset", 4'100'000, 0, 69}},
                               .streams = {{{"log"}, "inv-bcn", 8, "stream", 4'000, 2, 1}},
                               .streams_with_groups = 1},
          .targets = {{"inv-tar", 100'000'000, 2'000'000'000}},
          .checks = {{"fail", "inv-bcn is down", "start it, then resume"}},
          .progress = PlanProgress{.phase = "copying",
                                   .running_seconds = 3,
                                   .slots_committed = 64,
                                   .slots_total = 2732,
                                   .keys_copied = 9,
                                   .keys_total = 403'000,
                                   .keys_collected = 1,
                                   .payload_bytes = 900,
                                   .bytes_total = 61'000'000,
                                   .bytes_per_second = 18'300'000,
                                   .speed_reason = "p99 of inv-bcn",
                                   .pauses = 1,
                                   .pause_median_ms = 1.5,
                                   .pause_max_ms = 1.5,
                                   .waits_for = "inv-bcn",
                                   .eta_seconds = 4}};
}

template <class Report>
void check_round_trip(const Report& report) {
  const std::string json = to_json(report);
  CAPTURE(json);
  const auto back = from_json<Report>(json);
  REQUIRE(back.has_value());
  CHECK((*back == report));
}

}  // namespace

TEST_CASE("every report about plans comes back from its JSON as it was") {
  SUBCASE("a plan") { check_round_trip(full_plan()); }
  SUBCASE("a plan that nothing is known of yet") { check_round_trip(PlanReport{.id = 1}); }
  SUBCASE("all plans") {
    check_round_trip(PlansReport{
        7,
        {{12, "3f9c-e1a2", "paused", "why", "operator", "add a", 7, "ana", 1'790'000'000'000, 9, 3},
         PlanSummary{.id = 11}}});
  }
  SUBCASE("before and after") {
    check_round_trip(PlanDiffReport{
        12,
        "proposed",
        7,
        {{"a", 1, 2, 10, 8, {"0-1"}, {}}, {"b", {}, 1, 0, 2, {}, {"0-1"}}, PlanNodeDiff{}}});
  }
  SUBCASE("the audit log") {
    check_round_trip(HistoryReport{{{1, 12, "ana", "uid 1000", "approved", "why"},
                                    HistoryEntry{.at_ms = 2, .who = "system"}}});
  }
}

TEST_CASE("a plan's JSON bears the names that scripts read") {
  const Json json = Json::parse(to_json(full_plan()));
  CHECK(json["id"] == 12);
  CHECK(json["digest"] == "3f9c-e1a2");
  CHECK(json["state"] == "paused");
  CHECK(json["base_epoch"] == 7);
  CHECK(json["moves"][0]["slots"] == "0-2730");
  CHECK(json["moves"][0]["from"] == "inv-bcn");
  CHECK(json["moves"][0]["to"] == "inv-tar");
  CHECK_FALSE(json["moves"][1].contains("keys"));
}
