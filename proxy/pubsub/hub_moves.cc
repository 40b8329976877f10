// Hub, while slots move: sharded channels are heard at their next owner before anything can be
// published there, and what the two owners say keeps its order.

#include <algorithm>
#include <utility>

#include "proxy/pubsub/hub.h"
#include "slots/key_slot.h"

namespace proxy::pubsub {

NodeFeed* Hub::owner_of(slots::SlotId slot) {
  return find_feed(table_->nodes[table_->map->owner(slot)].name);
}

void Hub::place(State& state) {
  state.slot = slots::slot_of_key(state.name);
  state.owner = owner_of(state.slot);
  if (fence_ != nullptr && fence_->slots.contains(state.slot))
    state.next_owner = find_feed(fence_->target);
}

void Hub::follow_fence() {
  NodeFeed* paused = nullptr;
  if ((table_->fence ? table_->fence->id : 0) != (fence_ ? fence_->id : 0)) {
    fence_ = table_->fence;
    is_fence_acknowledged_ = false;
    if (pause_) paused = take_pause();
  }
  follow_slots(paused);
}

// Brings every sharded channel to where the table and its fence want it. `paused` may be read from
// once those that had them have said everything.
void Hub::follow_slots(NodeFeed* paused) {
  std::unordered_map<NodeFeed*, std::vector<std::string>> left;
  NodeFeed* target = fence_ ? find_feed(fence_->target) : nullptr;
  for (auto& [name, state] : topics_[Kind::Sharded]) {
    NodeFeed* const owner_before = state.owner;
    NodeFeed* const next = fence_ && fence_->slots.contains(state.slot) ? target : nullptr;
    if (follow_slot(state, owner_of(state.slot), next)) left[owner_before].push_back(name);
  }
  for (auto& [from, names] : left) depart(from, std::exchange(paused, nullptr), std::move(names));
  if (paused != nullptr) paused->resume();
}

// Whether it still has to be unsubscribed at the owner before.
bool Hub::follow_slot(State& state, NodeFeed* owner, NodeFeed* next) {
  if (owner == state.owner && next == state.next_owner) return false;
  NodeFeed* const owner_before = std::exchange(state.owner, owner);
  NodeFeed* const next_before = std::exchange(state.next_owner, next);
  for (const auto& feed : feeds_) {
    const bool was_there = feed.get() == owner_before || feed.get() == next_before;
    if (!was_there && is_at(state, *feed)) feed->subscribe(state.id, state.kind, state.name);
  }
  if (next_before != nullptr && next_before != owner_before && !is_at(state, *next_before))
    next_before->unsubscribe(state.id, state.kind, state.name);
  unsettled_.insert(&state);
  return owner_before != nullptr && !is_at(state, *owner_before);
}

void Hub::depart(NodeFeed* from, NodeFeed* paused, std::vector<std::string> names) {
  Departure departure{++last_barrier_, from, paused, std::move(names)};
  if (!from->send_barrier(departure.barrier)) return end_departure(departure);
  departures_.push_back(std::move(departure));
}

void Hub::on_barrier(NodeFeed& feed, std::uint64_t barrier) {
  if (barrier == hearing_.barrier) return note_heard(feed);
  auto found = std::ranges::find(departures_, barrier, &Departure::barrier);
  if (found == departures_.end()) return;
  const Departure departure = std::move(*found);
  departures_.erase(found);
  end_departure(departure);
  tell_of_moves();
}

void Hub::end_departure(const Departure& departure) {
  const ByName<State>& channels = topics_[Kind::Sharded];
  for (const std::string& name : departure.names) {
    auto found = channels.find(name);
    if (found == channels.end() || !is_at(found->second, *departure.from))
      departure.from->unsubscribe(0, Kind::Sharded, name);
  }
  if (departure.paused != nullptr) departure.paused->resume();
}

void Hub::end_departures_from(NodeFeed& feed) {
  for (std::size_t i = 0; i < departures_.size();) {
    if (departures_[i].from != &feed) {
      ++i;
      continue;
    }
    const Departure departure = std::move(departures_[i]);
    departures_.erase(departures_.begin() + static_cast<std::ptrdiff_t>(i));
    end_departure(departure);
  }
  tell_of_moves();
}

// After what the former owners had to say, and before what the new ones say.
void Hub::tell_of_moves() {
  if (moved_at_ == 0 || !departures_.empty() || is_applying_) return;
  const std::uint64_t version = std::exchange(moved_at_, 0);
  hand_over();
  for (unsigned worker = 0; worker < options_.workers; ++worker) {
    if (!registry_.has_any(worker)) continue;
    options_.to_worker(worker, [version](Receiver& to) { to.on_slots_moved(version); });
  }
}

// The fence's channels are heard at the target, or nobody can hear it. From then on it is not read
// from: what it will say about them comes after what the source says.
void Hub::acknowledge_fence() {
  if (fence_ == nullptr || is_fence_acknowledged_ || is_applying_) return;
  NodeFeed* target = find_feed(fence_->target);
  bool has_topics = false;
  for (const auto& [name, state] : topics_[Kind::Sharded]) {
    if (target == nullptr || state.next_owner != target) continue;
    has_topics = true;
    if (target->is_counted_on() && !target->holds(state.id)) return;
  }
  is_fence_acknowledged_ = true;
  if (has_topics) {
    target->pause();
    pause_ = Pause{target, uv_now(&loop_)};
  }
  if (options_.on_fenced) options_.on_fenced({fence_->id, options_.workers, {}});
}

NodeFeed* Hub::take_pause() {
  NodeFeed* feed = pause_->feed;
  pause_.reset();
  return feed;
}

void Hub::forget_feed(NodeFeed& feed) {
  end_departures_from(feed);
  note_heard(feed);
  for (Departure& departure : departures_) {
    if (departure.paused == &feed) departure.paused = nullptr;
  }
  if (pause_ && pause_->feed == &feed) pause_.reset();
  for (auto& [name, state] : topics_[Kind::Sharded]) {
    if (state.owner == &feed) state.owner = nullptr;
    if (state.next_owner == &feed) state.next_owner = nullptr;
  }
}

}  // namespace proxy::pubsub
