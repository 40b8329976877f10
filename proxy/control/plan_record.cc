#include "proxy/control/plan_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include "conf/units.h"
#include "conf/writer.h"

namespace proxy::control {

namespace {

constexpr unsigned kVersionWithStrays = 3;  // With credentials and counted moves, too.

enum class EditKind : std::uint8_t { AssignSlots = 1, AddNode = 2, RemoveNode = 3, SetWeight = 4 };

void put_slots(std::string& out, const slots::SlotSet& set) {
  const std::vector<slots::SlotRange> ranges = set.ranges();
  put(out, static_cast<std::uint32_t>(ranges.size()));
  for (const slots::SlotRange& range : ranges) {
    put(out, range.first);
    put(out, range.last);
  }
}

slots::SlotRange take_range(Decoder& decoder) {
  const auto first = decoder.take<std::uint16_t>();
  const auto last = decoder.take<std::uint16_t>();
  if (last < first || last >= slots::kSlotCount) decoder.fail();
  return {first, last};
}

slots::SlotSet take_slots(Decoder& decoder) {
  slots::SlotSet set;
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i) {
    const slots::SlotRange range = take_range(decoder);
    if (!decoder.failed()) set.add(range);
  }
  return set;
}

struct EditWriter {
  std::string& out;

  void kind(EditKind value) const { put(out, static_cast<std::uint8_t>(value)); }
  void operator()(const slots::AssignSlots& edit) const {
    kind(EditKind::AssignSlots);
    put_slots(out, edit.slots);
    put_text(out, edit.node);
  }
  void operator()(const slots::AddNode& edit) const {
    kind(EditKind::AddNode);
    put_text(out, edit.node.name);
    put_double(out, edit.node.weight);
  }
  void operator()(const slots::RemoveNode& edit) const {
    kind(EditKind::RemoveNode);
    put_text(out, edit.name);
  }
  void operator()(const slots::SetWeight& edit) const {
    kind(EditKind::SetWeight);
    put_text(out, edit.name);
    put_double(out, edit.weight);
  }
};

void put_edits(std::string& out, const std::vector<slots::SlotMapEdit>& edits) {
  put(out, static_cast<std::uint32_t>(edits.size()));
  for (const slots::SlotMapEdit& edit : edits) std::visit(EditWriter{out}, edit);
}

slots::SlotMapEdit take_edit(Decoder& decoder) {
  switch (static_cast<EditKind>(decoder.take<std::uint8_t>())) {
    case EditKind::AssignSlots: {
      slots::SlotSet set = take_slots(decoder);
      return slots::AssignSlots{set, decoder.take_text()};
    }
    case EditKind::AddNode: {
      std::string name = decoder.take_text();
      return slots::AddNode{{std::move(name), decoder.take_double()}};
    }
    case EditKind::RemoveNode:
      return slots::RemoveNode{decoder.take_text()};
    case EditKind::SetWeight: {
      std::string name = decoder.take_text();
      return slots::SetWeight{std::move(name), decoder.take_double()};
    }
  }
  decoder.fail();
  return slots::RemoveNode{};
}

std::vector<slots::SlotMapEdit> take_edits(Decoder& decoder) {
  std::vector<slots::SlotMapEdit> edits;
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i)
    edits.push_back(take_edit(decoder));
  return edits;
}

void put_moves(std::string& out, const std::vector<slots::Move>& moves) {
  std::set<std::string> names;
  for (const slots::Move& move : moves) names.insert({move.from, move.to});
  put(out, static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) put_text(out, name);
  const auto place = [&](const std::string& name) {
    return static_cast<std::uint16_t>(std::distance(names.begin(), names.find(name)));
  };
  put(out, static_cast<std::uint32_t>(moves.size()));
  for (const slots::Move& move : moves) {
    put(out, move.slots.first);
    put(out, move.slots.last);
    put(out, place(move.from));
    put(out, place(move.to));
  }
}

std::vector<slots::Move> take_moves(Decoder& decoder) {
  std::vector<std::string> names;
  const auto name_count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < name_count && !decoder.failed(); ++i)
    names.push_back(decoder.take_text());
  std::vector<slots::Move> moves;
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i) {
    const slots::SlotRange range = take_range(decoder);
    const auto from = decoder.take<std::uint16_t>();
    const auto to = decoder.take<std::uint16_t>();
    if (from >= names.size() || to >= names.size()) decoder.fail();
    if (!decoder.failed()) moves.push_back({range, names[from], names[to]});
  }
  return moves;
}

void put_content(std::string& out, const slots::PlanContent& content) {
  put(out, content.id);
  put(out, content.base_epoch);
  put_text(out, content.purpose);
  put_edits(out, content.edits_before);
  put_moves(out, content.moves);
  put_edits(out, content.edits_after);
  put(out, content.bytes_per_second);
  put(out, content.pause_ms);
  put(out, static_cast<std::uint32_t>(content.places.size()));
  for (const auto& [node, address] : content.places) {
    put_text(out, node);
    put_text(out, address);
  }
}

slots::PlanContent take_content(Decoder& decoder) {
  slots::PlanContent content;
  content.id = decoder.take<std::uint64_t>();
  content.base_epoch = decoder.take<std::uint64_t>();
  content.purpose = decoder.take_text();
  content.edits_before = take_edits(decoder);
  content.moves = take_moves(decoder);
  content.edits_after = take_edits(decoder);
  content.bytes_per_second = decoder.take<std::uint64_t>();
  content.pause_ms = decoder.take<std::uint64_t>();
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i) {
    std::string node = decoder.take_text();
    content.places.emplace_back(std::move(node), decoder.take_text());
  }
  return content;
}

void put_forecast(std::string& out, const PlanForecast& forecast) {
  put(out, forecast.slots_moved);
  put(out, forecast.least_possible);
  put_double(out, forecast.spread_before);
  put_double(out, forecast.spread_after);
  put(out, static_cast<std::uint32_t>(forecast.loads.size()));
  for (const auto& [node, load] : forecast.loads) {
    put_text(out, node);
    put_double(out, load.keys_per_slot);
    put_double(out, load.bytes_per_key);
  }
  put(out, static_cast<std::uint32_t>(forecast.weights_before.size()));
  for (const auto& [node, weight] : forecast.weights_before) {
    put_text(out, node);
    put_double(out, weight);
  }
}

PlanForecast take_forecast(Decoder& decoder) {
  PlanForecast forecast;
  forecast.slots_moved = decoder.take<std::uint64_t>();
  forecast.least_possible = decoder.take<std::uint64_t>();
  forecast.spread_before = decoder.take_double();
  forecast.spread_after = decoder.take_double();
  const auto count = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && !decoder.failed(); ++i) {
    SlotLoad& load = forecast.loads[decoder.take_text()];
    load.keys_per_slot = decoder.take_double();
    load.bytes_per_key = decoder.take_double();
  }
  const auto weights = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < weights && !decoder.failed(); ++i) {
    std::string node = decoder.take_text();
    forecast.weights_before[std::move(node)] = decoder.take_double();
  }
  return forecast;
}

void put_counts(std::string& out, const PlanForecast& forecast) {
  put(out, static_cast<std::uint8_t>(forecast.basis));
  put(out, static_cast<std::uint32_t>(forecast.moves.size()));
  for (const auto& [slot, load] : forecast.moves) {
    put(out, slot);
    put_double(out, load.keys);
    put_double(out, load.bytes);
  }
}

void take_counts(Decoder& decoder, PlanForecast& forecast) {
  const auto basis = decoder.take<std::uint8_t>();
  if (basis > static_cast<std::uint8_t>(ForecastBasis::Estimated)) decoder.fail();
  forecast.basis = static_cast<ForecastBasis>(basis);
  const auto moves = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < moves && !decoder.failed(); ++i) {
    MoveLoad& load = forecast.moves[decoder.take<std::uint16_t>()];
    load.keys = decoder.take_double();
    load.bytes = decoder.take_double();
  }
}

struct EditWords {
  std::string operator()(const slots::AssignSlots& edit) const {
    return fmt::format("{} to {}", slots::to_string(edit.slots), edit.node);
  }
  std::string operator()(const slots::AddNode& edit) const {
    return fmt::format("adds {}, weight {}", edit.node.name, conf::print_weight(edit.node.weight));
  }
  std::string operator()(const slots::RemoveNode& edit) const {
    return fmt::format("removes {}", edit.name);
  }
  std::string operator()(const slots::SetWeight& edit) const {
    return fmt::format("weight of {} becomes {}", edit.name, conf::print_weight(edit.weight));
  }
};

void put_strays(std::string& out, const slots::StrayMove& strays) {
  put_text(out, strays.from);
  put_text(out, strays.to);
  put(out, strays.bytes);
  put(out, static_cast<std::uint32_t>(strays.slots.size()));
  for (const slots::StrayMove::InSlot& slot : strays.slots) {
    put(out, slot.slot);
    put(out, slot.keys);
    put(out, slot.conflicts);
  }
  put(out, static_cast<std::uint32_t>(strays.conflicts.size()));
  for (const std::uint64_t hash : strays.conflicts) put(out, hash);
  put(out, static_cast<std::uint32_t>(strays.conflict_names.size()));
  for (const std::string& name : strays.conflict_names) put_text(out, name);
}

slots::StrayMove take_strays(Decoder& decoder) {
  slots::StrayMove strays;
  strays.from = decoder.take_text();
  strays.to = decoder.take_text();
  strays.bytes = decoder.take<std::uint64_t>();
  const auto in_slots = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < in_slots && !decoder.failed(); ++i) {
    slots::StrayMove::InSlot& slot = strays.slots.emplace_back();
    slot.slot = decoder.take<std::uint16_t>();
    slot.keys = decoder.take<std::uint32_t>();
    slot.conflicts = decoder.take<std::uint32_t>();
    if (slot.slot >= slots::kSlotCount) decoder.fail();
  }
  const auto conflicts = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < conflicts && !decoder.failed(); ++i)
    strays.conflicts.push_back(decoder.take<std::uint64_t>());
  const auto names = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < names && !decoder.failed(); ++i)
    strays.conflict_names.push_back(decoder.take_text());
  return strays;
}

void add_time(std::string& out, std::string_view key, std::uint64_t unix_ms) {
  if (unix_ms != 0) out += fmt::format("{}: {}\n", key, utc_text(unix_ms));
}

void add_text(std::string& out, std::string_view key, const std::string& text) {
  if (!text.empty()) out += fmt::format("{}: {}\n", key, conf::yaml_scalar(text));
}

}  // namespace

void put_plan(std::string& out, const PlanRecord& record) {
  const slots::Plan& plan = record.plan;
  put_content(out, plan.content);
  put(out, static_cast<std::uint8_t>(plan.state));
  put(out, static_cast<std::uint8_t>(plan.paused_by_system));
  for (const std::string* text :
       {&plan.reason, &plan.proposed_by, &plan.approved_by, &plan.approval_reason})
    put_text(out, *text);
  put(out, plan.proposed_at_ms);
  put(out, plan.started_at_ms);
  put(out, plan.ended_at_ms);
  put(out, record.limit);
  put(out, static_cast<std::uint8_t>(record.is_aborting));
  put_forecast(out, record.forecast);
  const PlanOutcome& outcome = record.outcome;
  for (const std::uint64_t figure :
       {outcome.slots_committed, outcome.keys_copied, outcome.keys_recopied, outcome.payload_bytes,
        outcome.fences, outcome.pause_median_us, outcome.pause_max_us})
    put(out, figure);
  put_text(out, record.proposed_credential);
  put_counts(out, record.forecast);
  put(out, static_cast<std::uint32_t>(plan.content.strays.size()));
  for (const slots::StrayMove& strays : plan.content.strays) put_strays(out, strays);
}

PlanRecord take_plan(Decoder& decoder, unsigned version) {
  PlanRecord record;
  slots::Plan& plan = record.plan;
  plan.content = take_content(decoder);
  const auto state = decoder.take<std::uint8_t>();
  if (state > static_cast<std::uint8_t>(slots::PlanState::Stale)) decoder.fail();
  plan.state = static_cast<slots::PlanState>(state);
  plan.paused_by_system = decoder.take<std::uint8_t>() != 0;
  for (std::string* text :
       {&plan.reason, &plan.proposed_by, &plan.approved_by, &plan.approval_reason})
    *text = decoder.take_text();
  plan.proposed_at_ms = decoder.take<std::uint64_t>();
  plan.started_at_ms = decoder.take<std::uint64_t>();
  plan.ended_at_ms = decoder.take<std::uint64_t>();
  record.limit = decoder.take<std::uint64_t>();
  record.is_aborting = decoder.take<std::uint8_t>() != 0;
  record.forecast = take_forecast(decoder);
  PlanOutcome& outcome = record.outcome;
  for (std::uint64_t* figure :
       {&outcome.slots_committed, &outcome.keys_copied, &outcome.keys_recopied,
        &outcome.payload_bytes, &outcome.fences, &outcome.pause_median_us, &outcome.pause_max_us})
    *figure = decoder.take<std::uint64_t>();
  if (version < kVersionWithStrays) return record;
  record.proposed_credential = decoder.take_text();
  take_counts(decoder, record.forecast);
  const auto pairs = decoder.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < pairs && !decoder.failed(); ++i)
    plan.content.strays.push_back(take_strays(decoder));
  return record;
}

void put_kept(std::string& out, const KeptSlots& kept) {
  put(out, kept.plan);
  put_text(out, kept.source);
  put_text(out, kept.target);
  put(out, kept.epoch);
  put(out, kept.marker);
  put(out, static_cast<std::uint8_t>(kept.is_flushed));
  put_slots(out, kept.slots);
}

KeptSlots take_kept(Decoder& decoder) {
  KeptSlots kept;
  kept.plan = decoder.take<std::uint64_t>();
  kept.source = decoder.take_text();
  kept.target = decoder.take_text();
  kept.epoch = decoder.take<std::uint64_t>();
  kept.marker = decoder.take<std::uint64_t>();
  kept.is_flushed = decoder.take<std::uint8_t>() != 0;
  kept.slots = take_slots(decoder);
  return kept;
}

std::string utc_text(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(seconds));
}

std::string edit_text(const slots::SlotMapEdit& edit) { return std::visit(EditWords{}, edit); }

std::string plan_yaml(const PlanRecord& record) {
  const slots::Plan& plan = record.plan;
  std::string out =
      "# Written by slotproxy after each change, for people; changes made here have "
      "no effect.\n";
  out += fmt::format("plan: {}\nstate: {}\n", plan.content.id, slots::to_string(plan.state));
  add_text(out, "reason", plan.reason);
  add_text(out, "purpose", plan.content.purpose);
  out += fmt::format("digest: {}\nbase_epoch: {}\n", slots::digest_of(plan.content),
                     plan.content.base_epoch);
  add_text(out, "proposed_by", plan.proposed_by);
  add_time(out, "proposed_at", plan.proposed_at_ms);
  add_text(out, "approved_by", plan.approved_by);
  add_text(out, "approval_reason", plan.approval_reason);
  add_time(out, "started_at", plan.started_at_ms);
  add_time(out, "ended_at", plan.ended_at_ms);
  out += fmt::format("limit: {}\n", conf::print_rate(record.limit));
  for (const auto* edits : {&plan.content.edits_before, &plan.content.edits_after}) {
    if (edits->empty()) continue;
    out += edits == &plan.content.edits_before ? "before:\n" : "after:\n";
    for (const slots::SlotMapEdit& edit : *edits)
      out += fmt::format("  - {}\n", conf::yaml_scalar(edit_text(edit)));
  }
  out += plan.content.moves.empty() ? "moves: []\n" : "moves:\n";
  for (const slots::Move& move : plan.content.moves) {
    out += fmt::format("  - {{slots: {}, from: {}, to: {}}}\n", slots::to_string(move.slots),
                       move.from, move.to);
  }
  for (const slots::StrayMove& strays : plan.content.strays) {
    if (&strays == &plan.content.strays.front()) out += "strays:\n";
    out += fmt::format("  - {{from: {}, to: {}, keys: {}, left_alone: {}}}\n", strays.from,
                       strays.to, strays.keys(), strays.conflicts.size());
  }
  if (plan.started_at_ms == 0) return out;
  const PlanOutcome& outcome = record.outcome;
  out += fmt::format(
      "outcome: {{slots_committed: {}, keys_copied: {}, keys_recopied: {}, payload_bytes: {}, "
      "pauses: {}, pause_median_us: {}, pause_max_us: {}}}\n",
      outcome.slots_committed, outcome.keys_copied, outcome.keys_recopied, outcome.payload_bytes,
      outcome.fences, outcome.pause_median_us, outcome.pause_max_us);
  return out;
}

}  // namespace proxy::control
