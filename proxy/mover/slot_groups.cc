#include "proxy/mover/slot_groups.h"

#include <algorithm>

namespace proxy::mover {
namespace {

constexpr double kMsPerByte = 1e-5;
constexpr double kMsPerStream = 0.05;
constexpr double kMsPerDatabase = 0.3;  // A few round trips; the first one's count with its keys.

constexpr std::uint64_t kRetryMs = 100;      // After the first failure; doubled each time,
constexpr std::uint64_t kRetryMsMax = 5000;  // up to this.
// When nothing was quiet enough for so long, the quietest slot is tried: the estimate may be wrong.
constexpr std::uint64_t kTryAnywayMs = 5000;
// Of the pause, what the last copy of several slots should take at most: clients wait less for two
// small groups than for a large one. A slot alone may take half of it.
constexpr double kShareTogether = 0.08;
constexpr unsigned kHopelessTries = 8;
constexpr double kSteadyScaleMin = 0.5;  // That small keys were quick says little of large ones.

}  // namespace

void SlotGroups::note_stream(const DbKey& key, slots::SlotId slot, std::size_t bytes) {
  streams_[slot][key] = bytes;
}

void SlotGroups::note_no_stream(const DbKey& key, slots::SlotId slot) {
  auto of_slot = streams_.find(slot);
  if (of_slot == streams_.end()) return;
  of_slot->second.erase(key);
  if (of_slot->second.empty()) streams_.erase(of_slot);
}

std::vector<DbKey> SlotGroups::streams_of(const slots::SlotSet& slots) const {
  std::vector<DbKey> keys;
  for (const auto& [slot, streams] : streams_) {
    if (!slots.contains(slot)) continue;
    for (const auto& [key, bytes] : streams) keys.push_back(key);
  }
  return keys;
}

std::optional<slots::SlotSet> SlotGroups::choose(const slots::SlotSet& open, const DirtyKeys& dirty,
                                                 const LargeKeys& large, std::uint64_t now_ms) {
  const double budget = budget_ms();
  const double budget_together = pause_ms_ * kShareTogether;
  slots::SlotSet group;
  double group_cost = 0;
  std::size_t group_size = 0;
  unsigned failures = ~0U;  // Of each slot in the group: the fewest there are.
  std::optional<slots::SlotId> quietest;
  double quietest_cost = 0;
  for (const slots::SlotRange& range : open.ranges()) {
    for (std::uint32_t at = range.first; at <= range.last; ++at) {
      const auto slot = static_cast<slots::SlotId>(at);
      const auto tries = tries_.find(slot);
      const unsigned failed = tries == tries_.end() ? 0 : tries->second.failures;
      if (failed > failures || (failed > 0 && tries->second.not_before_ms > now_ms)) continue;
      const double cost = cost_ms(slot, dirty, large);
      if ((!quietest || cost < quietest_cost) && !large.is_open(slot)) {
        quietest = slot;
        quietest_cost = cost;
      }
      if (cost > budget) continue;
      if (failed < failures) {
        failures = failed;
        group = {};
        group_cost = 0;
        group_size = 0;
      }
      if (group_size == size_after(failed)) continue;
      if (group_size > 0 && group_cost + cost > budget_together) continue;
      group.add(slot);
      group_cost += cost;
      ++group_size;
      if (failed == 0 && group_size == group_slots_) break;
    }
  }
  if (group_size == 0 && quietest && idle_since_ms_ && now_ms >= *idle_since_ms_ + kTryAnywayMs) {
    group.add(*quietest);
    group_size = 1;
    scale_ = std::max(std::min(scale_, 1.0), scale_ / 2);
  }
  if (group_size == 0) {
    if (!idle_since_ms_) idle_since_ms_ = now_ms;
    return std::nullopt;
  }
  idle_since_ms_.reset();
  return group;
}

std::size_t SlotGroups::size_after(unsigned failures) const {
  return std::max(1U, group_slots_ >> std::min(failures, 31U));
}

double SlotGroups::cost_ms(slots::SlotId slot, const DirtyKeys& dirty,
                           const LargeKeys& large) const {
  const std::size_t names = dirty.size_of(slot);
  const double round_trips = names == 0 ? 0 : (databases_ - 1) * kMsPerDatabase;
  return (static_cast<double>(names) * databases_ * (ms_per_key_ + payload_bytes_ * kMsPerByte) +
          round_trips) *
             scale_ +
         steady_cost_ms(slot, large);
}

double SlotGroups::cost_ms(const slots::SlotSet& slots, const DirtyKeys& dirty,
                           const LargeKeys& large) const {
  double cost = 0;
  for (const slots::SlotRange& range : slots.ranges()) {
    for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
      cost += cost_ms(static_cast<slots::SlotId>(slot), dirty, large);
    }
  }
  return cost;
}

double SlotGroups::steady_cost_ms(slots::SlotId slot, const LargeKeys& large) const {
  double cost = large.cost_ms(slot);
  if (auto streams = streams_.find(slot); streams != streams_.end()) {
    for (const auto& [name, bytes] : streams->second) {
      cost += kMsPerStream + static_cast<double>(bytes) * kMsPerByte;
    }
  }
  return cost * std::max(scale_, kSteadyScaleMin);
}

bool SlotGroups::is_hopeless(slots::SlotId slot, const LargeKeys& large) const {
  const auto tries = tries_.find(slot);
  return tries != tries_.end() && tries->second.failures >= kHopelessTries &&
         steady_cost_ms(slot, large) > budget_ms();
}

void SlotGroups::note_copied(double estimated_ms, std::uint64_t took_ms) {
  if (estimated_ms <= 0 || (estimated_ms < 1 && took_ms < 5)) return;  // Nothing to learn from.
  const double ratio =
      static_cast<double>(std::max<std::uint64_t>(took_ms, 1)) / std::max(estimated_ms, 0.5);
  scale_ = std::clamp(scale_ * (0.5 + std::clamp(ratio, 0.25, 3.0) / 2), 0.1, 50.0);
}

void SlotGroups::note_payload(std::size_t keys, std::size_t bytes) {
  if (keys == 0) return;
  payload_bytes_ =
      payload_bytes_ * 0.9 + static_cast<double>(bytes) / static_cast<double>(keys) * 0.1;
}

void SlotGroups::note_failed(const slots::SlotSet& slots, std::uint64_t now_ms) {
  for (const slots::SlotRange& range : slots.ranges()) {
    for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
      Tries& tries = tries_[static_cast<slots::SlotId>(slot)];
      const std::uint64_t wait = kRetryMs << std::min(tries.failures, 6U);
      tries.not_before_ms = now_ms + std::min(wait, kRetryMsMax);
      ++tries.failures;
    }
  }
}

void SlotGroups::note_committed(const slots::SlotSet& slots) {
  std::erase_if(tries_, [&](const auto& tried) { return slots.contains(tried.first); });
  std::erase_if(streams_, [&](const auto& streams) { return slots.contains(streams.first); });
}

SlotGroups::Worst SlotGroups::worst() const {
  Worst worst;
  for (const auto& [slot, tries] : tries_) {
    if (tries.failures > worst.failures) worst = {slot, tries.failures};
  }
  return worst;
}

}  // namespace proxy::mover
