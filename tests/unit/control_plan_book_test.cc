#include <doctest/doctest.h>

#include <string>

#include "proxy/control/plan_book.h"
#include "proxy/control/preflight.h"

using namespace proxy::control;
using slots::Errc;
using slots::PlanState;

namespace {

constexpr std::uint64_t kNow = 1'790'000'000'000;

const slots::NodePlaces kPlaces{
    {"a", "127.0.0.1:7001"}, {"b", "127.0.0.1:7002"}, {"c", "127.0.0.1:7003"}};

// Slots 0-8191 belong to a, the others to b.
ClusterState halves() {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 8192; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
  return {"shop", slots::SlotMap::create({{"a", 1}, {"b", 1}}, owners, 7).value(), {}, {}};
}

Surroundings around() {
  Surroundings around;
  around.places = kPlaces;
  around.expected = {{"a", {10, 100}}};
  return around;
}

Act ana(std::string reason = "") { return {"ana", std::move(reason), kNow}; }

slots::SlotSet set_of(const std::string& text) { return slots::parse_slot_set(text).value(); }

ClusterState proposed(const ClusterState& now, std::vector<slots::Goal> goals) {
  ProposeRequest request;
  request.goals = std::move(goals);
  const auto change = propose_plan(now, request, around(), ana());
  REQUIRE_MESSAGE(change.has_value(), change.error().message);
  return change->state;
}

// A plan that moves slots 0-99 from a to b.
ClusterState with_move() { return proposed(halves(), {slots::MoveGoal{set_of("0-99"), "b"}}); }

const slots::Plan& plan_of(const ClusterState& state, slots::PlanId plan = 1) {
  return state.plans.at(plan).plan;
}

std::string digest(const ClusterState& state, slots::PlanId plan = 1) {
  return slots::digest_of(plan_of(state, plan).content);
}

ClusterState state_of(const ChangeResult& change) {
  REQUIRE_MESSAGE(change.has_value(), change.error().message);
  return change->state;
}

ClusterState approved(const ClusterState& now, slots::PlanId plan = 1) {
  return state_of(approve_plan(now, plan, digest(now, plan), kPlaces, ana("capacity")));
}

ClusterState running(const ClusterState& now, slots::PlanId plan = 1) {
  return state_of(start_plan(approved(now, plan), plan, ana()));
}

ClusterState committed(const ClusterState& now, const std::string& slots, slots::PlanId plan = 1) {
  const auto next = commit_slots(now, plan, set_of(slots), "a", "b", 1, kNow);
  REQUIRE_MESSAGE(next.has_value(), next.error().message);
  return *next;
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("a proposal says what moves, for which map, between which places, and how fast") {
  const ClusterState state = with_move();
  const slots::Plan& plan = plan_of(state);
  CHECK(plan.state == PlanState::Proposed);
  CHECK(plan.content.base_epoch == 7);
  CHECK(plan.content.moves == std::vector<slots::Move>{{{0, 99}, "a", "b"}});
  CHECK(plan.content.places == slots::NodePlaces{{"a", "127.0.0.1:7001"}, {"b", "127.0.0.1:7002"}});
  CHECK(plan.content.bytes_per_second == 20'000'000);
  CHECK(plan.content.pause_ms == 50);
  CHECK(plan.proposed_by == "ana");
  CHECK(state.plans.at(1).forecast.loads.at("a").keys_per_slot == 10);
  CHECK(state.map.epoch() == 7);
  CHECK(state.next_plan == 2);
}

TEST_CASE(
    "what was counted of the slots is expected of the moves, and how well it is known is told") {
  const auto record_with = [](const slots::SlotCensus& census, const std::string& slots) {
    ProposeRequest request;
    request.goals = {slots::MoveGoal{set_of(slots), "b"}};
    Surroundings counted = around();
    counted.census = std::make_shared<const slots::SlotCensus>(census);
    return state_of(propose_plan(halves(), request, counted, ana())).plans.at(1);
  };
  slots::SlotCensus census;
  census.counted = set_of("0-99");
  census.keys[7] = 5;
  census.bytes[7] = 600;
  const PlanRecord exact = record_with(census, "0-9,50");
  CHECK(exact.forecast.basis == ForecastBasis::Counted);
  CHECK(exact.forecast.moves == std::map<slots::SlotId, MoveLoad>{{0, {5, 600}}, {50, {0, 0}}});
  CHECK(expected_of(exact, exact.plan.content.moves[0]).keys == 5);
  // Of slots 150-159 nothing is known: the node's average stands for them.
  const PlanRecord part = record_with(census, "0-9,150-159");
  CHECK(part.forecast.basis == ForecastBasis::Estimated);
  CHECK(expected_of(part, part.plan.content.moves[1]).keys == 100);
  CHECK(record_with(census, "150-159").forecast.basis == ForecastBasis::NodeAverages);
  census.is_exact = false;
  CHECK(record_with(census, "0-9").forecast.basis == ForecastBasis::Estimated);
}

TEST_CASE("an approval names the digest") {
  const ClusterState state = with_move();
  SUBCASE("the right one is taken") {
    const slots::Plan plan = plan_of(approved(state));
    CHECK(plan.state == PlanState::Approved);
    CHECK(plan.approved_by == "ana");
    CHECK(plan.approval_reason == "capacity");
  }
  SUBCASE("another one is refused") {
    const auto change = approve_plan(state, 1, "0000-0000", kPlaces, ana());
    REQUIRE_FALSE(change.has_value());
    has(change.error().message, "another digest than 0000-0000: see what it is now with");
  }
  SUBCASE("of a plan that is not there it can't be right") {
    CHECK(approve_plan(state, 9, digest(state), kPlaces, ana()).error().code == Errc::NotFound);
  }
}

TEST_CASE("a plan becomes stale when what it was made for has changed") {
  ClusterState state = with_move();
  SUBCASE("a node is somewhere else") {
    slots::NodePlaces moved = kPlaces;
    moved[1].second = "10.0.0.9:7002";
    const auto change = approve_plan(state, 1, digest(state), moved, ana());
    REQUIRE(change.has_value());
    REQUIRE(change->refusal.has_value());
    has(change->refusal->message, "plan 1 is stale: ");
    has(change->refusal->message, "Make it anew: slotctl plan retry 1");
    CHECK(plan_of(change->state).state == PlanState::Stale);
  }
  SUBCASE("another plan has moved slots") {
    state = proposed(state, {slots::MoveGoal{set_of("200-299"), "b"}});
    state = committed(running(state, 2), "200-299", 2);
    CHECK(plan_of(state, 1).state == PlanState::Stale);
    has(plan_of(state, 1).reason, "it was made for epoch 7, the map is at epoch 8 (plan 2)");
    const auto change = approve_plan(state, 1, digest(state), kPlaces, ana());
    REQUIRE_FALSE(change.has_value());
    has(change.error().message, "plan 1 is stale: it was made for epoch 7");
  }
}

TEST_CASE("one plan runs at a time") {
  ClusterState state = proposed(with_move(), {slots::MoveGoal{set_of("200-299"), "b"}});
  state = running(state, 1);
  const auto change = approve_plan(state, 2, digest(state, 2), kPlaces, ana());
  REQUIRE_FALSE(change.has_value());
  has(change.error().message, "plan 1 is running, and one plan runs at a time");
}

TEST_CASE("what is not approved does not start, and does not move") {
  const ClusterState state = with_move();
  CHECK_FALSE(start_plan(state, 1, ana()).has_value());
  const ClusterState rejected = state_of(reject_plan(state, 1, ana("no")));
  CHECK(plan_of(rejected).state == PlanState::Rejected);
  CHECK_FALSE(approve_plan(rejected, 1, digest(rejected), kPlaces, ana()).has_value());
  CHECK_FALSE(commit_slots(rejected, 1, set_of("0-9"), "a", "b", 1, kNow).has_value());
}

TEST_CASE("a commit moves slots and remembers what the source still holds") {
  ClusterState state = committed(running(with_move()), "0-9");
  CHECK(state.map.epoch() == 8);
  CHECK(state.map.owner(9) == state.map.find("b"));
  CHECK(state.kept == std::vector<KeptSlots>{{1, "a", "b", set_of("0-9"), 8, 1, false}});
  CHECK(slots_committed(state, 1) == 10);
  auto work = work_of(state, 1);
  REQUIRE(work.size() == 1);
  CHECK(work[0].to_move == set_of("10-99"));
  CHECK(work[0].kept == state.kept);

  SUBCASE("not of slots that the source does not own") {
    const auto again = commit_slots(state, 1, set_of("9-10"), "a", "b", 2, kNow);
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == Errc::Conflict);
  }
  SUBCASE("each commit has a marker of its own") {
    const auto more = commit_slots(state, 1, set_of("10-19"), "a", "b", 2, kNow);
    REQUIRE(more.has_value());
    REQUIRE(more->kept.size() == 2);
    CHECK(more->kept[1] == KeptSlots{1, "a", "b", set_of("10-19"), 9, 2, false});
  }
  SUBCASE("what was collected is forgotten") {
    state = note_collected(state, 1, set_of("0-9"), "a");
    CHECK(work_of(state, 1)[0].kept.empty());
    CHECK(state.kept.empty());
    state = state_of(end_plan(state, 1, PlanState::Aborted, {}, ana()));
    CHECK(state.plans.at(1).outcome.slots_committed == 10);
  }
  SUBCASE("and can be taken back, when the target has lost it") {
    const auto back = give_slots_back(state, 1, set_of("0-9"), "a", "b", kNow);
    REQUIRE(back.has_value());
    CHECK(back->map.epoch() == 9);
    CHECK(work_of(*back, 1)[0].to_move == set_of("0-99"));
    CHECK(work_of(*back, 1)[0].kept.empty());
  }
  SUBCASE("but not when clients have flushed since: what the source kept would come back") {
    const auto back = give_slots_back(note_flush(state, 1), 1, set_of("0-9"), "a", "b", kNow);
    REQUIRE_FALSE(back.has_value());
    CHECK(back.error().code == Errc::Conflict);
    CHECK(give_slots_back(note_flush(state, 2), 1, set_of("0-9"), "a", "b", kNow).has_value());
  }
  SUBCASE("copies that are not collected stay known when the plan fails") {
    state = state_of(end_plan(state, 1, PlanState::Failed, {}, ana("b is full")));
    REQUIRE(state.kept.size() == 1);
    SUBCASE("until their node owns the slots again: what it holds is then no copy any more") {
      state = state_of(propose_reverse(state, 1, around(), ana()));
      CHECK(plan_of(state, 2).content.moves == std::vector<slots::Move>{{{0, 9}, "b", "a"}});
      state = running(state, 2);
      const auto next = commit_slots(state, 2, set_of("0-9"), "b", "a", 1, kNow);
      REQUIRE(next.has_value());
      REQUIRE(next->kept.size() == 1);
      CHECK(next->kept[0].source == "b");
    }
  }
}

TEST_CASE("a node joins the map when its plan starts, and leaves when its drain is done") {
  ClusterState state = proposed(halves(), {slots::AddGoal{{"c", 1}}});
  CHECK_FALSE(approved(state).map.find("c").has_value());
  state = running(state);
  CHECK(state.map.find("c").has_value());
  CHECK(state.map.epoch() == 8);
  SUBCASE("it stays when the plan is aborted") {
    state = state_of(end_plan(state, 1, PlanState::Aborted, {}, ana()));
    CHECK(state.map.find("c").has_value());
    SUBCASE("retry proposes the moves, and the node no more") {
      state = state_of(propose_rest(state, 1, around(), ana()));
      CHECK(plan_of(state, 2).content.edits_before.empty());
      CHECK(plan_of(state, 2).content.moves == plan_of(state, 1).content.moves);
    }
    SUBCASE("revert proposes that it leaves") {
      state = state_of(propose_reverse(state, 1, around(), ana()));
      CHECK(plan_of(state, 2).content.moves.empty());
      state = state_of(end_plan(running(state, 2), 2, PlanState::Done, {}, ana()));
      CHECK_FALSE(state.map.find("c").has_value());
    }
  }
}

TEST_CASE("nothing moves before the plan has been approved and started") {
  const ClusterState proposed_one = with_move();
  const ClusterState approved_one = approved(proposed_one);
  for (const ClusterState& state : {proposed_one, approved_one})
    CHECK_FALSE(commit_slots(state, 1, set_of("0-9"), "a", "b", 1, kNow).has_value());
  // It would go on without its start, which adds nodes and sets weights.
  const auto paused = pause_plan(approved_one, 1, false, ana());
  REQUIRE_FALSE(paused.has_value());
  has(paused.error().message, "it starts within moments; then pause or abort it");
}

TEST_CASE("pausing, resuming, aborting and throttling") {
  ClusterState state = running(with_move());
  SUBCASE("pause and resume") {
    state = state_of(pause_plan(state, 1, true, ana("node b is down")));
    CHECK(plan_of(state).state == PlanState::Paused);
    CHECK(plan_of(state).paused_by_system);
    CHECK_FALSE(pause_plan(state, 1, true, ana()).has_value());
    state = state_of(resume_plan(state, 1, ana()));
    CHECK(plan_of(state).state == PlanState::Running);
    CHECK(plan_of(state).reason.empty());
    CHECK_FALSE(resume_plan(state, 1, ana()).has_value());
  }
  SUBCASE("what the system has paused an operator can keep paused") {
    state = state_of(pause_plan(state, 1, true, ana("node b is down")));
    state = state_of(pause_plan(state, 1, false, ana("not before tonight")));
    CHECK(plan_of(state).state == PlanState::Paused);
    CHECK_FALSE(plan_of(state).paused_by_system);
    CHECK(plan_of(state).reason == "not before tonight");
    CHECK_FALSE(pause_plan(state, 1, false, ana()).has_value());
  }
  SUBCASE("a paused plan may turn out to be done") {
    state = state_of(pause_plan(state, 1, false, ana()));
    state = state_of(end_plan(state, 1, PlanState::Done, {}, ana()));
    CHECK(plan_of(state).state == PlanState::Done);
  }
  SUBCASE("an abort is remembered until what the plan holds is let go") {
    state = state_of(abort_plan(state, 1, ana("too slow")));
    CHECK(plan_of(state).state == PlanState::Running);
    CHECK(state.plans.at(1).is_aborting);
    has(plan_of(state).reason, "ana aborted it: too slow");
  }
  SUBCASE("a proposed plan is rejected, not aborted") {
    CHECK_FALSE(abort_plan(with_move(), 1, ana()).has_value());
  }
  SUBCASE("throttle changes no content") {
    const std::string before = digest(state);
    state = state_of(throttle_plan(state, 1, 1'000'000, ana()));
    CHECK(state.plans.at(1).limit == 1'000'000);
    CHECK(digest(state) == before);
  }
}

TEST_CASE("old plans that ended are forgotten, and too many that wait are refused") {
  ClusterState state = halves();
  SUBCASE("ended ones") {
    for (slots::PlanId plan = 1; plan <= kEndedPlansMax + 5; ++plan) {
      state = proposed(state, {slots::MoveGoal{set_of("0-99"), "b"}});
      state = state_of(reject_plan(state, plan, ana()));
    }
    CHECK(state.plans.size() == kEndedPlansMax);
    CHECK(state.plans.begin()->first == 6);
    CHECK(state.next_plan == kEndedPlansMax + 6);
  }
  SUBCASE("waiting ones") {
    // Every second slot: as many moves as there can be.
    slots::SlotSet scattered;
    for (std::size_t slot = 0; slot < 8192; slot += 2)
      scattered.add(static_cast<slots::SlotId>(slot));
    ProposeRequest request;
    request.goals = {slots::MoveGoal{scattered, "b"}};
    ChangeResult change = propose_plan(state, request, around(), ana());
    std::size_t taken = 0;
    for (; change && taken < 1000; ++taken) {
      state = change->state;
      change = propose_plan(state, request, around(), ana());
    }
    CHECK(taken > 10);
    REQUIRE_FALSE(change.has_value());
    CHECK(change.error().code == Errc::LimitExceeded);
  }
}

TEST_CASE("two persons are told apart by their credentials, never by their names") {
  Act proposer = ana();
  proposer.credential = "uid 1000";
  ProposeRequest request;
  request.goals = {slots::MoveGoal{set_of("0-99"), "b"}};
  const ClusterState state = state_of(propose_plan(halves(), request, around(), proposer));
  Act approver = proposer;
  approver.by = "eva";
  const auto one = conf::Approval::OnePerson;
  const auto two = conf::Approval::TwoPerson;
  CHECK(check_approver(state, 1, one, approver).has_value());
  const auto refused = check_approver(state, 1, two, approver);
  REQUIRE_FALSE(refused.has_value());
  has(refused.error().message, "was proposed by uid 1000 too");
  has(refused.error().message, "listen.admin_users");
  approver.credential = "uid 0";
  CHECK(check_approver(state, 1, two, approver).has_value());
  // Of the system's own accord: any person will do.
  CHECK(check_approver(with_move(), 1, two, approver).has_value());
}

namespace {

slots::StrayMove strays_of(std::uint32_t keys, std::vector<std::uint64_t> conflicts) {
  slots::StrayMove strays{.from = "a", .to = "b"};
  strays.slots = {{9000, keys, static_cast<std::uint32_t>(conflicts.size())}};
  strays.conflicts = std::move(conflicts);
  return strays;
}

}  // namespace

TEST_CASE("a collection of strays moves no slots, and has no rest and no way back") {
  ClusterState state =
      state_of(propose_strays(halves(), {}, {strays_of(5, {77})}, around(), ana()));
  CHECK(plan_of(state).content.moves.empty());
  CHECK(plan_of(state).content.places.size() == 2);
  state = running(state);
  CHECK(work_of(state, 1).empty());
  state = state_of(end_plan(state, 1, PlanState::Done, {}, ana("5 keys given")));
  CHECK(plan_of(state).reason == "5 keys given");
  CHECK(propose_rest(state, 1, around(), ana()).error().code == Errc::Conflict);
  CHECK(propose_reverse(state, 1, around(), ana()).error().code == Errc::Conflict);
}

TEST_CASE("strays are proposed when there are some that their owners lack") {
  const auto refused = [](std::vector<slots::StrayMove> strays) {
    return propose_strays(halves(), {}, std::move(strays), around(), ana()).error();
  };
  CHECK(refused({}).code == Errc::AlreadyExists);
  const slots::Error known = refused({strays_of(0, {1, 2})});
  CHECK(known.code == Errc::Conflict);
  has(known.message, "none of the 2 strays");
  has(known.message, "slotctl strays --list");
  const slots::Error many =
      refused({strays_of(1, std::vector<std::uint64_t>(kStrayConflictsMax + 1, 3))});
  CHECK(many.code == Errc::LimitExceeded);
}

TEST_CASE("an approval covers what was counted of strays") {
  const auto digest = [](slots::StrayMove strays) {
    return slots::digest_of(
        plan_of(state_of(propose_strays(halves(), {}, {std::move(strays)}, around(), ana())))
            .content);
  };
  const std::string one = digest(strays_of(5, {77}));
  CHECK(one == digest(strays_of(5, {77})));
  CHECK(one != digest(strays_of(6, {77})));
  CHECK(one != digest(strays_of(5, {78})));
}

TEST_CASE("copies that a plan has left are no strays, and none are collected while one is open") {
  ClusterState state = committed(running(with_move()), "0-63");
  const auto propose = [&] {
    return propose_strays(state, {}, {strays_of(5, {})}, around(), ana());
  };
  CHECK(propose().error().code == Errc::Conflict);
  has(propose().error().message, "plan 1 is running");
  state = state_of(end_plan(state, 1, PlanState::Failed, {}, ana("the marker is lost")));
  CHECK(propose().has_value());
  CHECK(slots_copied_to(state, "a") == set_of("0-63"));
  CHECK(slots_copied_to(state, "b") == set_of("0-99"));
  CHECK(slots_copied_to(state, "c").empty());
  state.plans.clear();
  CHECK(slots_copied_to(state, "b").size() == slots::kSlotCount);
}
