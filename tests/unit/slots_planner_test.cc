#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <random>

#include "slots/placement/placement.h"
#include "slots/planner.h"

using namespace slots;

namespace {

SlotLoads no_loads() { return {}; }

SlotLoads even_loads(double load) {
  SlotLoads loads;
  loads.fill(load);
  return loads;
}

// As a first start would place them.
SlotMap map_of(const std::vector<Node>& nodes) {
  const auto owners = make_placement(PlacementKind::Balanced)->place_slots(nodes, nullptr);
  return SlotMap::create(nodes, owners, 7).value();
}

SlotMap three_nodes() { return map_of({{"a", 1}, {"b", 1}, {"c", 1}}); }

// The first `ends[0]` slots to the first node, up to `ends[1]` to the second, ...
SlotMap map_by_ends(const std::vector<Node>& nodes, const std::vector<std::size_t>& ends) {
  SlotMap::Owners owners;
  NodeIndex node = 0;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    while (slot >= ends[node]) ++node;
    owners[slot] = node;
  }
  return SlotMap::create(nodes, owners, 7).value();
}

Proposal must(const SlotMap& map, const std::vector<Goal>& goals,
              const SlotLoads& loads = no_loads(), const PlanLimits& limits = {}) {
  Result<Proposal> proposal = propose(map, goals, loads, limits);
  REQUIRE_MESSAGE(proposal.has_value(), proposal.error().message);
  return *std::move(proposal);
}

Error refusal(const SlotMap& map, const std::vector<Goal>& goals,
              const SlotLoads& loads = no_loads(), const PlanLimits& limits = {}) {
  const Result<Proposal> proposal = propose(map, goals, loads, limits);
  REQUIRE_FALSE(proposal.has_value());
  return proposal.error();
}

// The map when all of the proposal has been done. Every move must be its source's to make.
SlotMap carry_out(const SlotMap& map, const Proposal& proposal) {
  const SlotMap prepared = map.with(proposal.edits_before).value();
  SlotMap::Owners owners = prepared.owners();
  for (const Move& move : proposal.moves) {
    const auto to = prepared.find(move.to);
    REQUIRE(to.has_value());
    for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot) {
      REQUIRE(prepared.nodes()[owners[slot]].name == move.from);
      owners[slot] = *to;
    }
  }
  const SlotMap moved = SlotMap::create(prepared.nodes(), owners, prepared.epoch()).value();
  return moved.with(proposal.edits_after).value();
}

std::map<std::string, std::size_t> counts_of(const SlotMap& map) {
  std::map<std::string, std::size_t> counts;
  for (const Node& node : map.nodes()) {
    counts[node.name] = map.slots_of(*map.find(node.name)).size();
  }
  return counts;
}

std::map<std::string, double> loads_of(const SlotMap& map, const SlotLoads& loads) {
  std::map<std::string, double> sums;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    sums[map.nodes()[map.owner(static_cast<SlotId>(slot))].name] += loads[slot];
  }
  return sums;
}

using Counts = std::map<std::string, std::size_t>;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a node that joins gets its share from all others, with the fewest moves") {
  const Proposal proposal = must(three_nodes(), {AddGoal{{"d", 1}}});
  CHECK(proposal.slots_moved == 4096);
  CHECK(proposal.least_possible == 4096);
  CHECK(proposal.spread_before == doctest::Approx(5462.0 / 4096));
  CHECK(proposal.spread_after == doctest::Approx(1));
  CHECK(std::ranges::all_of(proposal.moves, [](const Move& move) { return move.to == "d"; }));
  CHECK(proposal.moves.size() == 3);
  REQUIRE(proposal.edits_before.size() == 1);
  CHECK(std::get<AddNode>(proposal.edits_before[0]).node == Node{"d", 1});
  CHECK(proposal.edits_after.empty());
  const Counts after = counts_of(carry_out(three_nodes(), proposal));
  CHECK(after == Counts{{"a", 4096}, {"b", 4096}, {"c", 4096}, {"d", 4096}});
}

TEST_CASE("shares follow weights") {
  SUBCASE("of a node that joins") {
    const SlotMap map = map_of({{"a", 1}, {"b", 1}});
    const SlotMap after = carry_out(map, must(map, {AddGoal{{"big", 2}}}));
    CHECK(counts_of(after) == Counts{{"a", 4096}, {"b", 4096}, {"big", 8192}});
  }
  SUBCASE("of a node whose weight changes") {
    const SlotMap map = map_of({{"a", 1}, {"b", 1}});
    const Proposal proposal = must(map, {WeightGoal{"a", 3}});
    CHECK(proposal.slots_moved == 4096);
    CHECK(proposal.least_possible == 4096);
    REQUIRE(proposal.edits_before.size() == 1);
    CHECK(std::get<SetWeight>(proposal.edits_before[0]).weight == 3);
    CHECK(counts_of(carry_out(map, proposal)) == Counts{{"a", 12288}, {"b", 4096}});
  }
  SUBCASE("a weight of 0 is a share of nothing") {
    const SlotMap map = three_nodes();
    const SlotMap after = carry_out(map, must(map, {WeightGoal{"b", 0}}));
    CHECK(counts_of(after) == Counts{{"a", 8192}, {"b", 0}, {"c", 8192}});
  }
  SUBCASE("a node of weight 0 joins without slots") {
    const Proposal proposal = must(three_nodes(), {AddGoal{{"d", 0}}});
    CHECK(proposal.moves.empty());
    CHECK(proposal.edits_before.size() == 1);
  }
  SUBCASE("huge and tiny weights") {
    const SlotMap map = map_of({{"a", 1e308}, {"b", 1e308}});
    const SlotMap after = carry_out(map, must(map, {AddGoal{{"c", 1e308}}, AddGoal{{"d", 1e-9}}}));
    CHECK(counts_of(after)["c"] >= 5461);
    CHECK(counts_of(after)["d"] == 0);
  }
}

TEST_CASE("a drained node gives all it owns away") {
  const SlotMap map = three_nodes();
  SUBCASE("and stays, with a weight that keeps it empty") {
    const Proposal proposal = must(map, {DrainGoal{.node = "b"}});
    CHECK(proposal.slots_moved == 5461);
    CHECK(proposal.least_possible == 5461);
    CHECK(proposal.edits_after.empty());
    const SlotMap after = carry_out(map, proposal);
    CHECK(counts_of(after) == Counts{{"a", 8192}, {"b", 0}, {"c", 8192}});
    CHECK(refusal(after, {BalanceGoal{}}).code == Errc::AlreadyExists);
  }
  SUBCASE("or leaves") {
    const Proposal proposal = must(map, {DrainGoal{.node = "b", .leaves = true}});
    CHECK(proposal.edits_before.empty());
    REQUIRE(proposal.edits_after.size() == 1);
    CHECK(std::get<RemoveNode>(proposal.edits_after[0]).name == "b");
    CHECK(counts_of(carry_out(map, proposal)) == Counts{{"a", 8192}, {"c", 8192}});
  }
  SUBCASE("an empty one that leaves moves nothing") {
    const SlotMap drained = carry_out(map, must(map, {DrainGoal{.node = "b"}}));
    const Proposal proposal = must(drained, {DrainGoal{.node = "b", .leaves = true}});
    CHECK(proposal.moves.empty());
    CHECK(proposal.edits_after.size() == 1);
  }
}

TEST_CASE("nodes that are not named give and take no more than the named ones need") {
  // a owns far more than its share; nobody asked to change that.
  const SlotMap uneven = map_by_ends({{"a", 1}, {"b", 1}, {"c", 1}}, {10'000, 13'000, kSlotCount});
  SUBCASE("who has most gives first") {
    const Proposal proposal = must(uneven, {AddGoal{{"d", 1}}});
    CHECK(proposal.slots_moved == 4096);
    CHECK(counts_of(carry_out(uneven, proposal)) ==
          Counts{{"a", 5904}, {"b", 3000}, {"c", 3384}, {"d", 4096}});
  }
  SUBCASE("who has least takes first") {
    const Proposal proposal = must(uneven, {DrainGoal{.node = "c"}});
    CHECK(proposal.slots_moved == 3384);
    CHECK(counts_of(carry_out(uneven, proposal)) == Counts{{"a", 10'000}, {"b", 6384}, {"c", 0}});
  }
  SUBCASE("unless all shall follow their weights") {
    const SlotMap after = carry_out(uneven, must(uneven, {AddGoal{{"d", 1}}, BalanceGoal{}}));
    CHECK(counts_of(after) == Counts{{"a", 4096}, {"b", 4096}, {"c", 4096}, {"d", 4096}});
  }
}

TEST_CASE("goals are reached together") {
  const SlotMap map = three_nodes();
  SUBCASE("a node in another's place: what it had, and no more") {
    const Proposal proposal =
        must(map, {AddGoal{{"d", 1}}, DrainGoal{.node = "a", .leaves = true}});
    CHECK(proposal.slots_moved == map.slots_of(0).size());
    CHECK(std::ranges::all_of(proposal.moves, [](const Move& m) { return m.from == "a"; }));
    CHECK(counts_of(carry_out(map, proposal)) == Counts{{"b", 5462}, {"c", 5461}, {"d", 5461}});
  }
  SUBCASE("a node that joins and another's weight") {
    const SlotMap after = carry_out(map, must(map, {AddGoal{{"d", 1}}, WeightGoal{"a", 5}}));
    CHECK(counts_of(after) == Counts{{"a", 10240}, {"b", 2048}, {"c", 2048}, {"d", 2048}});
  }
  SUBCASE("a weight for a node that the same plan adds") {
    const Proposal proposal = must(map, {AddGoal{{"d", 1}}, WeightGoal{"d", 3}});
    CHECK(std::get<AddNode>(proposal.edits_before.at(0)).node.weight == 3);
    CHECK(counts_of(carry_out(map, proposal))["d"] == 8192);
  }
  SUBCASE("named slots stay where they are wanted while the rest is balanced") {
    const SlotSet wanted = parse_slot_set("0-9,8000").value();
    const Proposal proposal = must(map, {MoveGoal{wanted, "c"}, BalanceGoal{}});
    const SlotMap after = carry_out(map, proposal);
    for (const SlotRange& range : wanted.ranges()) {
      CHECK(after.owner(range.first) == after.find("c"));
    }
    CHECK(counts_of(after)["c"] <= 5462);
    CHECK(proposal.slots_moved == proposal.least_possible);
    CHECK(proposal.slots_moved <= 2 * 11);
  }
  SUBCASE("more named slots than the node's share") {
    const SlotMap after =
        carry_out(map, must(map, {MoveGoal{SlotSet({0, 8191}), "c"}, BalanceGoal{}}));
    CHECK(counts_of(after) == Counts{{"a", 4096}, {"b", 4096}, {"c", 8192}});
  }
}

TEST_CASE("named slots go where they are wanted, whoever owns them, and nothing else moves") {
  const SlotMap map = three_nodes();
  const Proposal proposal = must(map, {MoveGoal{SlotSet({5400, 5500}), "c"}});
  const std::vector<Move> moves{{{5400, 5461}, "a", "c"}, {{5462, 5500}, "b", "c"}};
  CHECK(proposal.moves == moves);
  CHECK(proposal.slots_moved == 101);
  CHECK(proposal.least_possible == 101);
  CHECK(refusal(map, {MoveGoal{SlotSet({0, 5}), "a"}}).code == Errc::AlreadyExists);
}

TEST_CASE("the configuration's ownership") {
  const SlotMap map = three_nodes();
  SUBCASE("slot by slot, node set and weights included") {
    // c is gone, d is new, a has another weight: 0-8191 to d, the rest to a.
    SlotMap::Owners owners;
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) owners[slot] = slot < 8192 ? 0 : 2;
    const Proposal proposal = must(map, {OwnershipGoal{{{"d", 1}, {"b", 1}, {"a", 2}}, owners}});
    const SlotMap after = carry_out(map, proposal);
    CHECK(counts_of(after) == Counts{{"a", 8192}, {"b", 0}, {"d", 8192}});
    CHECK(after.owner(0) == after.find("d"));
    CHECK(after.owner(kSlotCount - 1) == after.find("a"));
    CHECK(after.nodes()[*after.find("a")].weight == 2);
    CHECK(proposal.slots_moved == kSlotCount);
    CHECK(proposal.least_possible == proposal.slots_moved);
  }
  SUBCASE("by weight, when it lists no slots") {
    const Proposal proposal =
        must(map, {OwnershipGoal{{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}, std::nullopt}});
    CHECK(proposal.slots_moved == 4096);
  }
  SUBCASE("that is there already") {
    CHECK(refusal(map, {OwnershipGoal{map.nodes(), map.owners()}}).code == Errc::AlreadyExists);
    CHECK(refusal(map, {OwnershipGoal{map.nodes(), std::nullopt}}).code == Errc::AlreadyExists);
  }
  SUBCASE("that can't be") {
    SlotMap::Owners owners;
    owners.fill(3);
    CHECK(refusal(map, {OwnershipGoal{map.nodes(), owners}}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {OwnershipGoal{{{"a", 1}, {"a", 1}}, std::nullopt}}).code ==
          Errc::InvalidArgument);
    CHECK(refusal(map, {OwnershipGoal{{}, std::nullopt}}).code == Errc::InvalidArgument);
  }
}

TEST_CASE("a limit goes a part of the way, everybody in proportion") {
  const SlotMap map = three_nodes();
  const Proposal part = must(map, {AddGoal{{"d", 1}}}, no_loads(), {.slots = 300});
  CHECK(part.slots_moved == 300);
  CHECK(part.least_possible == 300);
  const SlotMap after = carry_out(map, part);
  CHECK(counts_of(after)["d"] == 300);
  CHECK(counts_of(after)["a"] == 5462 - 100);
  CHECK(part.spread_after > 1.2);
  SUBCASE("and the next plan goes on from there") {
    CHECK(must(after, {BalanceGoal{}}).slots_moved == 3796);
  }
  SUBCASE("a node that still owns slots can't leave yet, and gets no new ones") {
    const Proposal leaving =
        must(map, {DrainGoal{.node = "b", .leaves = true}}, no_loads(), {.slots = 10});
    CHECK(leaving.edits_after.empty());
    CHECK(std::get<SetWeight>(leaving.edits_before.at(0)).weight == 0);
  }
  SUBCASE("named slots are counted too") {
    const Proposal named = must(map, {MoveGoal{SlotSet({0, 99}), "c"}}, no_loads(), {.slots = 40});
    CHECK(named.moves == std::vector<Move>{{{0, 39}, "a", "c"}});
  }
  SUBCASE("and so are slots moved for their load") {
    CHECK(must(map, {AddGoal{{"d", 1}}, BalanceGoal{Measure::Keys}}, even_loads(3), {.slots = 7})
              .slots_moved == 7);
  }
}

TEST_CASE("a cluster is balanced when every share is exact, rounded up or down") {
  const std::vector<Node> nodes{{"a", 1}, {"b", 1}, {"c", 1}};
  for (const auto& ends : {std::vector<std::size_t>{5461, 10922, kSlotCount},
                           {5462, 10923, kSlotCount},
                           {5461, 10923, kSlotCount}}) {
    CHECK(refusal(map_by_ends(nodes, ends), {BalanceGoal{}}).code == Errc::AlreadyExists);
  }
  CHECK(must(map_by_ends(nodes, {5460, 10922, kSlotCount}), {BalanceGoal{}}).slots_moved == 1);
}

TEST_CASE("balancing by what slots weigh comes within a few percent, with few slots") {
  std::mt19937 random(4711);
  const SlotMap map = three_nodes();
  const std::vector<Node> nodes{{"a", 1}, {"b", 2}, {"c", 1}};
  for (const Measure measure : {Measure::Keys, Measure::Bytes, Measure::Operations}) {
    CAPTURE(static_cast<int>(measure));
    SlotLoads loads;
    std::exponential_distribution<double> sizes(0.001);
    for (double& load : loads) load = sizes(random);
    const Proposal proposal = must(map, {WeightGoal{"b", 2}, BalanceGoal{measure}}, loads);
    const SlotMap after = carry_out(map, proposal);
    const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
    std::map<std::string, double> sums = loads_of(after, loads);
    CHECK(sums["a"] == doctest::Approx(all / 4).epsilon(0.03));
    CHECK(sums["b"] == doctest::Approx(all / 2).epsilon(0.03));
    CHECK(sums["c"] == doctest::Approx(all / 4).epsilon(0.03));
    CHECK(proposal.spread_before > 1.3);
    CHECK(proposal.spread_after < 1.03);
    CHECK(proposal.least_possible > 0);
    CHECK(proposal.slots_moved >= proposal.least_possible);
    CHECK(proposal.slots_moved <= proposal.least_possible + 10);
    CHECK(refusal(after, {BalanceGoal{measure}}, loads).code == Errc::AlreadyExists);
  }
}

TEST_CASE("where few slots weigh anything, they alone move") {
  const SlotMap map = three_nodes();
  SlotLoads loads{};
  std::size_t found = 0;
  for (std::size_t slot = 0; found < 6; ++slot) {
    if (map.owner(static_cast<SlotId>(slot)) != 0) continue;
    loads[slot] = 500;
    ++found;
  }
  const Proposal proposal = must(map, {BalanceGoal{Measure::Keys}}, loads);
  CHECK(proposal.slots_moved == 4);
  CHECK(proposal.spread_after == 1);
}

TEST_CASE("slots that weigh nothing are spread with the others when a node is drained") {
  const SlotMap map = three_nodes();
  SlotLoads loads{};
  for (std::size_t slot = 0; slot < kSlotCount; slot += 100) loads[slot] = 50;
  const SlotMap after =
      carry_out(map, must(map, {DrainGoal{.node = "b"}, BalanceGoal{Measure::Bytes}}, loads));
  CHECK(counts_of(after)["b"] == 0);
  CHECK(counts_of(after)["a"] > 7000);
  CHECK(counts_of(after)["c"] > 7000);
}

TEST_CASE("an empty cluster is balanced by slots, whatever the measure") {
  const SlotMap map = map_by_ends({{"a", 1}, {"b", 1}}, {10'000, kSlotCount});
  const SlotMap after = carry_out(map, must(map, {BalanceGoal{Measure::Keys}}));
  CHECK(counts_of(after) == Counts{{"a", 8192}, {"b", 8192}});
}

TEST_CASE("the busiest node is relieved of its heaviest slots, until it is near its share") {
  const SlotMap map = three_nodes();
  SlotLoads loads = even_loads(1);
  for (const std::size_t slot : {10, 20, 30, 40}) loads[slot] = 1000;
  loads[15'000] = 500;  // c is not the idlest.
  const Proposal proposal = must(map, {RelieveGoal{}}, loads);
  CHECK(proposal.slots_moved <= 4);
  CHECK(proposal.slots_moved >= 2);
  for (const Move& move : proposal.moves) {
    CHECK(move.from == "a");
    CHECK(loads[move.slots.first] == 1000);
  }
  CHECK(proposal.moves.front().to == "b");
  CHECK(proposal.spread_after < proposal.spread_before);
  CHECK(proposal.edits_before.empty());
  SUBCASE("one slot that is all the load stays: it would only be hot elsewhere") {
    SlotLoads hot{};
    hot[7] = 1'000'000;
    const Result<Proposal> moved = propose(map, {RelieveGoal{}}, hot, {});
    const bool stays = !moved || std::ranges::none_of(moved->moves, [](const Move& move) {
      return move.slots.first <= 7 && move.slots.last >= 7;
    });
    CHECK(stays);
  }
  SUBCASE("nothing is hot") {
    CHECK(refusal(map, {RelieveGoal{}}, even_loads(5)).code == Errc::AlreadyExists);
    CHECK(refusal(map, {RelieveGoal{}}).code == Errc::AlreadyExists);
  }
}

TEST_CASE("what does not fit is refused, with the name of what does not fit") {
  const SlotMap map = three_nodes();
  SUBCASE("nodes that are not in the map") {
    for (const Goal& goal : {Goal{DrainGoal{.node = "x"}}, Goal{WeightGoal{"x", 1}},
                             Goal{MoveGoal{SlotSet({1, 2}), "x"}}}) {
      const Error error = refusal(map, {goal});
      CHECK(error.code == Errc::NotFound);
      CHECK(has(error.message, "\"x\""));
    }
  }
  SUBCASE("a node that is in the map") {
    const Error error = refusal(map, {AddGoal{{"b", 1}}});
    CHECK(error.code == Errc::AlreadyExists);
    CHECK(has(error.message, "\"b\""));
  }
  SUBCASE("names and weights that break the rules") {
    CHECK(refusal(map, {AddGoal{{"in valid", 1}}}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {AddGoal{{"d", -1}}}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {WeightGoal{"a", -1}}).code == Errc::InvalidArgument);
  }
  SUBCASE("goals that contradict each other") {
    for (const auto& goals : std::vector<std::vector<Goal>>{
             {DrainGoal{.node = "a"}, WeightGoal{"a", 2}},
             {WeightGoal{"a", 2}, DrainGoal{.node = "a"}},
             {AddGoal{{"d", 1}}, DrainGoal{.node = "d"}},
             {DrainGoal{.node = "a"}, MoveGoal{SlotSet({1, 2}), "a"}},
             {BalanceGoal{Measure::Keys}, BalanceGoal{Measure::Bytes}},
             {BalanceGoal{Measure::Keys}, RelieveGoal{Measure::Bytes}}}) {
      CHECK(refusal(map, goals).code == Errc::InvalidArgument);
    }
  }
  SUBCASE("nobody left to own anything") {
    CHECK(refusal(map, {DrainGoal{.node = "a"}, DrainGoal{.node = "b"}, DrainGoal{.node = "c"}})
              .code == Errc::InvalidArgument);
    CHECK(refusal(map_of({{"a", 1}}), {WeightGoal{"a", 0}}).code == Errc::InvalidArgument);
  }
  SUBCASE("nothing to do") {
    CHECK(refusal(map, {}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {MoveGoal{SlotSet(), "a"}}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {BalanceGoal{}}, no_loads(), {.slots = 0}).code == Errc::InvalidArgument);
    CHECK(refusal(map, {BalanceGoal{}}).code == Errc::AlreadyExists);
    CHECK(refusal(map, {WeightGoal{"a", 1}}).code == Errc::AlreadyExists);
  }
  SUBCASE("more nodes than a map may have") {
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < kNodesMax; ++i) nodes.push_back({"n" + std::to_string(i), 1});
    CHECK(refusal(map_of(nodes), {AddGoal{{"one-more", 1}}}).code == Errc::LimitExceeded);
  }
}

TEST_CASE("moves are maximal ranges in the order of their slots") {
  std::mt19937 random(99);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    SlotMap::Owners owners;
    for (NodeIndex& owner : owners) owner = static_cast<NodeIndex>(random() % 4);
    const SlotMap map =
        SlotMap::create({{"a", 1}, {"b", 2}, {"c", 1}, {"d", 3}}, owners, 7).value();
    const Proposal proposal = must(map, {BalanceGoal{}, AddGoal{{"e", 2}}});
    std::size_t moved = 0;
    for (std::size_t i = 0; i < proposal.moves.size(); ++i) {
      const Move& move = proposal.moves[i];
      CHECK(move.from != move.to);
      moved += move.slots.size();
      if (i == 0) continue;
      const Move& last = proposal.moves[i - 1];
      CHECK(last.slots.last < move.slots.first);
      const bool could_be_one =
          last.slots.last + 1 == move.slots.first && last.from == move.from && last.to == move.to;
      CHECK_FALSE(could_be_one);
    }
    CHECK(moved == proposal.slots_moved);
    CHECK(moved == proposal.least_possible);
    const SlotMap after = carry_out(map, proposal);
    CHECK(refusal(after, {BalanceGoal{}}).code == Errc::AlreadyExists);
  }
}

TEST_CASE("the same input gives the same proposal") {
  std::mt19937 random(1);
  SlotLoads loads;
  for (double& load : loads) load = static_cast<double>(random() % 1000);
  for (std::size_t slot = 0; slot < 5000; ++slot) loads[slot] *= 2;
  for (const std::vector<Goal>& goals :
       std::vector<std::vector<Goal>>{{AddGoal{{"d", 1}}},
                                      {AddGoal{{"d", 1}}, BalanceGoal{Measure::Keys}},
                                      {RelieveGoal{}},
                                      {DrainGoal{.node = "a"}}}) {
    const Proposal one = must(three_nodes(), goals, loads);
    const Proposal two = must(three_nodes(), goals, loads);
    CHECK(one.moves == two.moves);
    CHECK(one.spread_after == two.spread_after);
  }
}

TEST_CASE("a thousand nodes are planned in under a second of processor time") {
  std::vector<Node> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back({"n" + std::to_string(i), 1.0 + i % 3});
  const SlotMap map = map_of(nodes);
  std::mt19937 random(3);
  SlotLoads loads;
  for (double& load : loads) load = static_cast<double>(random() % 1000);
  for (const std::vector<Goal>& goals :
       std::vector<std::vector<Goal>>{{AddGoal{{"new", 100}}},
                                      {DrainGoal{.node = "n7", .leaves = true}},
                                      {BalanceGoal{Measure::Bytes}},
                                      {WeightGoal{"n1", 500}, BalanceGoal{Measure::Operations}}}) {
    const std::clock_t start = std::clock();
    const Proposal proposal = must(map, goals, loads);
    CHECK(std::clock() - start < CLOCKS_PER_SEC);
    CHECK(proposal.slots_moved > 0);
  }
}

TEST_CASE("a purpose says in words what should become true") {
  CHECK(purpose_of({AddGoal{{"inv-tar", 1}}, WeightGoal{"inv-bcn", 2.5}}) ==
        "add inv-tar, weight of inv-bcn: 2.5");
  CHECK(purpose_of({DrainGoal{"a", false}}) == "drain a");
  CHECK(purpose_of({DrainGoal{"a", true}}) == "remove a");
  CHECK(purpose_of({MoveGoal{SlotSet({100, 199}), "b"}}) == "slots 100-199 to b");
  CHECK(purpose_of({BalanceGoal{Measure::Keys}}) == "balance keys");
}
