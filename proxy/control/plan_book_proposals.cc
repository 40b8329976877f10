#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "proxy/control/plan_book_parts.h"
#include "slots/placement/shares.h"
#include "slots/spread.h"

namespace proxy::control {

namespace {

using plan_book::bytes_of;
using plan_book::conflict;
using plan_book::find;
using plan_book::forget_ended;
using plan_book::no_such;
using slots::Errc;
using slots::fail;
using slots::PlanId;
using slots::Result;

struct NodeOfEdit {
  std::string operator()(const slots::AssignSlots& edit) const { return edit.node; }
  std::string operator()(const slots::AddNode& edit) const { return edit.node.name; }
  std::string operator()(const slots::RemoveNode& edit) const { return edit.name; }
  std::string operator()(const slots::SetWeight& edit) const { return edit.name; }
};

slots::NodePlaces places_of(const slots::PlanContent& content, const slots::NodePlaces& all) {
  std::set<std::string> names;
  for (const slots::Move& move : content.moves) names.insert({move.from, move.to});
  for (const slots::StrayMove& strays : content.strays) names.insert({strays.from, strays.to});
  for (const slots::SlotMapEdit& edit : content.edits_before)
    names.insert(std::visit(NodeOfEdit{}, edit));
  slots::NodePlaces places;
  for (const std::string& name : names) {
    const auto place = std::ranges::find(all, name, &slots::NodePlaces::value_type::first);
    if (place != all.end()) places.push_back(*place);
  }
  return places;
}

double spread_of(const slots::SlotMap& map) {
  const slots::Counts counts = slots::count_slots(map.owners(), map.nodes().size());
  std::vector<double> weights;
  for (const slots::Node& node : map.nodes()) weights.push_back(node.weight);
  return slots::spread_of({counts.begin(), counts.end()}, weights);
}

std::map<std::string, double> weights_before(const slots::SlotMap& map,
                                             const slots::PlanContent& content) {
  std::map<std::string, double> weights;
  for (const auto* edits : {&content.edits_before, &content.edits_after}) {
    for (const slots::SlotMapEdit& edit : *edits) {
      const std::string name = std::visit(NodeOfEdit{}, edit);
      if (const auto index = map.find(name)) weights[name] = map.nodes()[*index].weight;
    }
  }
  return weights;
}

ChangeResult add_plan(const ClusterState& now, PlanRecord record, const Surroundings& around,
                      const Act& act) {
  ClusterState next = now;
  slots::Plan& plan = record.plan;
  plan.content.id = next.next_plan++;
  plan.content.base_epoch = now.map.epoch();
  plan.content.places = places_of(plan.content, around.places);
  plan.proposed_by = act.by;
  plan.reason = act.reason;
  plan.proposed_at_ms = act.now_ms;
  record.limit = plan.content.bytes_per_second;
  record.proposed_credential = act.credential;
  record.forecast.weights_before = weights_before(now.map, plan.content);
  for (const slots::Move& move : plan.content.moves) {
    const auto load = around.expected.find(move.from);
    if (load != around.expected.end()) record.forecast.loads.insert(*load);
  }
  if (around.census != nullptr) take_census(record.forecast, plan.content, *around.census);
  std::size_t bytes = bytes_of(record);
  for (const auto& [id, other] : now.plans) {
    if (!slots::is_ended(other.plan.state)) bytes += bytes_of(other);
  }
  if (bytes > kWaitingPlansBytesMax) {
    return fail(Errc::LimitExceeded,
                "too many plans wait for approval; reject those that nobody wants, then propose "
                "again");
  }
  const PlanId id = plan.content.id;
  next.plans.emplace(id, std::move(record));
  forget_ended(next);
  return PlanChange{std::move(next), id, "proposed"};
}

// A plan of these moves between nodes as they are, its figures worked out.
Result<PlanRecord> record_of(const ClusterState& now, slots::PlanContent content) {
  std::vector<slots::SlotMapEdit> all = content.edits_before;
  std::size_t moved = 0;
  for (const slots::Move& move : content.moves) {
    all.emplace_back(slots::AssignSlots{slots::SlotSet(move.slots), move.to});
    moved += move.slots.size();
  }
  const Result<slots::SlotMap> before = now.map.with(content.edits_before);
  const Result<slots::SlotMap> after = now.map.with(all);
  if (!before) return std::unexpected(before.error());
  if (!after) return std::unexpected(after.error());
  PlanRecord record;
  record.forecast.slots_moved = moved;
  record.forecast.least_possible = moved;
  record.forecast.spread_before = spread_of(*before);
  record.forecast.spread_after = spread_of(*after);
  record.plan.content = std::move(content);
  return record;
}

// The move's slots that `node` owns, as moves of whole ranges.
void add_owned(std::vector<slots::Move>& moves, const slots::SlotMap& map, const slots::Move& move,
               const std::string& node, const std::string& from, const std::string& to) {
  const auto index = map.find(node);
  if (!index) return;
  slots::SlotSet owned;
  for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot) {
    const auto id = static_cast<slots::SlotId>(slot);
    if (map.owner(id) == *index) owned.add(id);
  }
  for (const slots::SlotRange& range : owned.ranges()) moves.push_back({range, from, to});
}

// What of an edit is still to be done.
struct IsNews {
  const slots::SlotMap& map;

  bool operator()(const slots::AssignSlots&) const { return true; }
  bool operator()(const slots::AddNode& edit) const { return !map.find(edit.node.name); }
  bool operator()(const slots::RemoveNode& edit) const { return map.find(edit.name).has_value(); }
  bool operator()(const slots::SetWeight& edit) const {
    const auto index = map.find(edit.name);
    return index && map.nodes()[*index].weight != edit.weight;
  }
};

void keep_news(std::vector<slots::SlotMapEdit>& edits, const slots::SlotMap& map) {
  std::erase_if(edits,
                [&](const slots::SlotMapEdit& edit) { return !std::visit(IsNews{map}, edit); });
}

// The way back of edits: nodes that were removed come back, nodes that were added leave once they
// own nothing, and weights are what they were.
void add_reverse(slots::PlanContent& back, const PlanRecord& record, const slots::SlotMap& map,
                 const std::vector<slots::SlotMapEdit>& edits) {
  for (const slots::SlotMapEdit& edit : edits) {
    const std::string name = std::visit(NodeOfEdit{}, edit);
    const auto weight = record.forecast.weights_before.find(name);
    if (weight == record.forecast.weights_before.end()) {
      const auto index = map.find(name);
      if (!index) continue;
      std::size_t left = map.slots_of(*index).size();
      for (const slots::Move& move : back.moves) left -= move.from == name ? move.slots.size() : 0;
      if (left == 0) back.edits_after.emplace_back(slots::RemoveNode{name});
    } else if (!map.find(name)) {
      back.edits_before.emplace_back(slots::AddNode{{name, weight->second}});
    } else {
      back.edits_before.emplace_back(slots::SetWeight{name, weight->second});
    }
  }
}

Result<const PlanRecord*> ended_plan(const ClusterState& now, PlanId plan) {
  const PlanRecord* record = find(now, plan);
  if (record == nullptr) return no_such(plan);
  if (slots::is_ended(record->plan.state)) return record;
  return conflict(fmt::format("plan {} is {}, it has not ended; abort it first, or let it end",
                              plan, slots::to_string(record->plan.state)));
}

ChangeResult propose_content(const ClusterState& now, slots::PlanContent content,
                             const PlanRecord& after, const Surroundings& around, const Act& act) {
  if (content.moves.empty() && content.edits_before.empty() && content.edits_after.empty())
    return fail(Errc::AlreadyExists, fmt::format("nothing is left to do: all is as it should be"));
  content.bytes_per_second = after.limit;
  content.pause_ms = after.plan.content.pause_ms;
  Result<PlanRecord> record = record_of(now, std::move(content));
  if (!record) return std::unexpected(std::move(record).error());
  return add_plan(now, *std::move(record), around, act);
}

}  // namespace

void take_census(PlanForecast& forecast, const slots::PlanContent& content,
                 const slots::SlotCensus& census) {
  for (const slots::Move& move : content.moves) {
    MoveLoad load;
    bool is_counted = true;
    for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot) {
      is_counted = is_counted && census.counted.contains(static_cast<slots::SlotId>(slot));
      load.keys += census.keys[slot];
      load.bytes += census.bytes[slot];
    }
    if (is_counted) forecast.moves[move.slots.first] = load;
  }
  const bool is_all = forecast.moves.size() == content.moves.size();
  forecast.basis = is_all && census.is_exact ? ForecastBasis::Counted
                   : forecast.moves.empty()  ? ForecastBasis::NodeAverages
                                             : ForecastBasis::Estimated;
}

slots::Measure measure_of(const std::vector<slots::Goal>& goals) {
  slots::Measure measure = slots::Measure::Slots;
  for (const slots::Goal& goal : goals) {
    if (const auto* balance = std::get_if<slots::BalanceGoal>(&goal)) measure = balance->measure;
    if (const auto* relief = std::get_if<slots::RelieveGoal>(&goal)) measure = relief->measure;
  }
  return measure;
}

ChangeResult propose_plan(const ClusterState& now, const ProposeRequest& request,
                          const Surroundings& around, const Act& act) {
  auto proposal = slots::propose(now.map, request.goals, around.loads, request.limits);
  if (!proposal) return std::unexpected(std::move(proposal).error());
  PlanRecord record;
  slots::PlanContent& content = record.plan.content;
  content.purpose = slots::purpose_of(request.goals);
  content.edits_before = std::move(proposal->edits_before);
  content.moves = std::move(proposal->moves);
  content.edits_after = std::move(proposal->edits_after);
  content.bytes_per_second = request.bytes_per_second.value_or(around.defaults.bandwidth);
  content.pause_ms =
      static_cast<std::uint64_t>(request.pause.value_or(around.defaults.pause).count());
  record.forecast.slots_moved = proposal->slots_moved;
  record.forecast.least_possible = proposal->least_possible;
  record.forecast.spread_before = proposal->spread_before;
  record.forecast.spread_after = proposal->spread_after;
  return add_plan(now, std::move(record), around, act);
}

ChangeResult propose_strays(const ClusterState& now, const ProposeRequest& request,
                            std::vector<slots::StrayMove> strays, const Surroundings& around,
                            const Act& act) {
  if (const PlanRecord* open = open_plan(now)) {
    return conflict(fmt::format(
        "plan {} is {}, and what it copies looks like strays: wait until "
        "it has ended (slotctl plan wait {}), then propose again",
        open->plan.content.id, slots::to_string(open->plan.state), open->plan.content.id));
  }
  std::uint64_t keys = 0;
  std::size_t conflicts = 0;
  for (const slots::StrayMove& pair : strays) {
    keys += pair.keys();
    conflicts += pair.conflicts.size();
  }
  if (keys == 0 && conflicts == 0)
    return fail(Errc::AlreadyExists, "there are no strays: every key lies on its owner");
  if (keys == 0) {
    return fail(Errc::Conflict,
                fmt::format("none of the {} strays can be collected: their owners have keys of "
                            "the same names; look at them (slotctl strays --list) and delete on "
                            "the servers what nobody needs",
                            conflicts));
  }
  if (conflicts > kStrayConflictsMax) {
    return fail(Errc::LimitExceeded,
                fmt::format("{} strays have the names of keys that their owners have, more than "
                            "the {} that a plan can leave alone; look at them (slotctl strays "
                            "--list) and delete on the servers what nobody needs",
                            conflicts, kStrayConflictsMax));
  }
  PlanRecord record;
  slots::PlanContent& content = record.plan.content;
  content.purpose = "collect strays";
  content.bytes_per_second = request.bytes_per_second.value_or(around.defaults.bandwidth);
  content.pause_ms = static_cast<std::uint64_t>(around.defaults.pause.count());
  content.strays = std::move(strays);
  return add_plan(now, std::move(record), around, act);
}

ChangeResult propose_rest(const ClusterState& now, PlanId plan, const Surroundings& around,
                          const Act& act) {
  const auto record = ended_plan(now, plan);
  if (!record) return std::unexpected(record.error());
  const slots::PlanContent& before = (*record)->plan.content;
  if (!before.strays.empty()) {
    return conflict(
        fmt::format("what plan {} has left has to be counted anew: slotctl plan "
                    "propose --collect-strays",
                    plan));
  }
  slots::PlanContent content;
  content.purpose = fmt::format("the rest of plan {}: {}", plan, before.purpose);
  content.edits_before = before.edits_before;
  content.edits_after = before.edits_after;
  keep_news(content.edits_before, now.map);
  keep_news(content.edits_after, now.map);
  for (const slots::Move& move : before.moves)
    add_owned(content.moves, now.map, move, move.from, move.from, move.to);
  return propose_content(now, std::move(content), **record, around, act);
}

ChangeResult propose_reverse(const ClusterState& now, PlanId plan, const Surroundings& around,
                             const Act& act) {
  const auto record = ended_plan(now, plan);
  if (!record) return std::unexpected(record.error());
  const slots::PlanContent& before = (*record)->plan.content;
  if (!before.strays.empty()) {
    return conflict(
        fmt::format("plan {} has collected strays: there is no way back, since nobody "
                    "owns them where they were",
                    plan));
  }
  slots::PlanContent content;
  content.purpose = fmt::format("revert plan {}: {}", plan, before.purpose);
  if ((*record)->plan.started_at_ms != 0) {
    for (const slots::Move& move : before.moves)
      add_owned(content.moves, now.map, move, move.to, move.to, move.from);
    add_reverse(content, **record, now.map, before.edits_before);
    add_reverse(content, **record, now.map, before.edits_after);
    keep_news(content.edits_before, now.map);
  }
  return propose_content(now, std::move(content), **record, around, act);
}

}  // namespace proxy::control
