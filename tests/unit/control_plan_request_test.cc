#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <variant>

#include "proxy/control/plan_request.h"

using namespace proxy::control;
using slots::Errc;

namespace {

conf::Config shop() {
  conf::Config config;
  config.cluster = "shop";
  config.nodes.resize(2);
  config.nodes[0].name = "a";
  config.nodes[0].slots = slots::parse_slot_set("0-8191").value();
  config.nodes[1].name = "b";
  config.nodes[1].weight = 2;
  config.nodes[1].slots = slots::parse_slot_set("8192-16383").value();
  return config;
}

slots::Result<PlanRequest> parse(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return parse_plan_request(words, shop());
}

PlanRequest parsed(const std::string& line) {
  auto request = parse(line);
  REQUIRE_MESSAGE(request.has_value(), request.error().message);
  return *std::move(request);
}

template <class Goal>
Goal goal_of(const std::string& line) {
  const PlanRequest request = parsed("PLAN PROPOSE " + line);
  REQUIRE(request.propose.goals.size() == 1);
  REQUIRE(std::holds_alternative<Goal>(request.propose.goals.front()));
  return std::get<Goal>(request.propose.goals.front());
}

}  // namespace

TEST_CASE("each goal has its word") {
  CHECK(goal_of<slots::BalanceGoal>("--balance keys").measure == slots::Measure::Keys);
  CHECK(goal_of<slots::RelieveGoal>("--relieve ops").measure == slots::Measure::Operations);
  CHECK(goal_of<slots::AddGoal>("--add b").node == slots::Node{"b", 2});
  CHECK_FALSE(goal_of<slots::DrainGoal>("--drain a").leaves);
  CHECK(goal_of<slots::DrainGoal>("--remove a").leaves);
  CHECK(goal_of<slots::WeightGoal>("--weight a=0.5").weight == 0.5);
  const auto move = goal_of<slots::MoveGoal>("--move 100-199,300:b");
  CHECK(slots::to_string(move.slots) == "100-199,300");
  CHECK(move.to == "b");
  const auto wanted = goal_of<slots::OwnershipGoal>("--to-config");
  CHECK(wanted.nodes.size() == 2);
  REQUIRE(wanted.owners.has_value());
  CHECK((*wanted.owners)[16383] == 1);
}

TEST_CASE("goals are kept in order, with their bounds") {
  const PlanRequest request = parsed(
      "plan propose --add b --weight a=3 --slots 100 --limit 5MB/s --pause 20ms --by ana "
      "--reason capacity");
  CHECK(request.propose.goals.size() == 2);
  CHECK(request.propose.limits.slots == 100);
  CHECK(request.propose.bytes_per_second == 5'000'000);
  CHECK(request.propose.pause->count() == 20);
  CHECK(request.by == "ana");
  CHECK(request.reason == "capacity");
  CHECK(parsed("PLAN PROPOSE --to-config --limit unlimited").propose.bytes_per_second == 0);
}

TEST_CASE("the other words name a plan") {
  const PlanRequest approve = parsed("PLAN APPROVE 12 --digest 3f9c-e1a2 --by ana");
  CHECK(approve.verb == "APPROVE");
  CHECK(approve.plan == 12);
  CHECK(approve.digest == "3f9c-e1a2");
  CHECK(parsed("PLAN throttle 3 10MB/s").rate == 10'000'000);
  CHECK(parsed("PLAN HISTORY").plan == 0);
  CHECK(parsed("PLAN HISTORY 4").plan == 4);
  CHECK(parsed("PLAN").verb == "HELP");
}

TEST_CASE("a collection of strays stands alone, with its limit") {
  const PlanRequest request = parsed("PLAN PROPOSE --collect-strays --limit 5MB/s --by ana");
  CHECK(request.propose.collects_strays);
  CHECK(request.propose.goals.empty());
  CHECK(request.propose.bytes_per_second == 5'000'000U);
  CHECK_FALSE(parsed("PLAN PROPOSE --to-config").propose.collects_strays);
}

TEST_CASE("what is not understood is refused in words") {
  for (const char* line :
       {"PLAN DANCE", "PLAN SHOW", "PLAN SHOW x", "PLAN SHOW 1 2", "PLAN APPROVE 1",
        "PLAN PAUSE 1 --digest d", "PLAN PROPOSE", "PLAN PROPOSE --add", "PLAN PROPOSE --add z",
        "PLAN PROPOSE --balance apples", "PLAN PROPOSE --weight a", "PLAN PROPOSE --move 1-2",
        "PLAN PROPOSE --to-config --limit 5MB", "PLAN PROPOSE --to-config --slots 0",
        "PLAN PROPOSE --to-config --by", "PLAN THROTTLE 1", "PLAN LIST all",
        "PLAN PROPOSE --collect-strays --to-config", "PLAN PROPOSE --collect-strays --slots 5"}) {
    CAPTURE(line);
    const auto request = parse(line);
    REQUIRE_FALSE(request.has_value());
    CHECK_FALSE(request.error().message.empty());
  }
  CHECK(parse("PLAN PROPOSE --add z").error().code == Errc::NotFound);
}
