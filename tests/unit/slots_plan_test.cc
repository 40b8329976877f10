#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "slots/plan.h"

using namespace slots;

namespace {

constexpr std::array kAllStates{PlanState::Proposed, PlanState::Approved, PlanState::Running,
                                PlanState::Paused,   PlanState::Done,     PlanState::Aborted,
                                PlanState::Failed,   PlanState::Rejected, PlanState::Stale};

SlotMap two_nodes(Epoch epoch = 7) {
  SlotMap::Owners owners;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) owners[slot] = slot < 8192 ? 0 : 1;
  return SlotMap::create({{"a", 1}, {"b", 1}}, owners, epoch).value();
}

PlanContent adding_c() {
  return {.id = 12,
          .base_epoch = 7,
          .purpose = "add c",
          .edits_before = {AddNode{{"c", 1}}},
          .moves = {{{0, 99}, "a", "c"}, {{9000, 9000}, "b", "c"}},
          .edits_after = {},
          .bytes_per_second = 20'000'000,
          .pause_ms = 50,
          .places = {{"a", "h:1"}, {"b", "h:2"}, {"c", "h:3"}}};
}

std::string refusal(const Status& status) { return status ? "" : status.error().message; }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a plan's state has one name, both ways") {
  for (const PlanState state : kAllStates) {
    CAPTURE(to_string(state));
    CHECK(parse_plan_state(to_string(state)).value() == state);
  }
  CHECK(to_string(PlanState::Proposed) == "proposed");
  CHECK(to_string(PlanState::Stale) == "stale");
  CHECK_FALSE(parse_plan_state("Running").has_value());
  CHECK_FALSE(parse_plan_state("").has_value());
}

TEST_CASE("a plan goes from state to state by these ways alone") {
  const std::set<std::pair<PlanState, PlanState>> ways{
      {PlanState::Proposed, PlanState::Approved}, {PlanState::Proposed, PlanState::Rejected},
      {PlanState::Proposed, PlanState::Stale},    {PlanState::Approved, PlanState::Running},
      {PlanState::Approved, PlanState::Aborted},  {PlanState::Approved, PlanState::Failed},
      {PlanState::Approved, PlanState::Stale},    {PlanState::Running, PlanState::Paused},
      {PlanState::Running, PlanState::Done},      {PlanState::Running, PlanState::Aborted},
      {PlanState::Running, PlanState::Failed},    {PlanState::Paused, PlanState::Running},
      {PlanState::Paused, PlanState::Aborted},    {PlanState::Paused, PlanState::Failed},
      {PlanState::Paused, PlanState::Done}};
  for (const PlanState from : kAllStates) {
    for (const PlanState to : kAllStates) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      CHECK(may_become(from, to) == ways.contains({from, to}));
    }
  }
}

TEST_CASE("a plan has ended when it can become nothing else") {
  for (const PlanState state : kAllStates) {
    CAPTURE(to_string(state));
    const bool goes_on =
        std::ranges::any_of(kAllStates, [&](PlanState next) { return may_become(state, next); });
    CHECK(is_ended(state) == !goes_on);
  }
}

TEST_CASE("a digest is eight hex digits in two groups, and always the same for the same content") {
  const std::string digest = digest_of(adding_c());
  REQUIRE(digest.size() == 9);
  CHECK(digest[4] == '-');
  CHECK(digest.find_first_not_of("0123456789abcdef-") == std::string::npos);
  CHECK(digest == digest_of(adding_c()));
  CHECK_MESSAGE(digest == "5ceb-8959", "stored approvals name digests: they must not change");
}

TEST_CASE("whatever changes in a plan changes its digest") {
  using Change = std::function<void(PlanContent&)>;
  const std::vector<Change> changes{
      [](PlanContent& c) { c.id = 13; },
      [](PlanContent& c) { c.base_epoch = 8; },
      [](PlanContent& c) { c.purpose = "add C"; },
      [](PlanContent& c) { c.edits_before.clear(); },
      [](PlanContent& c) { c.edits_before = {AddNode{{"c", 2}}}; },
      [](PlanContent& c) { c.edits_before = {SetWeight{"c", 1}}; },
      [](PlanContent& c) { c.edits_before = {AddNode{{"d", 1}}}; },
      [](PlanContent& c) { std::swap(c.edits_before, c.edits_after); },
      [](PlanContent& c) { c.edits_after = {RemoveNode{"a"}}; },
      [](PlanContent& c) { c.edits_after = {AssignSlots{SlotSet({1, 2}), "a"}}; },
      [](PlanContent& c) { c.edits_after = {AssignSlots{SlotSet({1, 3}), "a"}}; },
      [](PlanContent& c) { c.moves[0].slots.last = 98; },
      [](PlanContent& c) { c.moves[0].slots.first = 1; },
      [](PlanContent& c) { c.moves[1].from = "a"; },
      [](PlanContent& c) { c.moves[1].to = "a"; },
      [](PlanContent& c) { c.moves.pop_back(); },
      [](PlanContent& c) { std::swap(c.moves[0], c.moves[1]); },
      [](PlanContent& c) { c.bytes_per_second = 0; },
      [](PlanContent& c) { c.pause_ms = 51; },
      [](PlanContent& c) { c.places[2].second = "h:4"; },
      [](PlanContent& c) { c.places[2].first = "d"; },
      [](PlanContent& c) { c.places.pop_back(); },
      [](PlanContent& c) {  // The same letters, parted elsewhere.
        c.moves[0].from = "ac";
        c.moves[0].to = "";
      }};
  std::set<std::string> digests{digest_of(adding_c())};
  for (const Change& change : changes) {
    PlanContent content = adding_c();
    change(content);
    digests.insert(digest_of(content));
  }
  CHECK(digests.size() == changes.size() + 1);
}

TEST_CASE("a plan fits as long as nothing that it was made for has changed") {
  const PlanContent plan = adding_c();
  CHECK(check_still_fits(plan, two_nodes(), plan.places).has_value());

  SUBCASE("another epoch") {
    const Status fits = check_still_fits(plan, two_nodes(8), plan.places);
    CHECK(fits.error().code == Errc::Conflict);
    CHECK(has(refusal(fits), "epoch 7, the map is at epoch 8"));
  }
  SUBCASE("a node that is elsewhere now") {
    CHECK(has(refusal(check_still_fits(plan, two_nodes(), {{"a", "h:1"}, {"b", "h:9"}, {"c", ""}})),
              "node \"b\" was at h:2, now it is at h:9"));
  }
  SUBCASE("a node that the configuration has no more") {
    CHECK(has(refusal(check_still_fits(plan, two_nodes(), {{"a", "h:1"}, {"b", "h:2"}})),
              "node \"c\" is not in the configuration any more"));
  }
  SUBCASE("a slot that another node owns") {
    PlanContent other = plan;
    other.moves[0].slots.last = 8192;
    CHECK(has(refusal(check_still_fits(other, two_nodes(), plan.places)),
              "slot 8192 belongs to node \"b\" now, not to \"a\""));
  }
  SUBCASE("a target that is not in the map and does not join it") {
    PlanContent other = plan;
    other.edits_before.clear();
    CHECK(has(refusal(check_still_fits(other, two_nodes(), plan.places)), "\"c\""));
  }
  SUBCASE("a node that is in the map already") {
    PlanContent other = plan;
    other.edits_before = {AddNode{{"a", 1}}};
    CHECK(check_still_fits(other, two_nodes(), plan.places).error().code == Errc::Conflict);
  }
}
