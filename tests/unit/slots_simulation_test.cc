#include <doctest/doctest.h>
#include <fmt/format.h>

#include "slots/key_pattern.h"
#include "slots/simulation.h"

namespace {

using namespace slots;

std::vector<Node> numbered_nodes(int count) {
  std::vector<Node> nodes;
  for (int i = 1; i <= count; ++i) nodes.push_back({"n" + std::to_string(i), 1});
  return nodes;
}

const std::vector<Node> kInventory{{"inv-bcn", 1}, {"inv-vlc", 1}, {"inv-gir", 1}, {"inv-lle", 1}};

Simulation simulation_of(PlacementKind kind, Scenario scenario) {
  auto simulation = Simulation::create(kind, std::move(scenario));
  REQUIRE(simulation.has_value());
  return *std::move(simulation);
}

// The reference keys: P-2026-000001 to P-2026-100000.
Comparison play(PlacementKind kind, Scenario scenario) {
  Simulation simulation = simulation_of(kind, std::move(scenario));
  const KeyPattern pattern = KeyPattern::parse("P-2026-%06d").value();
  for (std::uint64_t i = 1; i <= 100'000; ++i) simulation.add_key(pattern.key(i));
  return simulation.keys();
}

Comparison play(PlacementKind kind, const std::vector<Node>& nodes, const NodeChanges& changes = {},
                std::size_t vnodes = 150, std::size_t replicas = 1) {
  const auto after = apply_changes(nodes, changes);
  REQUIRE(after.has_value());
  return play(kind, Scenario{nodes, *after, replicas, vnodes});
}

std::string three_digits(double percent) { return fmt::format("{:.3f}", percent); }
std::string two_digits(double percent) { return fmt::format("{:.2f}", percent); }

TEST_CASE("reference: what modulo moves when nodes are added") {
  const auto moved = [](int from, int to) {
    NodeChanges changes;
    for (int i = from + 1; i <= to; ++i) changes.add.push_back({"n" + std::to_string(i), 1});
    return three_digits(play(PlacementKind::Modulo, numbered_nodes(from), changes).moved_percent);
  };
  CHECK(moved(4, 5) == "79.969");
  CHECK(moved(5, 6) == "83.304");
  CHECK(moved(10, 11) == "91.004");
  CHECK(moved(4, 8) == "49.666");
}

TEST_CASE("reference: how evenly a ring spreads by virtual nodes") {
  const auto deviation = [](std::size_t vnodes) {
    return two_digits(play(PlacementKind::Ring, kInventory, {}, vnodes).after.deviation_percent);
  };
  CHECK(deviation(1) == "106.37");
  CHECK(deviation(10) == "35.69");
  CHECK(deviation(150) == "6.32");
  CHECK(deviation(500) == "4.59");
  CHECK(deviation(1000) == "2.27");
}

TEST_CASE("reference: keys per node of a ring") {
  CHECK(play(PlacementKind::Ring, kInventory, {}, 1).after.per_node ==
        std::vector<NodeCount>{
            {"inv-bcn", 14486}, {"inv-vlc", 1468}, {"inv-gir", 13875}, {"inv-lle", 70171}});
  CHECK(play(PlacementKind::Ring, kInventory).after.per_node ==
        std::vector<NodeCount>{
            {"inv-bcn", 24275}, {"inv-vlc", 24835}, {"inv-gir", 27571}, {"inv-lle", 23319}});
}

TEST_CASE("reference: a node joins a ring, and takes no key that it does not keep") {
  const Comparison joined = play(PlacementKind::Ring, kInventory, {.add = {{"inv-tar", 1}}});
  CHECK(three_digits(joined.moved_percent) == "19.190");
  CHECK(joined.moved_percent == joined.least_percent);
  CHECK(joined.after.per_node.back() == NodeCount{"inv-tar", 19190});
}

TEST_CASE("reference: a node leaves a ring, and only its keys move") {
  const Comparison left = play(PlacementKind::Ring, kInventory, {.remove = {"inv-vlc"}});
  CHECK(three_digits(left.moved_percent) == "24.835");
  CHECK(left.moved_percent == left.least_percent);
  CHECK(left.after.per_node ==
        std::vector<NodeCount>{{"inv-bcn", 32671}, {"inv-gir", 37988}, {"inv-lle", 29341}});
}

TEST_CASE("reference: a weighted ring") {
  CHECK(
      play(PlacementKind::Ring, {{"inv-bcn", 2}, {"inv-vlc", 1}, {"inv-gir", 1}}).after.per_node ==
      std::vector<NodeCount>{{"inv-bcn", 48242}, {"inv-vlc", 26503}, {"inv-gir", 25255}});
}

TEST_CASE("reference: rendezvous spreads evenly without virtual nodes") {
  const Comparison played = play(PlacementKind::Rendezvous, numbered_nodes(5));
  CHECK(played.after.per_node ==
        std::vector<NodeCount>{
            {"n1", 20109}, {"n2", 19951}, {"n3", 20047}, {"n4", 19935}, {"n5", 19958}});
  CHECK(three_digits(played.after.deviation_percent) == "0.335");
}

TEST_CASE("reference: a sixth rendezvous node changes primaries and replica sets") {
  const Comparison played =
      play(PlacementKind::Rendezvous, numbered_nodes(5), {.add = {{"n6", 1}}}, 150, 3);
  CHECK(three_digits(played.moved_percent) == "16.650");
  CHECK(three_digits(played.replica_sets_changed_percent.value()) == "50.044");
  CHECK(played.moved_percent == played.least_percent);
}

TEST_CASE("without a change nothing moves, for keys and for slots") {
  for (const PlacementKind kind : {PlacementKind::Balanced, PlacementKind::Ring,
                                   PlacementKind::Rendezvous, PlacementKind::Modulo}) {
    CAPTURE(to_string(kind));
    Simulation simulation = simulation_of(kind, {kInventory, kInventory, 1, 150});
    simulation.add_key("a");
    simulation.add_key("b");
    CHECK(simulation.keys().total == 2);
    for (const Comparison& comparison : {simulation.keys(), simulation.slots()}) {
      CHECK(comparison.moved_percent == 0);
      CHECK(comparison.least_percent == 0);
      CHECK(comparison.before.per_node == comparison.after.per_node);
    }
  }
}

TEST_CASE("balanced moves the least there is, starting from its own map") {
  std::vector<Node> after = kInventory;
  after.push_back({"inv-tar", 1});
  const Comparison slots =
      simulation_of(PlacementKind::Balanced, {kInventory, after, 1, 150}).slots();
  CHECK(slots.total == kSlotCount);
  CHECK(slots.moved_percent == slots.least_percent);
  CHECK(slots.after.per_node.back() == NodeCount{"inv-tar", 3276});
  CHECK(slots.before.per_node.front() == NodeCount{"inv-bcn", 4096});
}

TEST_CASE("the numbers of nodes shift when one leaves, but names decide what moved") {
  const NodeChanges changes{.remove = {"inv-bcn"}};
  const auto after = apply_changes(kInventory, changes).value();
  const Comparison slots =
      simulation_of(PlacementKind::Balanced, {kInventory, after, 1, 150}).slots();
  CHECK(slots.moved_percent == doctest::Approx(25.0));
  CHECK(slots.least_percent == doctest::Approx(25.0));
}

TEST_CASE("spread is the largest count over its fair share by weight") {
  const std::vector<Node> nodes{{"a", 3}, {"b", 1}, {"idle", 0}};
  const Comparison slots = simulation_of(PlacementKind::Balanced, {nodes, nodes, 1, 150}).slots();
  CHECK(slots.after.spread == doctest::Approx(1.0));
  CHECK(slots.after.per_node[2].count == 0);
}

TEST_CASE("replica sets are reported only where replicas are ranked and asked for") {
  const auto sets = [](PlacementKind kind, std::size_t replicas) {
    Simulation simulation = simulation_of(kind, {kInventory, kInventory, replicas, 150});
    simulation.add_key("a");
    return simulation.keys().replica_sets_changed_percent;
  };
  CHECK(sets(PlacementKind::Ring, 3) == 0.0);
  CHECK_FALSE(sets(PlacementKind::Ring, 1).has_value());
  CHECK_FALSE(sets(PlacementKind::Balanced, 3).has_value());
}

TEST_CASE("a change that names no node, or one twice, is refused by name") {
  CHECK(apply_changes(kInventory, {.remove = {"x"}}).error().message ==
        "can't remove \"x\": no node has that name");
  CHECK(apply_changes(kInventory, {.reweight = {{"x", 2}}}).error().code == Errc::NotFound);
  CHECK(apply_changes(kInventory, {.add = {{"inv-gir", 1}}}).error().code == Errc::AlreadyExists);
  CHECK(apply_changes(kInventory, {.add = {{"a b", 1}}}).error().code == Errc::InvalidArgument);
  CHECK(apply_changes(kInventory, {.reweight = {{"inv-bcn", -1}}}).error().code ==
        Errc::InvalidArgument);
}

TEST_CASE("a scenario that can't be played is refused") {
  const auto refusal = [](Scenario scenario) {
    return Simulation::create(PlacementKind::Ring, std::move(scenario)).error().code;
  };
  const std::vector<Node> idle{{"a", 0}};
  CHECK(refusal({{}, {}, 1, 150}) == Errc::InvalidArgument);
  CHECK(refusal({kInventory, idle, 1, 150}) == Errc::InvalidArgument);
  CHECK(refusal({{{"a", 1}, {"a", 1}}, kInventory, 1, 150}) == Errc::AlreadyExists);
  CHECK(refusal({kInventory, kInventory, 0, 150}) == Errc::InvalidArgument);
  CHECK(refusal({kInventory, kInventory, 1, 0}) == Errc::InvalidArgument);
  CHECK(refusal({{{"a", 1e9}}, kInventory, 1, 150}) == Errc::LimitExceeded);
}

}  // namespace
