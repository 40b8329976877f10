#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "proxy/control/record_bytes.h"
#include "proxy/control/state_record.h"

namespace {

using proxy::control::ClusterState;
using slots::Errc;

// A plan of every kind of edit, at work, and copies that it has not collected.
void add_plans(ClusterState& state) {
  proxy::control::PlanRecord plan;
  slots::PlanContent& content = plan.plan.content;
  content.id = 3;
  content.base_epoch = 7;
  content.purpose = "add d";
  content.edits_before = {slots::AddNode{{"d", 0.5}}, slots::SetWeight{"a", 2}};
  content.moves = {{{0, 99}, "a", "d"}, {{16383, 16383}, "b", "d"}};
  content.edits_after = {slots::RemoveNode{"b"}, slots::AssignSlots{slots::SlotSet({5, 6}), "c"}};
  content.bytes_per_second = 20'000'000;
  content.pause_ms = 40;
  content.places = {{"a", "127.0.0.1:7001"}, {"d", "/run/d.sock"}};
  plan.plan.state = slots::PlanState::Paused;
  plan.plan.paused_by_system = true;
  plan.plan.reason = "node d is down";
  plan.plan.proposed_by = "system";
  plan.plan.approved_by = "ana";
  plan.plan.approval_reason = "black friday";
  plan.plan.proposed_at_ms = 1'790'000'000'000;
  plan.plan.started_at_ms = 1'790'000'060'000;
  plan.limit = 5'000'000;
  plan.forecast = {101, 100, 1.5, 1.25, {{"a", {12.5, 100}}}, {{"a", 1}}};
  plan.forecast.basis = proxy::control::ForecastBasis::Estimated;
  plan.forecast.moves = {{0, {400, 25'000.5}}};
  plan.proposed_credential = "uid 1000";
  content.strays = {{"a", "d", {{7, 5, 1}, {9, 1, 0}}, 500, {77}, {"cart"}}, {"b", "a"}};
  plan.outcome = {64, 1000, 10, 100'000, 1, 1500, 2500};
  state.plans[3] = plan;
  plan.plan.content = {};
  plan.plan.content.id = 5;
  plan.plan.state = slots::PlanState::Stale;
  state.plans[5] = plan;
  state.next_plan = 6;
  state.kept = {{3, "a", "d", slots::SlotSet({0, 63}), 9, 2, true}};
}

// The worst of maps: every slot has another owner than the one before it.
ClusterState scattered_state() {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot)
    owners[slot] = static_cast<slots::NodeIndex>(slot % 3);
  return {
      "shop",
      slots::SlotMap::create({{"a", 0.1}, {"b", 1}, {"c", 1e6}}, owners, 1ULL << 40).value(),
      {{"a", std::string("\0x", 2)}},
      {{"a", {"127.0.0.1:7001", "127.0.0.1:6401", "shop-1:6401"}}, {"b", {"/run/b.sock", "", ""}}}};
}

}  // namespace

TEST_CASE("the checksum is CRC-32C") {
  CHECK(proxy::control::crc32c("123456789") ==
        0xE3069283);  // The check value of the catalogue of CRCs.
  CHECK(proxy::control::crc32c(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, B.4.
}

TEST_CASE("a record decodes to the state it was made of") {
  ClusterState state = scattered_state();
  add_plans(state);
  const std::string record = proxy::control::encode_record(state);
  const auto contents = proxy::control::read_journal(record);
  REQUIRE_MESSAGE(contents.has_value(), contents.error().message);
  REQUIRE(contents->state.has_value());
  CHECK(contents->state->cluster == "shop");
  CHECK(contents->state->map.epoch() == 1ULL << 40);
  CHECK(contents->state->map.nodes() == state.map.nodes());
  CHECK(contents->state->map.owners() == state.map.owners());
  CHECK(contents->state->identities == state.identities);
  CHECK(contents->state->places == state.places);
  CHECK(contents->state->next_plan == 6);
  CHECK(contents->state->kept == state.kept);
  REQUIRE(contents->state->plans.size() == 2);
  const proxy::control::PlanRecord& plan = contents->state->plans.at(3);
  CHECK(plan.plan.state == slots::PlanState::Paused);
  CHECK(plan.plan.paused_by_system);
  CHECK(plan.plan.content.moves == state.plans.at(3).plan.content.moves);
  CHECK(slots::digest_of(plan.plan.content) == slots::digest_of(state.plans.at(3).plan.content));
  CHECK(plan.outcome == state.plans.at(3).outcome);
  CHECK(plan.forecast.loads == state.plans.at(3).forecast.loads);
  CHECK(proxy::control::encode_record(*contents->state) == record);
}

TEST_CASE("the last record counts") {
  const std::string scattered = proxy::control::encode_record(scattered_state());
  slots::SlotMap::Owners owners{};
  const ClusterState simple{"shop", slots::SlotMap::create({{"a", 1}}, owners, 7).value(), {}};
  const auto contents =
      proxy::control::read_journal(scattered + proxy::control::encode_record(simple));
  REQUIRE(contents.has_value());
  CHECK(contents->records == 2);
  CHECK(contents->state->map.epoch() == 7);
}

TEST_CASE("an empty journal has no state") {
  const auto contents = proxy::control::read_journal("");
  REQUIRE(contents.has_value());
  CHECK_FALSE(contents->state.has_value());
}

TEST_CASE("bytes of another kind are damage, not an empty journal") {
  CHECK(proxy::control::read_journal("cluster: shop\nepoch: 1\n").error().code == Errc::Corrupt);
}

TEST_CASE("the format is fixed") {
  slots::SlotMap::Owners owners{};
  const ClusterState state{"c",
                           slots::SlotMap::create({{"n", 1}}, owners, 2).value(),
                           {{"n", "i"}},
                           {{"n", {"h:1", "", ""}}}};
  const std::string record = proxy::control::encode_record(state);
  const std::string payload =
      std::string("\x03\x01", 2) + std::string("\x02\0\0\0\0\0\0\0", 8) +
      std::string("\x01\0\0\0c", 5) + std::string("\x01\0\0\0", 4) + std::string("\x01\0\0\0n", 5) +
      std::string("\0\0\0\0\0\0\xf0\x3f", 8) + std::string("\x01\0\0\0", 4) +
      std::string("\0\0\xff\x3f\0\0", 6) + std::string("\x01\0\0\0", 4) +
      std::string("\x01\0\0\0n", 5) + std::string("\x01\0\0\0i", 5) + std::string("\x01\0\0\0", 4) +
      std::string("\x01\0\0\0n", 5) + std::string("\x03\0\0\0h:1", 7) + std::string("\0\0\0\0", 4) +
      std::string("\0\0\0\0", 4) + std::string("\x01\0\0\0\0\0\0\0", 8) +
      std::string("\0\0\0\0\0\0\0\0", 8);
  CHECK(record.substr(0, 8) ==
        std::string("SPJ1") + static_cast<char>(payload.size()) + std::string(3, '\0'));
  CHECK(record.substr(16) == payload + "\n");
}

namespace {

// The record with this format version, and without `bytes_less` at the payload's end.
std::string with_version(const std::string& record, char version, std::size_t bytes_less) {
  std::string payload = record.substr(16, record.size() - 17 - bytes_less);
  payload[0] = version;
  std::string out = "SPJ1";
  proxy::control::put(out, static_cast<std::uint32_t>(payload.size()));
  proxy::control::put(out, proxy::control::crc32c(out));
  proxy::control::put(out, proxy::control::crc32c(payload));
  return out + payload + "\n";
}

}  // namespace

TEST_CASE("a record from before there were plans is read") {
  const ClusterState state = scattered_state();
  constexpr std::size_t kPlanBytes = 16;  // The next plan's id, no plans, nothing kept.
  const auto contents = proxy::control::read_journal(
      with_version(proxy::control::encode_record(state), 1, kPlanBytes));
  REQUIRE_MESSAGE(contents.has_value(), contents.error().message);
  CHECK(contents->state->map.owners() == state.map.owners());
  CHECK(contents->state->places == state.places);
  CHECK(contents->state->next_plan == 1);
  CHECK(contents->state->plans.empty());
}

TEST_CASE("a record whose plans are those of version 2 is read") {
  ClusterState state = scattered_state();
  proxy::control::PlanRecord plan;
  plan.plan.content.id = 1;
  plan.plan.content.purpose = "add d";
  state.plans[1] = plan;
  state.next_plan = 2;
  const std::string record = proxy::control::encode_record(state);
  // What version 3 added to the last plan stands before the number of kept slots and the mark.
  constexpr std::size_t kAdded = 4 + 1 + 4 + 4;
  const std::size_t at = record.size() - 1 - 4 - kAdded;
  const std::string shorter = record.substr(0, at) + record.substr(at + kAdded);
  const auto contents = proxy::control::read_journal(with_version(shorter, 2, 0));
  REQUIRE_MESSAGE(contents.has_value(), contents.error().message);
  CHECK(contents->state->plans.at(1).plan.content.purpose == "add d");
  CHECK(contents->state->plans.at(1).proposed_credential.empty());
  CHECK(contents->state->plans.at(1).forecast.basis == proxy::control::ForecastBasis::NodeAverages);
  CHECK(contents->state->plans.at(1).plan.content.strays.empty());
}

TEST_CASE("a record of a newer format is said to be one") {
  slots::SlotMap::Owners owners{};
  const ClusterState state{"c", slots::SlotMap::create({{"n", 1}}, owners, 2).value(), {}};
  const auto contents =
      proxy::control::read_journal(with_version(proxy::control::encode_record(state), 4, 0));
  REQUIRE_FALSE(contents.has_value());
  CHECK(contents.error().message ==
        "record 1 at byte 0 can't be used: it has format version 4, this program knows 3; was it "
        "written by a newer one?");
}

TEST_CASE("the worst plan is a record of bounded size") {
  ClusterState state = scattered_state();
  const std::size_t before = proxy::control::encode_record(state).size();
  proxy::control::PlanRecord& plan = state.plans[1];
  plan.plan.content.id = 1;
  state.next_plan = 2;
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot) {
    const auto id = static_cast<slots::SlotId>(slot);
    plan.plan.content.moves.push_back({{id, id}, slot % 2 == 0 ? "a" : "b", "c"});
  }
  CHECK(proxy::control::encode_record(state).size() - before < slots::kSlotCount * 8 + 400);
}
