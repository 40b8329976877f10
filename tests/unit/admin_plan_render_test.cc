#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "admin/plan_render.h"
#include "admin/text.h"

using namespace admin;

namespace {

constexpr RenderStyle kPlain{.is_coloured = false};

PlanReport proposed_plan() {
  return {.id = 12,
          .digest = "3f9c-e1a2",
          .state = "proposed",
          .purpose = "add inv-tar",
          .base_epoch = 7,
          .proposed_by = "system",
          .proposed_at_ms = 1'790'000'045'000,
          .bytes_per_second = 20'000'000,
          .pause_ms = 50,
          .moves = {{"0-2730", "inv-bcn", "inv-tar", 403'000, 61'000'000},
                    {"8192-9556", "inv-vlc", "inv-tar", 201'000, 30'000'000}},
          .edits = {"adds inv-tar, weight 1"},
          .slots_moved = 4096,
          .least_possible = 4096,
          .spread_before = 4.0 / 3,
          .spread_after = 1,
          .keys = 604'000,
          .bytes = 91'000'000,
          .seconds_at_limit = 5,
          .targets = {{"inv-tar", 91'000'000, 2'000'000'000}},
          .checks = {{"pass", "nodes healthy and primary", ""},
                     {"warn", "inv-tar evicts (allkeys-lru)", "set maxmemory-policy noeviction"}}};
}

PlanReport running_plan() {
  PlanReport report = proposed_plan();
  report.state = "running";
  report.approved_by = "ana";
  report.approval_reason = "black friday";
  report.started_at_ms = 1'790'000'060'000;
  report.progress = PlanProgress{.phase = "copying",
                                 .running_seconds = 3,
                                 .slots_committed = 2752,
                                 .slots_total = 4096,
                                 .keys_copied = 367'000,
                                 .keys_total = 604'000,
                                 .payload_bytes = 54'900'000,
                                 .bytes_total = 91'000'000,
                                 .bytes_per_second = 18'300'000,
                                 .speed_reason = "slowed: p99 of inv-bcn 4.6 ms",
                                 .pauses = 43,
                                 .pause_median_ms = 1.6,
                                 .pause_max_ms = 6,
                                 .eta_seconds = 2};
  return report;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string cells(int count, const char* cell) {
  std::string text;
  for (int i = 0; i < count; ++i) text += cell;
  return text;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    widest = std::max(widest, width_of(text.substr(start, end - start)));
    start = end + 1;
  }
  return widest;
}

}  // namespace

TEST_CASE("a proposed plan says what moves, what it costs, what is risky, and how to approve it") {
  CHECK(render(proposed_plan(), kPlain) ==
        R"(plan 12   proposed
add inv-tar   digest 3f9c-e1a2   epoch 7
proposed 2026-09-21 14:14:05 UTC by the system
              SLOTS    KEYS     BYTES   FROM → TO
  0-2730      2,731   403 k   61.0 MB   inv-bcn → inv-tar
  8192-9556   1,365   201 k   30.0 MB   inv-vlc → inv-tar
  adds inv-tar, weight 1
moves 25.0 % of the slots; the least possible for these shares is 25.0 %
spread (largest over fair share)   1.33 → 1.00
about 604 k keys, 91.0 MB; at 20.0 MB/s about 5 s of copying
limit 20.0 MB/s; a group of slots waits at most 50 ms for its last copy
memory of inv-tar after: 0.1 of 2.0 GB
checks
  warn  inv-tar evicts (allkeys-lru)  → set maxmemory-policy noeviction
  pass  nodes healthy and primary
approve with:   slotctl plan approve 12 --digest 3f9c-e1a2
)");
}

TEST_CASE("a plan with a failed check does not offer its approval") {
  PlanReport report = proposed_plan();
  report.checks.push_back({"fail", "inv-bcn is down", "start it"});
  const std::string text = render(report, kPlain);
  CHECK(has(text, "checks\n  fail  inv-bcn is down"));
  CHECK(has(text, "→ start it"));
  CHECK(has(text, "blocks the approval"));
  CHECK_FALSE(has(text, "slotctl plan approve"));
}

TEST_CASE("what comes next follows from the state") {
  PlanReport report = proposed_plan();
  const auto next = [&](const char* state) {
    report.state = state;
    return render(report, kPlain);
  };
  CHECK(has(next("running"), "slotctl plan watch 12"));
  CHECK(has(next("paused"), "slotctl plan resume 12"));
  CHECK(has(next("paused"), "slotctl plan abort 12"));
  CHECK(has(next("failed"), "slotctl plan retry 12"));
  CHECK(has(next("aborted"), "slotctl plan revert 12"));
  CHECK(has(next("done"), "slotctl plan revert 12"));
  CHECK(has(next("stale"), "slotctl plan retry 12"));
}

TEST_CASE("who paused a plan is said with the state, and why") {
  PlanReport report = running_plan();
  report.state = "paused";
  report.paused_by = "system";
  report.reason = "node inv-bcn is down";
  CHECK(has(render(report, kPlain), "paused by the system: node inv-bcn is down"));
  CHECK(render_outcome(report, kPlain)
            .starts_with("plan 12 is paused by the system: node inv-bcn is down\n"));
}

TEST_CASE("a plan that has ended shows its forecast next to what happened") {
  PlanReport report = running_plan();
  report.state = "done";
  report.progress->slots_committed = 4096;
  const std::string text = render(report, kPlain);
  CHECK(has(text, "FORECAST"));
  CHECK(has(text, "604 k"));
  CHECK(has(text, "367 k"));
  CHECK(has(text, "43: median 1.6 ms, longest 6.0 ms"));
  CHECK_FALSE(has(text, "checks"));
}

TEST_CASE("many moves are summed up by pair of nodes") {
  PlanReport report = proposed_plan();
  report.moves.clear();
  for (int slot = 0; slot < 200; slot += 2) {
    report.moves.push_back({std::to_string(slot), slot % 4 == 0 ? "a" : "b", "c", 10, 100});
  }
  const std::string text = render(report, kPlain);
  CHECK(has(text, "50 ranges"));
  CHECK(has(text, "a → c"));
  CHECK(has(text, "b → c"));
  CHECK(has(text, "500"));
  CHECK(std::count(text.begin(), text.end(), '\n') < 20);
}

TEST_CASE("nothing known of the sources is shown as nothing") {
  PlanReport report = proposed_plan();
  report.moves = {{"7", "a", "b", {}, {}}};
  report.keys = {};
  report.bytes = {};
  const std::string text = render(report, kPlain);
  CHECK(has(text, "-"));
  CHECK_FALSE(has(text, "about"));
}

TEST_CASE("a plan without a limit says so") {
  PlanReport report = proposed_plan();
  report.bytes_per_second = 0;
  CHECK(has(render(report, kPlain), "no limit"));
}

TEST_CASE("all plans, a line each") {
  CHECK(has(render(PlansReport{.epoch = 7}, kPlain), "slotctl plan propose"));
  const std::string text =
      render(PlansReport{7,
                         {{.id = 13,
                           .digest = "aaaa-bbbb",
                           .state = "running",
                           .purpose = "drain a",
                           .proposed_by = "ana",
                           .slots_moved = 4096,
                           .slots_committed = 64},
                          {.id = 12, .state = "stale", .reason = "the map is at epoch 8"}}},
             kPlain);
  CHECK(has(text, "13  running  64 of 4,096"));
  CHECK(has(text, "aaaa-bbbb"));
  CHECK(has(text, "the map is at epoch 8"));
}

TEST_CASE("what each node owns before and after") {
  const std::string text =
      render(PlanDiffReport{12,
                            "proposed",
                            7,
                            {{"a", 1, 1, 8192, 5461, {"0-2730"}, {}},
                             {"b", {}, 1, 0, 2731, {}, {"1", "3", "5", "7", "9", "11"}}}},
             kPlain);
  CHECK(has(text, "8,192 → 5,461"));
  CHECK(has(text, "- → 1"));
  CHECK(has(text, "1, 3, 5, 7, … 2 more"));
}

TEST_CASE("the audit log says when, who, what and why") {
  CHECK(render(HistoryReport{}, kPlain) == "nothing has happened yet\n");
  const std::string text = render(
      HistoryReport{{{1'790'000'045'000, 12, "ana", "uid 1000", "approved", "black friday"}}},
      kPlain);
  CHECK(has(text, "2026-09-21 14:14:05 UTC    12  ana  approved  black friday  uid 1000"));
}

TEST_CASE("progress is bars on a terminal, as wide as it is") {
  for (const std::size_t columns : {60, 80, 120, 200}) {
    CAPTURE(columns);
    const std::string text = render_bars(running_plan(), columns, kPlain);
    CHECK(widest_line(text) <= columns);
    CHECK(has(text, "2,752 / 4,096"));
    CHECK(has(text, "54.9 MB / 91.0 MB"));
  }
  const std::string text = render_bars(running_plan(), 120, kPlain);
  CHECK(has(text, "0:03 of about 0:05"));
  CHECK(has(text, "18.3 MB/s, limit 20.0 MB/s (slowed: p99 of inv-bcn 4.6 ms)"));
  CHECK(has(text, "slots  " + cells(26, "█") + cells(14, "░")));
}

TEST_CASE("progress is one line elsewhere") {
  const std::string text = render_progress_line(running_plan());
  CHECK(text.starts_with("plan 12 running, copying, 0:03 of about 0:05: 2,752 of 4,096 slots"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  PlanReport waiting = running_plan();
  waiting.progress->waits_for = "the AOF of inv-tar";
  CHECK(has(render_progress_line(waiting), "waits: the AOF of inv-tar"));
}

TEST_CASE("a bar of nothing is empty, and one of more than all is full") {
  PlanReport report = running_plan();
  report.progress = PlanProgress{.keys_copied = 9, .keys_total = 3};
  const std::string text = render_bars(report, 100, kPlain);
  CHECK(has(text, "slots  ░"));
  CHECK(has(text, "keys   " + cells(40, "█") + "  "));
}

TEST_CASE("clocks and times") {
  CHECK(clock(3) == "0:03");
  CHECK(clock(760) == "12:40");
  CHECK(clock(10'921) == "3:02:01");
  CHECK(time_of(0) == "1970-01-01 00:00:00 UTC");
  CHECK(rate(0) == "no limit");
}

TEST_CASE("the largest keys are shown with the pause that they would need") {
  PlanReport report = proposed_plan();
  report.sample = PlanSample{.keys = 120'000,
                             .is_whole = false,
                             .largest = {{{"feed:all"}, "inv-bcn", 7, "zset", 4'100'000, 0, 69}},
                             .streams = {},
                             .streams_with_groups = 2};
  const std::string text = render(report, kPlain);
  CHECK(has(text, "largest keys (of a sample of 120 k)"));
  CHECK(has(text,
            "\"feed:all\"  4.1 MB  zset on inv-bcn  about 69 ms if written to until the "
            "end: longer than a pause may be"));
  CHECK(has(text, "streams with consumer groups: at least 2"));
  report.state = "done";
  CHECK_FALSE(has(render(report, kPlain), "largest keys"));
}

TEST_CASE("strays are counted by their nodes, with those that are left alone") {
  PlanReport report = proposed_plan();
  report.moves.clear();
  report.strays = {{.from = "inv-bcn",
                    .to = "inv-vlc",
                    .keys = 1234,
                    .bytes = 5000,
                    .conflicts = 1,
                    .conflict_names = {{"cart"}},
                    .slots = {{7000, 1234, 1}}}};
  const std::string text = render(report, kPlain);
  CHECK(has(text, "  inv-bcn → inv-vlc       1   1,234   5.0 KB            1   \"cart\""));
  CHECK(has(text, "nobody waits"));
  CHECK_FALSE(has(text, "spread"));
  report.state = "failed";
  CHECK(has(render(report, kPlain), "slotctl plan propose --collect-strays"));
  CHECK_FALSE(has(render(report, kPlain), "plan retry"));
}
