#include "proxy/control/plan_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "conf/units.h"
#include "slots/placement/shares.h"

namespace proxy::control {

namespace {

using slots::Errc;
using slots::fail;
using slots::PlanId;
using slots::PlanState;
using slots::Result;

// --- the state's plans

const PlanRecord* find(const ClusterState& state, PlanId plan) {
  const auto found = state.plans.find(plan);
  return found == state.plans.end() ? nullptr : &found->second;
}

std::unexpected<slots::Error> no_such(PlanId plan) {
  return fail(Errc::NotFound, fmt::format("there is no plan {}; PLAN LIST shows them", plan));
}

std::unexpected<slots::Error> conflict(std::string message) {
  return fail(Errc::Conflict, std::move(message));
}

std::string_view advice_for(PlanState state) {
  if (state == PlanState::Proposed) return "approve or reject it";
  if (state == PlanState::Approved) return "it starts within moments; then pause or abort it";
  if (state == PlanState::Paused) return "resume or abort it";
  if (slots::is_ended(state)) return "propose a new one, or retry or revert it";
  return "see plan show";
}

// A copy of `now` in which the plan gets another state; its record, through `plan`.
Result<ClusterState> with_state(const ClusterState& now, PlanId id, PlanState to,
                                std::string_view doing, PlanRecord*& plan) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  const PlanState from = before->plan.state;
  if (!slots::may_become(from, to)) {
    return conflict(fmt::format("plan {} is {}: it can't be {}; {}", id, slots::to_string(from),
                                doing, advice_for(from)));
  }
  ClusterState next = now;
  plan = &next.plans.at(id);
  plan->plan.state = to;
  return next;
}

std::size_t bytes_of(const PlanRecord& plan) {
  std::string bytes;
  put_plan(bytes, plan);
  return bytes.size();
}

void forget_ended(ClusterState& state) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::vector<PlanId> forgotten;
  for (auto it = state.plans.rbegin(); it != state.plans.rend(); ++it) {
    if (!slots::is_ended(it->second.plan.state)) continue;
    bytes += bytes_of(it->second);
    if (++count > kEndedPlansMax || (bytes > kEndedPlansBytesMax && count > 1))
      forgotten.push_back(it->first);
  }
  for (const PlanId plan : forgotten) state.plans.erase(plan);
}

// The map has changed: what was proposed for another epoch can't be approved any more.
void note_stale(ClusterState& state, const std::string& why, std::uint64_t now_ms) {
  for (auto& [id, record] : state.plans) {
    slots::Plan& plan = record.plan;
    if (plan.state != PlanState::Proposed || plan.content.base_epoch == state.map.epoch()) continue;
    plan.state = PlanState::Stale;
    plan.reason = fmt::format("it was made for epoch {}, the map is at epoch {} ({})",
                              plan.content.base_epoch, state.map.epoch(), why);
    plan.ended_at_ms = now_ms;
  }
}

// --- proposals

struct NodeOfEdit {
  std::string operator()(const slots::AssignSlots& edit) const { return edit.node; }
  std::string operator()(const slots::AddNode& edit) const { return edit.node.name; }
  std::string operator()(const slots::RemoveNode& edit) const { return edit.name; }
  std::string operator()(const slots::SetWeight& edit) const { return edit.name; }
};

slots::NodePlaces places_of(const slots::PlanContent& content, const slots::NodePlaces& all) {
  std::set<std::string> names;
  for (const slots::Move& move : content.moves) names.insert({move.from, move.to});
  for (const slots::SlotMapEdit& edit : content.edits_before)
    names.insert(std::visit(NodeOfEdit{}, edit));
  slots::NodePlaces places;
  for (const std::string& name : names) {
    const auto place = std::ranges::find(all, name, &slots::NodePlaces::value_type::first);
    if (place != all.end()) places.push_back(*place);
  }
  return places;
}

// Largest over fair share.
double spread_of(const slots::SlotMap& map) {
  const slots::Counts counts = slots::count_slots(map.owners(), map.nodes().size());
  double weights = 0;
  for (const slots::Node& node : map.nodes()) weights += node.weight;
  double largest = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double fair = map.nodes()[i].weight / weights * slots::kSlotCount;
    if (fair > 0) largest = std::max(largest, static_cast<double>(counts[i]) / fair);
  }
  return largest;
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
  record.forecast.weights_before = weights_before(now.map, plan.content);
  for (const slots::Move& move : plan.content.moves) {
    const auto load = around.expected.find(move.from);
    if (load != around.expected.end()) record.forecast.loads.insert(*load);
  }
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

// --- kept copies

void remove_slots(slots::SlotSet& from, const slots::SlotSet& what) {
  for (const slots::SlotRange& range : what.ranges()) {
    for (std::size_t slot = range.first; slot <= range.last; ++slot)
      from.remove(static_cast<slots::SlotId>(slot));
  }
}

void forget_collected(ClusterState& state) {
  std::erase_if(state.kept, [](const KeptSlots& kept) { return kept.slots.empty(); });
}

slots::Status check_owner(const slots::SlotMap& map, const slots::SlotSet& slots,
                          const std::string& node) {
  const auto index = map.find(node);
  if (!index) return conflict(fmt::format("node {} is not in the map", node));
  for (const slots::SlotRange& range : slots.ranges()) {
    for (std::size_t slot = range.first; slot <= range.last; ++slot) {
      if (map.owner(static_cast<slots::SlotId>(slot)) != *index)
        return conflict(fmt::format("slot {} is not {}'s", slot, node));
    }
  }
  return {};
}

// The map with one more change, and what that makes stale.
slots::Status change_map(ClusterState& state, const std::vector<slots::SlotMapEdit>& edits,
                         PlanId plan, std::uint64_t now_ms) {
  if (edits.empty()) return {};
  Result<slots::SlotMap> map = state.map.with(edits);
  if (!map) return std::unexpected(std::move(map).error());
  state.map = *std::move(map);
  // A node that comes back under its name may be another server.
  std::erase_if(state.identities, [&](const auto& known) { return !state.map.find(known.first); });
  note_stale(state, fmt::format("plan {}", plan), now_ms);
  return {};
}

}  // namespace

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

ChangeResult propose_rest(const ClusterState& now, PlanId plan, const Surroundings& around,
                          const Act& act) {
  const auto record = ended_plan(now, plan);
  if (!record) return std::unexpected(record.error());
  const slots::PlanContent& before = (*record)->plan.content;
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

ChangeResult approve_plan(const ClusterState& now, PlanId id, const std::string& digest,
                          const slots::NodePlaces& places, const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Approved, "approved", plan);
  if (!next) {
    const PlanRecord* before = find(now, id);
    if (before == nullptr || before->plan.state != PlanState::Stale)
      return std::unexpected(next.error());
    return conflict(fmt::format("plan {} is stale: {}. Make it anew: slotctl plan retry {}", id,
                                before->plan.reason, id));
  }
  const std::string expected = slots::digest_of(plan->plan.content);
  if (digest != expected) {
    return conflict(
        fmt::format("plan {} has another digest than {}: see what it is now with "
                    "slotctl plan show {}, and approve that",
                    id, digest, id));
  }
  if (const slots::Status fits = slots::check_still_fits(plan->plan.content, now.map, places);
      !fits) {
    plan->plan.state = PlanState::Stale;
    plan->plan.reason = fits.error().message;
    plan->plan.ended_at_ms = act.now_ms;
    return PlanChange{
        *std::move(next), id, "found stale",
        slots::Error{Errc::Conflict, fmt::format("plan {} is stale: {}. Make it anew: slotctl plan "
                                                 "retry {}",
                                                 id, fits.error().message, id)}};
  }
  if (const PlanRecord* other = open_plan(now)) {
    return conflict(fmt::format(
        "plan {} is {}, and one plan runs at a time: wait until it has "
        "ended (slotctl plan wait {}), then propose this one anew",
        other->plan.content.id, slots::to_string(other->plan.state), other->plan.content.id));
  }
  plan->plan.approved_by = act.by;
  plan->plan.approval_reason = act.reason;
  return PlanChange{*std::move(next), id, "approved"};
}

ChangeResult reject_plan(const ClusterState& now, PlanId id, const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Rejected, "rejected", plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.reason = act.reason;
  plan->plan.ended_at_ms = act.now_ms;
  forget_ended(*next);
  return PlanChange{*std::move(next), id, "rejected"};
}

ChangeResult pause_plan(const ClusterState& now, PlanId id, bool by_system, const Act& act) {
  const PlanRecord* before = find(now, id);
  if (before != nullptr && before->plan.state == PlanState::Paused &&
      before->plan.paused_by_system && !by_system) {
    // It would go on by itself, which its operator does not want.
    ClusterState next = now;
    slots::Plan& paused = next.plans.at(id).plan;
    paused.paused_by_system = false;
    paused.reason = act.reason;
    return PlanChange{std::move(next), id, "paused"};
  }
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Paused, "paused", plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.paused_by_system = by_system;
  plan->plan.reason = act.reason;
  return PlanChange{*std::move(next), id, "paused"};
}

ChangeResult resume_plan(const ClusterState& now, PlanId id, const Act&) {
  PlanRecord* plan = nullptr;
  const PlanRecord* before = find(now, id);
  const bool is_paused = before != nullptr && before->plan.state == PlanState::Paused;
  auto next = with_state(now, id, PlanState::Running, "resumed", plan);
  if (is_paused && before->is_aborting)
    return conflict(fmt::format("plan {} is being aborted; wait until it has ended", id));
  if (next && !is_paused)
    return conflict(fmt::format("plan {} is {}, not paused; see plan show", id,
                                slots::to_string(before->plan.state)));
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.paused_by_system = false;
  plan->plan.reason.clear();
  return PlanChange{*std::move(next), id, "resumed"};
}

ChangeResult abort_plan(const ClusterState& now, PlanId id, const Act& act) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  const std::string reason = act.by + " aborted it" + (act.reason.empty() ? "" : ": " + act.reason);
  if (before->plan.started_at_ms == 0 || slots::is_ended(before->plan.state)) {
    PlanRecord* plan = nullptr;
    auto next = with_state(now, id, PlanState::Aborted, "aborted", plan);
    if (!next) return std::unexpected(std::move(next).error());
    plan->plan.reason = reason;
    plan->plan.ended_at_ms = act.now_ms;
    return PlanChange{*std::move(next), id, "aborted"};
  }
  ClusterState next = now;
  PlanRecord& plan = next.plans.at(id);
  plan.is_aborting = true;
  plan.plan.reason = reason;
  return PlanChange{std::move(next), id, "told to abort"};
}

ChangeResult throttle_plan(const ClusterState& now, PlanId id, conf::ByteCount rate, const Act&) {
  const PlanRecord* before = find(now, id);
  if (before == nullptr) return no_such(id);
  if (slots::is_ended(before->plan.state)) {
    return conflict(fmt::format("plan {} is {}: there is nothing to throttle", id,
                                slots::to_string(before->plan.state)));
  }
  ClusterState next = now;
  next.plans.at(id).limit = rate;
  return PlanChange{std::move(next), id, "throttled to " + conf::print_rate(rate)};
}

ChangeResult start_plan(const ClusterState& now, PlanId id, const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, PlanState::Running, "started", plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.started_at_ms = act.now_ms;
  plan->plan.reason.clear();
  if (slots::Status changed = change_map(*next, plan->plan.content.edits_before, id, act.now_ms);
      !changed)
    return std::unexpected(std::move(changed).error());
  return PlanChange{*std::move(next), id, "started"};
}

ChangeResult end_plan(const ClusterState& now, PlanId id, PlanState how, const PlanOutcome& outcome,
                      const Act& act) {
  PlanRecord* plan = nullptr;
  auto next = with_state(now, id, how, std::string(slots::to_string(how)), plan);
  if (!next) return std::unexpected(std::move(next).error());
  plan->plan.reason = act.reason;
  plan->plan.ended_at_ms = act.now_ms;
  plan->outcome = outcome;
  plan->outcome.slots_committed = slots_committed(now, id);
  if (how == PlanState::Done) {
    if (slots::Status changed = change_map(*next, plan->plan.content.edits_after, id, act.now_ms);
        !changed)
      return std::unexpected(std::move(changed).error());
  }
  forget_ended(*next);
  return PlanChange{*std::move(next), id, std::string(slots::to_string(how))};
}

Result<ClusterState> commit_slots(const ClusterState& now, PlanId plan, const slots::SlotSet& slots,
                                  const std::string& source, const std::string& target,
                                  std::uint64_t marker, std::uint64_t now_ms) {
  const PlanRecord* record = find(now, plan);
  const bool is_at_work = record != nullptr && (record->plan.state == PlanState::Running ||
                                                record->plan.state == PlanState::Paused);
  if (!is_at_work) return conflict(fmt::format("plan {} is not running", plan));
  if (slots::Status owned = check_owner(now.map, slots, source); !owned)
    return std::unexpected(std::move(owned).error());
  ClusterState next = now;
  if (slots::Status changed = change_map(next, {slots::AssignSlots{slots, target}}, plan, now_ms);
      !changed)
    return std::unexpected(std::move(changed).error());
  // What the target may have kept of these slots, from an earlier plan, was purged before the copy.
  for (KeptSlots& kept : next.kept) {
    if (kept.source == target) remove_slots(kept.slots, slots);
  }
  forget_collected(next);
  next.kept.push_back({plan, source, target, slots, next.map.epoch(), marker, false});
  return next;
}

Result<ClusterState> give_slots_back(const ClusterState& now, PlanId plan,
                                     const slots::SlotSet& slots, const std::string& source,
                                     const std::string& target, std::uint64_t now_ms) {
  if (slots::Status owned = check_owner(now.map, slots, target); !owned)
    return std::unexpected(std::move(owned).error());
  for (const KeptSlots& kept : now.kept) {
    if (kept.plan != plan || kept.target != target || !kept.is_flushed) continue;
    if (!kept.slots.intersects(slots)) continue;
    return conflict(fmt::format("{} was flushed since it got slots {}: the copies on {} are older",
                                target, slots::to_string(kept.slots), source));
  }
  ClusterState next = now;
  if (slots::Status changed = change_map(next, {slots::AssignSlots{slots, source}}, plan, now_ms);
      !changed)
    return std::unexpected(std::move(changed).error());
  for (KeptSlots& kept : next.kept) {
    if (kept.plan == plan && kept.source == source && kept.target == target)
      remove_slots(kept.slots, slots);
  }
  forget_collected(next);
  return next;
}

ClusterState note_flush(const ClusterState& now, PlanId plan) {
  ClusterState next = now;
  for (KeptSlots& kept : next.kept) kept.is_flushed |= kept.plan == plan;
  return next;
}

ClusterState note_collected(const ClusterState& now, PlanId plan, const slots::SlotSet& slots,
                            const std::string& source) {
  ClusterState next = now;
  for (KeptSlots& kept : next.kept) {
    if (kept.plan == plan && kept.source == source) remove_slots(kept.slots, slots);
  }
  forget_collected(next);
  return next;
}

const PlanRecord* open_plan(const ClusterState& state) {
  for (const auto& [id, record] : state.plans) {
    const PlanState at = record.plan.state;
    if (at != PlanState::Proposed && !slots::is_ended(at)) return &record;
  }
  return nullptr;
}

std::vector<PairWork> work_of(const ClusterState& state, PlanId plan) {
  std::vector<PairWork> work;
  const PlanRecord* record = find(state, plan);
  if (record == nullptr) return work;
  for (const slots::Move& move : record->plan.content.moves) {
    auto pair = std::ranges::find_if(work, [&](const PairWork& known) {
      return known.source == move.from && known.target == move.to;
    });
    if (pair == work.end()) {
      work.push_back({move.from, move.to, {}, {}, 0});
      pair = work.end() - 1;
    }
    pair->slots_total += move.slots.size();
    const auto source = state.map.find(move.from);
    for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot) {
      const auto id = static_cast<slots::SlotId>(slot);
      if (source && state.map.owner(id) == *source) pair->to_move.add(id);
    }
  }
  for (const KeptSlots& kept : state.kept) {
    for (PairWork& pair : work) {
      if (kept.plan == plan && kept.source == pair.source && kept.target == pair.target)
        pair.kept.push_back(kept);
    }
  }
  return work;
}

std::size_t slots_committed(const ClusterState& state, PlanId plan) {
  std::size_t total = 0;
  for (const PairWork& pair : work_of(state, plan)) total += pair.slots_total - pair.to_move.size();
  return total;
}

}  // namespace proxy::control
