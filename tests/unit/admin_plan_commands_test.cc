#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "tests/support/fake_daemon.h"

using namespace admin;
using tests::bulk;
using tests::FakeDaemon;
using tests::Outcome;
using tests::slotctl;

namespace {

using Words = std::vector<std::string>;

std::string as_sent(const Words& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += bulk(word);
  return text;
}

std::string plan_in(const std::string& state, const std::string& paused_by = "") {
  PlanReport report{.id = 3, .digest = "3f9c-e1a2", .state = state, .purpose = "add d"};
  if (!paused_by.empty()) report.paused_by = paused_by;
  return bulk(to_json(report));
}

Surroundings at(const FakeDaemon& daemon) {
  Surroundings surroundings{.admin_address = daemon.path()};
  surroundings.poll = std::chrono::milliseconds{1};
  return surroundings;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("each command about plans sends its words") {
  struct Sent {
    Words arguments;
    Words request;
  };
  const Sent sent[] = {
      {{"list"}, {"PLAN", "LIST"}},
      {{"show", "3"}, {"PLAN", "SHOW", "3"}},
      {{"diff", "3"}, {"PLAN", "DIFF", "3"}},
      {{"approve", "3", "--digest", "3f9c-e1a2"},
       {"PLAN", "APPROVE", "3", "--digest", "3f9c-e1a2"}},
      {{"approve", "--by", "ana", "3", "--digest", "d", "--reason", "new disks"},
       {"PLAN", "APPROVE", "3", "--digest", "d", "--by", "ana", "--reason", "new disks"}},
      {{"reject", "3", "--reason", "no"}, {"PLAN", "REJECT", "3", "--reason", "no"}},
      {{"pause", "3"}, {"PLAN", "PAUSE", "3"}},
      {{"resume", "3"}, {"PLAN", "RESUME", "3"}},
      {{"abort", "3"}, {"PLAN", "ABORT", "3"}},
      {{"retry", "3"}, {"PLAN", "RETRY", "3"}},
      {{"revert", "3", "--by", "ana"}, {"PLAN", "REVERT", "3", "--by", "ana"}},
      {{"throttle", "3", "10MB/s"}, {"PLAN", "THROTTLE", "3", "10MB/s"}},
      {{"history"}, {"PLAN", "HISTORY"}},
      {{"history", "3"}, {"PLAN", "HISTORY", "3"}},
      {{"propose", "--add", "d"}, {"PLAN", "PROPOSE", "--add", "d"}},
      {{"propose", "--balance", "keys", "--limit", "5MB/s", "--slots", "10", "--pause", "20ms"},
       {"PLAN", "PROPOSE", "--balance", "keys", "--limit", "5MB/s", "--slots", "10", "--pause",
        "20ms"}},
      {{"propose", "--balance", "--relieve", "--slots", "10"},
       {"PLAN", "PROPOSE", "--balance", "slots", "--relieve", "ops", "--slots", "10"}},
      {{"propose", "--to-config"}, {"PLAN", "PROPOSE", "--to-config"}},
      {{"propose", "--collect-strays"}, {"PLAN", "PROPOSE", "--collect-strays"}},
      {{"propose", "--move", "100-199,300:b", "--relieve", "ops", "--by", "ana", "--reason", "hot"},
       {"PLAN", "PROPOSE", "--move", "100-199,300:b", "--relieve", "ops", "--by", "ana", "--reason",
        "hot"}},
  };
  for (const Sent& one : sent) {
    Words arguments{"plan"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    CAPTURE(arguments[1]);
    FakeDaemon daemon(bulk("{}"));
    CHECK(slotctl(arguments, at(daemon)).code == 0);
    CHECK(daemon.request() == as_sent(one.request));
  }
}

TEST_CASE("goals go to the daemon in the order of the command line, however often each is named") {
  FakeDaemon daemon(bulk("{}"));
  CHECK(slotctl({"plan", "propose", "--weight", "a=2", "--add", "d", "--to-config", "--weight=b=3",
                 "--drain", "c", "--add", "e"},
                at(daemon))
            .code == 0);
  CHECK(daemon.request() ==
        as_sent({"PLAN", "PROPOSE", "--weight", "a=2", "--add", "d", "--to-config", "--weight",
                 "b=3", "--drain", "c", "--add", "e"}));
}

TEST_CASE("a plan's answer is JSON when asked for") {
  const std::string json = to_json(PlanReport{.id = 3, .state = "proposed"});
  for (const Words& arguments :
       {Words{"plan", "show", "3", "--json"}, Words{"--json", "plan", "pause", "3"},
        Words{"plan", "approve", "3", "--digest", "d", "--json"},
        Words{"plan", "--json", "propose", "--to-config"}, Words{"plan", "revert", "3", "--json"},
        Words{"plan", "throttle", "3", "1MB/s", "--json"}}) {
    CAPTURE(arguments[1]);
    FakeDaemon daemon(bulk(json));
    CHECK(slotctl(arguments, at(daemon)).out == json + "\n");
  }
}

TEST_CASE("mistakes about plans exit with 2") {
  for (const Words& arguments : {Words{"plan"},
                                 {"plan", "show"},
                                 {"plan", "show", "x"},
                                 {"plan", "show", "0"},
                                 {"plan", "approve", "3"},
                                 {"plan", "throttle", "3"},
                                 {"plan", "propose", "--add"},
                                 {"plan", "propose", "--balance", "colour"},
                                 {"plan", "propose", "--slots", "0"},
                                 {"plan", "wait", "3", "--timeout", "soon"},
                                 {"plan", "melt", "3"}}) {
    const Outcome outcome = slotctl(arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, "slotctl --help"));
  }
}

TEST_CASE("a refusal says what to do, in the daemon's words") {
  FakeDaemon daemon("-ERR plan 3 is stale. Make it anew: slotctl plan propose\r\n");
  const Outcome outcome = slotctl({"plan", "approve", "3", "--digest", "d"}, at(daemon));
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "refused: plan 3 is stale. Make it anew: slotctl plan propose\n");
}

TEST_CASE("wait returns when the plan has ended, with a code that says how") {
  struct Ending {
    std::string state;
    int code;
  };
  for (const Ending& ending : std::vector<Ending>{
           {"done", 0}, {"failed", 3}, {"aborted", 4}, {"rejected", 5}, {"stale", 5}}) {
    CAPTURE(ending.state);
    FakeDaemon daemon(Words{plan_in("proposed"), plan_in("approved"), plan_in("running"),
                            plan_in("paused", "operator"), plan_in(ending.state)});
    const Outcome outcome = slotctl({"plan", "wait", "3"}, at(daemon));
    CHECK(outcome.code == ending.code);
    CHECK(has(outcome.out, "plan 3 is " + ending.state));
    CHECK(daemon.requests().size() == 5);
    CHECK(daemon.requests().back() == as_sent({"PLAN", "SHOW", "3"}));
  }
}

TEST_CASE("wait returns when the system has paused the plan") {
  FakeDaemon daemon(Words{plan_in("running"), plan_in("paused", "system")});
  const Outcome outcome = slotctl({"plan", "wait", "3"}, at(daemon));
  CHECK(outcome.code == 6);
  CHECK(has(outcome.out, "slotctl plan resume 3"));
}

TEST_CASE("wait does not wait beyond its timeout, and prints how far the plan is") {
  FakeDaemon daemon(plan_in("running"));
  CHECK(slotctl({"plan", "wait", "3", "--timeout", "0"}, at(daemon)).code == 7);
  const Outcome outcome = slotctl({"plan", "wait", "3", "--timeout", "0.02", "--json"}, at(daemon));
  CHECK(outcome.code == 7);
  CHECK(has(outcome.out, R"("state":"running")"));
  CHECK(lines_of(outcome.out) == 1);
}

TEST_CASE("wait and watch outlive a daemon that goes and comes back") {
  const Words answers{plan_in("running"), FakeDaemon::kHangsUp, FakeDaemon::kHangsUp,
                      plan_in("done")};
  SUBCASE("wait") {
    FakeDaemon daemon(answers);
    CHECK(slotctl({"plan", "wait", "3"}, at(daemon)).code == 0);
  }
  SUBCASE("watch") {
    FakeDaemon daemon(answers);
    const Outcome outcome = slotctl({"plan", "watch", "3"}, at(daemon));
    CHECK(outcome.code == 0);
    CHECK(has(outcome.out, "away"));
  }
}

TEST_CASE("wait for a daemon that was never there, or a plan that is none, exits with 1") {
  CHECK(slotctl({"plan", "wait", "3"}, {.admin_address = "/nowhere/admin.sock"}).code == 1);
  FakeDaemon daemon("-ERR there is no plan 3; see slotctl plan list\r\n");
  const Outcome outcome = slotctl({"plan", "wait", "3"}, at(daemon));
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "there is no plan 3"));
}

TEST_CASE("watch prints a line when something has changed, until the plan has ended") {
  FakeDaemon daemon(Words{plan_in("running"), plan_in("running"), plan_in("paused", "system"),
                          plan_in("running"), plan_in("done")});
  const Outcome outcome = slotctl({"plan", "watch", "3"}, at(daemon));
  CHECK(outcome.code == 0);
  CHECK(outcome.out.starts_with("plan 3 running\nplan 3 paused by the system\nplan 3 running\n"));
  CHECK(has(outcome.out, "plan 3 is done"));
  CHECK(outcome.out.find('\x1b') == std::string::npos);
}

TEST_CASE("watch as JSON is one object a line") {
  FakeDaemon daemon(Words{plan_in("running"), plan_in("running"), plan_in("aborted")});
  const Outcome outcome = slotctl({"plan", "watch", "3", "--json"}, at(daemon));
  CHECK(outcome.code == 4);
  CHECK(lines_of(outcome.out) == 2);
  CHECK(outcome.out.starts_with("{\"id\":3"));
}

TEST_CASE("watch on a terminal draws over what it has drawn") {
  PlanReport running{.id = 3, .state = "running"};
  running.progress = PlanProgress{.phase = "copying", .slots_committed = 64, .slots_total = 128};
  FakeDaemon daemon(Words{bulk(to_json(running)), bulk(to_json(running)), plan_in("done")});
  Surroundings surroundings = at(daemon);
  surroundings.columns = 80;
  const Outcome outcome = slotctl({"plan", "watch", "3"}, surroundings);
  CHECK(outcome.code == 0);
  CHECK(has(outcome.out, "█"));
  CHECK(has(outcome.out, "\x1b[7A\r\x1b[J"));
}

TEST_CASE("keys on the terminal steer the plan that is watched") {
  struct Pressed {
    std::string keys;
    std::vector<Words> requests;  // In the order of the clients, the daemon's answers aside.
  };
  const Words show{"PLAN", "SHOW", "3"};
  for (const Pressed& pressed :
       std::vector<Pressed>{{"q", {show}},
                            {"\x03", {show}},
                            {"pq", {show, {"PLAN", "PAUSE", "3"}, show}},
                            {"ayq", {show, show, {"PLAN", "ABORT", "3"}, show}},
                            {"anyq", {show, show, show, show}},
                            {"+q", {show, {"PLAN", "THROTTLE", "3", "40000000B/s"}, show}},
                            {"-q", {show, {"PLAN", "THROTTLE", "3", "10000000B/s"}, show}}}) {
    CAPTURE(pressed.keys);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], pressed.keys.data(), pressed.keys.size()) ==
            static_cast<ssize_t>(pressed.keys.size()));
    FakeDaemon daemon(
        bulk(to_json(PlanReport{.id = 3, .state = "running", .bytes_per_second = 20'000'000})));
    Surroundings surroundings = at(daemon);
    surroundings.columns = 80;
    surroundings.keys = ends[0];
    CHECK(slotctl({"plan", "watch", "3"}, surroundings).code == 0);
    ::close(ends[0]);
    ::close(ends[1]);
    std::vector<std::string> wanted;
    for (const Words& words : pressed.requests) wanted.push_back(as_sent(words));
    CHECK(daemon.requests() == wanted);
  }
}

TEST_CASE("a key that is refused says why, and the watch goes on") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "p", 1) == 1);
  ::close(ends[1]);
  FakeDaemon daemon(Words{plan_in("running"), "-ERR not now; try later\r\n", plan_in("running"),
                          plan_in("done")});
  Surroundings surroundings = at(daemon);
  surroundings.columns = 80;
  surroundings.keys = ends[0];
  const Outcome outcome = slotctl({"plan", "watch", "3"}, surroundings);
  ::close(ends[0]);
  CHECK(outcome.code == 0);
  CHECK(has(outcome.out, "not now; try later"));
}
