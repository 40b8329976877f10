#include "proxy/control/plan_reports.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <variant>

#include "proxy/control/plan_book.h"
#include "proxy/control/preflight.h"

namespace proxy::control {

namespace {

std::optional<std::uint64_t> time_of(std::uint64_t unix_ms) {
  return unix_ms == 0 ? std::nullopt : std::optional(unix_ms);
}

constexpr std::array<std::string_view, 3> kBases{"averages", "counted", "estimated"};

std::uint64_t whole(double value) { return static_cast<std::uint64_t>(std::llround(value)); }

std::optional<std::string> paused_by(const slots::Plan& plan) {
  if (plan.state != slots::PlanState::Paused) return std::nullopt;
  return plan.paused_by_system ? "system" : "operator";
}

void add_moves(admin::PlanReport& report, const PlanRecord& record) {
  for (const slots::Move& move : record.plan.content.moves) {
    admin::PlanMove& line = report.moves.emplace_back();
    line.slots = slots::to_string(move.slots);
    line.from = move.from;
    line.to = move.to;
    const bool is_counted = record.forecast.moves.contains(move.slots.first);
    if (!is_counted && !record.forecast.loads.contains(move.from)) continue;
    const Expected expected = expected_of(record, move);
    line.keys = whole(expected.keys);
    line.bytes = whole(expected.bytes);
  }
  for (const slots::StrayMove& strays : record.plan.content.strays) {
    admin::PlanStrays& line = report.strays.emplace_back();
    line = {strays.from, strays.to, strays.keys(), strays.bytes, strays.conflicts.size(), {}, {}};
    for (const std::string& name : strays.conflict_names) line.conflict_names.push_back({name});
    for (const slots::StrayMove::InSlot& slot : strays.slots)
      line.slots.push_back({slot.slot, slot.keys, slot.conflicts});
  }
  if (record.forecast.loads.empty() && record.forecast.moves.empty() && report.strays.empty())
    return;
  if (report.strays.empty())
    report.forecast_basis = kBases.at(static_cast<std::size_t>(record.forecast.basis));
  const Expected total = expected_total(record);
  report.keys = whole(total.keys);
  report.bytes = whole(total.bytes);
  if (record.limit != 0)
    report.seconds_at_limit = whole(std::ceil(total.bytes / static_cast<double>(record.limit)));
}

void add_targets(admin::PlanReport& report, const PlanRecord& record,
                 const std::map<std::string, NodeFacts>& facts) {
  if (slots::is_ended(record.plan.state)) return;
  std::map<std::string, double> coming;
  for (const slots::Move& move : record.plan.content.moves)
    coming[move.to] += expected_of(record, move).bytes;
  for (const slots::StrayMove& strays : record.plan.content.strays)
    coming[strays.to] += static_cast<double>(strays.bytes);
  for (const auto& [name, bytes] : coming) {
    const auto known = facts.find(name);
    if (known == facts.end()) continue;
    report.targets.push_back(
        {name, known->second.used_memory + whole(bytes), known->second.maxmemory});
  }
}

// About: reading, sending and writing a value takes a server a second for so many bytes of memory.
constexpr std::uint64_t kBytesPerMs = 60'000;

admin::PlanKey key_report(const std::string& node, const SampledKey& key) {
  return {.key = {key.name},
          .node = node,
          .slot = key.slot,
          .type = key.type,
          .bytes = key.bytes,
          .groups = key.groups,
          .pause_ms = 1 + key.bytes / kBytesPerMs};
}

void add_sample(admin::PlanReport& report, const KeySamples& samples) {
  if (samples.empty()) return;
  admin::PlanSample& sample = report.sample.emplace();
  sample.is_whole = true;
  for (const auto& [node, found] : samples) {
    sample.keys += found.keys;
    sample.is_whole = sample.is_whole && found.is_whole;
    sample.streams_with_groups += found.streams_with_groups;
    for (const SampledKey& key : found.largest) sample.largest.push_back(key_report(node, key));
    for (const SampledKey& key : found.streams) sample.streams.push_back(key_report(node, key));
  }
  for (auto* keys : {&sample.largest, &sample.streams}) {
    std::ranges::stable_sort(*keys, std::ranges::greater{}, &admin::PlanKey::bytes);
    if (keys->size() > KeySample::kNamedMax) keys->resize(KeySample::kNamedMax);
  }
}

// Who owns each slot when none, or all, of a plan's moves are made.
using OwnerNames = std::vector<std::string>;
OwnerNames owners_with(const slots::SlotMap& map, const std::vector<slots::Move>& moves,
                       std::string slots::Move::* owner) {
  OwnerNames names;
  for (const slots::NodeIndex index : map.owners()) names.push_back(map.nodes()[index].name);
  for (const slots::Move& move : moves) {
    for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot)
      names[slot] = move.*owner;
  }
  return names;
}

std::vector<std::string> texts_of(const slots::SlotSet& set) {
  std::vector<std::string> texts;
  for (const slots::SlotRange& range : set.ranges()) texts.push_back(slots::to_string(range));
  return texts;
}

using DiffByNode = std::map<std::string, admin::PlanNodeDiff>;

// Weights before and after, as far as the plan changes them; `nodes` have those of now.
void add_weights(DiffByNode& nodes, const PlanRecord& record) {
  const slots::PlanContent& content = record.plan.content;
  for (const auto* edits : {&content.edits_before, &content.edits_after}) {
    for (const slots::SlotMapEdit& edit : *edits) {
      if (const auto* add = std::get_if<slots::AddNode>(&edit)) {
        nodes[add->node.name].weight_before.reset();
        nodes[add->node.name].weight_after = add->node.weight;
      }
      if (const auto* set = std::get_if<slots::SetWeight>(&edit))
        nodes[set->name].weight_after = set->weight;
      if (const auto* remove = std::get_if<slots::RemoveNode>(&edit))
        nodes[remove->name].weight_after.reset();
    }
  }
  for (const auto& [name, weight] : record.forecast.weights_before)
    nodes[name].weight_before = weight;
}

}  // namespace

admin::PlanReport plan_report(const ClusterState& state, const PlanRecord& record,
                              const std::map<std::string, NodeFacts>& facts,
                              std::vector<admin::PlanCheck> checks,
                              std::optional<admin::PlanProgress> progress,
                              const KeySamples& samples) {
  const slots::Plan& plan = record.plan;
  const slots::PlanContent& content = plan.content;
  admin::PlanReport report;
  report.id = content.id;
  report.digest = slots::digest_of(content);
  report.state = slots::to_string(plan.state);
  report.reason = plan.reason;
  report.paused_by = paused_by(plan);
  report.purpose = content.purpose;
  report.base_epoch = content.base_epoch;
  report.proposed_by = plan.proposed_by;
  report.proposed_at_ms = time_of(plan.proposed_at_ms);
  if (!plan.approved_by.empty()) {
    report.approved_by = plan.approved_by;
    report.approval_reason = plan.approval_reason;
  }
  report.started_at_ms = time_of(plan.started_at_ms);
  report.ended_at_ms = time_of(plan.ended_at_ms);
  report.bytes_per_second = record.limit;
  report.pause_ms = content.pause_ms;
  for (const auto* edits : {&content.edits_before, &content.edits_after}) {
    for (const slots::SlotMapEdit& edit : *edits) report.edits.push_back(edit_text(edit));
  }
  report.slots_moved = record.forecast.slots_moved;
  report.least_possible = record.forecast.least_possible;
  report.spread_before = record.forecast.spread_before;
  report.spread_after = record.forecast.spread_after;
  add_moves(report, record);
  add_targets(report, record, facts);
  add_sample(report, samples);
  report.checks = std::move(checks);
  if (progress) {
    report.progress = std::move(progress);
  } else if (plan.started_at_ms != 0) {
    admin::PlanProgress& ended = report.progress.emplace();
    const PlanOutcome& outcome = record.outcome;
    ended.phase = "ended";
    ended.running_seconds =
        (std::max(plan.ended_at_ms, plan.started_at_ms) - plan.started_at_ms) / 1000;
    ended.slots_committed =
        slots::is_ended(plan.state) ? outcome.slots_committed : slots_committed(state, content.id);
    ended.slots_total = record.forecast.slots_moved;
    ended.keys_copied = outcome.keys_copied;
    ended.keys_total = report.keys.value_or(0);
    ended.payload_bytes = outcome.payload_bytes;
    ended.bytes_total = report.bytes.value_or(0);
    ended.pauses = outcome.fences;
    ended.pause_median_ms = static_cast<double>(outcome.pause_median_us) / 1000;
    ended.pause_max_ms = static_cast<double>(outcome.pause_max_us) / 1000;
  }
  return report;
}

admin::PlansReport plans_report(const ClusterState& state) {
  admin::PlansReport report{state.map.epoch(), {}};
  for (auto it = state.plans.rbegin(); it != state.plans.rend(); ++it) {
    const slots::Plan& plan = it->second.plan;
    admin::PlanSummary& line = report.plans.emplace_back();
    line.id = it->first;
    line.digest = slots::digest_of(plan.content);
    line.state = slots::to_string(plan.state);
    line.reason = plan.reason;
    line.paused_by = paused_by(plan);
    line.purpose = plan.content.purpose;
    line.base_epoch = plan.content.base_epoch;
    line.proposed_by = plan.proposed_by;
    line.proposed_at_ms = time_of(plan.proposed_at_ms);
    line.slots_moved = it->second.forecast.slots_moved;
    if (slots::is_ended(plan.state)) line.slots_committed = it->second.outcome.slots_committed;
    if (!slots::is_ended(plan.state) && plan.started_at_ms != 0)
      line.slots_committed = slots_committed(state, it->first);
  }
  return report;
}

admin::PlanDiffReport plan_diff(const ClusterState& state, const PlanRecord& record) {
  const slots::PlanContent& content = record.plan.content;
  DiffByNode nodes;
  for (const slots::Node& node : state.map.nodes()) {
    admin::PlanNodeDiff& diff = nodes[node.name];
    diff.weight_before = diff.weight_after = node.weight;
  }
  add_weights(nodes, record);
  std::map<std::string, slots::SlotSet> gives;
  std::map<std::string, slots::SlotSet> gets;
  for (const slots::Move& move : content.moves) {
    gives[move.from].add(move.slots);
    gets[move.to].add(move.slots);
  }
  for (const std::string& name : owners_with(state.map, content.moves, &slots::Move::from))
    ++nodes[name].slots_before;
  for (const std::string& name : owners_with(state.map, content.moves, &slots::Move::to))
    ++nodes[name].slots_after;
  admin::PlanDiffReport report{
      content.id, std::string(slots::to_string(record.plan.state)), content.base_epoch, {}};
  for (auto& [name, diff] : nodes) {
    diff.node = name;
    diff.gives = texts_of(gives[name]);
    diff.gets = texts_of(gets[name]);
    report.nodes.push_back(std::move(diff));
  }
  return report;
}

std::vector<OpenPlan> open_plans(const ClusterState& state) {
  std::vector<OpenPlan> plans;
  for (const auto& [id, record] : state.plans) {
    const slots::Plan& plan = record.plan;
    if (slots::is_ended(plan.state)) continue;
    plans.push_back(
        {id, std::string(slots::to_string(plan.state)), plan.content.purpose, plan.reason});
  }
  return plans;
}

}  // namespace proxy::control
