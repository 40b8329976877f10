#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/control/plan_book_parts.h"

namespace proxy::control {

namespace {

using plan_book::change_map;
using plan_book::conflict;
using plan_book::find;
using plan_book::forget_ended;
using plan_book::with_state;
using slots::PlanId;
using slots::PlanState;
using slots::Result;

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

}  // namespace

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

slots::SlotSet slots_copied_to(const ClusterState& state, const std::string& node) {
  slots::SlotSet slots;
  for (const KeptSlots& kept : state.kept) {
    if (kept.source == node) {
      for (const slots::SlotRange& range : kept.slots.ranges()) slots.add(range);
    }
    if (kept.target != node) continue;
    // What it would have got later may not have been purged either.
    const PlanRecord* plan = find(state, kept.plan);
    if (plan == nullptr) return slots::SlotSet(slots::SlotRange{0, slots::kSlotCount - 1});
    for (const slots::Move& move : plan->plan.content.moves) {
      if (move.to == node) slots.add(move.slots);
    }
  }
  return slots;
}

std::size_t slots_committed(const ClusterState& state, PlanId plan) {
  std::size_t total = 0;
  for (const PairWork& pair : work_of(state, plan)) total += pair.slots_total - pair.to_move.size();
  return total;
}

}  // namespace proxy::control
