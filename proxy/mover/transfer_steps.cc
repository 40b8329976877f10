// What a transfer does next, decided from its state alone.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/mover/transfer_machine.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::mover {
namespace {

constexpr std::uint32_t kScanCount = 500;       // Keys that a node looks at in one call.
constexpr std::size_t kRemoveBatch = 500;       // Keys of one Remove.
constexpr std::size_t kDirtyInPassMax = 10000;  // More of them have their turn within the pass.
constexpr std::uint64_t kPausedMs = 100;
constexpr std::uint64_t kIdleRoundMs = 20;
constexpr std::uint64_t kUnreadyMs = 3000;   // Then people are told.
constexpr unsigned kFenceFailuresTold = 5;   // In a row; then people are told.
constexpr unsigned kEndingConnectTries = 4;  // An end waits no longer for a node.

std::vector<std::string> take(std::deque<std::string>& names, std::size_t count) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(count, names.size()));
  std::vector<std::string> taken(std::make_move_iterator(names.begin()),
                                 std::make_move_iterator(end));
  names.erase(names.begin(), end);
  return taken;
}

}  // namespace

Action Transfer::Machine::next() {
  if (wish_ == Wish::Abort && !ending_ && !open_.empty()) {
    begin_ending(Finish::How::Aborted, "as asked");
  }
  if (is_fenced() && (must_begin_anew_ || must_drop_kept_)) leave_fence("");
  if (is_fenced() && now_ms_ - fenced_at_ms_ > spec_.pause_ms) {
    groups_.note_copied(estimated_ms_, now_ms_ - copied_since_ms_);
    leave_fence(fmt::format("the last copy took longer than {} ms", spec_.pause_ms));
  }
  if (std::exchange(must_lift_, false)) return LiftFence{};
  if (finish_now_) {
    phase_ = Phase::Ended;
    return *finish_now_;
  }
  if (!is_connected_) return connect();
  if (!to_give_back_.empty()) return GiveBack{to_give_back_};
  if (must_vouch_) return Vouch{kept_slots(), target_run_id_};
  if (is_fenced()) return go_on_in_fence();
  if (must_drop_kept_ && phase_ != Phase::Collecting) {
    put_back_batch();
    enter(Phase::Collecting);
  }
  if (is_marker_lost_ && !kept_.empty() && !must_drop_kept_) {
    is_marker_lost_ = false;
    return PutMarker{kept_.back().marker};
  }
  if (must_begin_anew_ && phase_ != Phase::Collecting) begin_anew();
  if (wish_ == Wish::Pause && !must_drop_kept_) return wait_until(now_ms_ + kPausedMs);
  switch (phase_) {
    case Phase::Purging:
      return purge();
    case Phase::Copying:
      return now_ms_ < copy_at_ms_ ? wait_until(copy_at_ms_) : copy();
    case Phase::CatchingUp:
      return now_ms_ < copy_at_ms_ ? wait_until(copy_at_ms_) : catch_up();
    case Phase::Keeping:
      return keep();
    case Phase::Collecting:
      return collect();
    case Phase::Connecting:
    case Phase::Fencing:
    case Phase::Ended:
      break;
  }
  SP_ASSERT(false);
}

Action Transfer::Machine::connect() {
  if (ending_ && kept_.empty() && connect_failures_ >= kEndingConnectTries) {
    phase_ = Phase::Ended;
    return Finish{
        ending_->how,
        fmt::format("{}; {}; copies may be left on {}, and the next move to it removes them",
                    ending_->reason, connect_reason_, spec_.target)};
  }
  if (now_ms_ < connect_at_ms_) return wait_until(connect_at_ms_);
  return Connect{};
}

Action Transfer::Machine::purge() {
  if (!passed_.empty())
    return Remove{Side::Target, take(passed_, kRemoveBatch), passes_.front().database};
  if (auto action = scan()) return *action;
  if (ending_) {
    is_purged_ = true;
    enter(Phase::Keeping);
    return keep();
  }
  enter(Phase::Copying);
  return copy();
}

Action Transfer::Machine::copy() {
  if (!batch_.empty()) return write();
  if (auto action = settle_pieces()) return *action;
  if (pieces_) return go_on_in_pieces();
  is_dirty_turn_ = !is_dirty_turn_ && dirty_.size() > kDirtyInPassMax;
  if (is_dirty_turn_) make_due(dirty_.take_cool(batch_size(), now_ms_));
  if (auto action = read_due()) return *action;
  if (!passed_.empty()) {
    auto names = take(passed_, batch_size());
    for (const std::string& name : names) (void)forget_dirty(name, slots::slot_of_key(name));
    return read(std::move(names), passes_.front().database, false);
  }
  if (auto action = scan()) return *action;
  enter(Phase::CatchingUp);
  return catch_up();
}

// Rounds of copying what is dirty, each ended by CatchFeeds, until a group is quiet enough.
Action Transfer::Machine::catch_up() {
  if (!batch_.empty()) return write();
  if (auto action = settle_pieces()) return *action;
  if (open_.empty()) {
    enter(Phase::Keeping);
    return keep();
  }
  if (std::exchange(is_caught_up_, false)) {
    if (now_ms_ >= fence_at_ms_) {
      if (auto group = groups_.choose(fenceable(), dirty_, large_, now_ms_)) return fence(*group);
      if (!unready_since_ms_) unready_since_ms_ = now_ms_;
    }
    if (auto why = why_given_up()) {
      begin_ending(Finish::How::Failed, std::move(*why));
      return purge();
    }
    round_left_ = dirty_.size();
    is_idle_round_ = is_piece_due_ = true;
  }
  if (pieces_ && (is_piece_due_ || is_target_older_)) return go_on_in_pieces();
  if (std::exchange(is_piece_due_, false) && !pieces_) {
    if (LargeKeys::Key* key = large_.next(now_ms_)) return begin_large(*key);
  }
  for (;;) {
    if (auto action = read_due()) return *action;
    if (round_left_ == 0) break;
    const auto names = dirty_.take_cool(std::min(batch_size(), round_left_), now_ms_);
    if (names.empty()) round_left_ = 0;
    if (!names.empty()) is_idle_round_ = false;
    round_left_ -= names.size();
    make_due(names);
  }
  if (std::exchange(is_idle_round_, false)) return wait_until(now_ms_ + kIdleRoundMs);
  return CatchFeeds{};
}

Action Transfer::Machine::fence(const slots::SlotSet& group) {
  group_ = group;
  fence_step_ = FenceStep::Asked;
  fenced_at_ms_ = copied_since_ms_ = now_ms_;
  estimated_ms_ = 0;
  unready_since_ms_.reset();
  return Fence{group, spec_.pause_ms};
}

Action Transfer::Machine::go_on_in_fence() {
  switch (fence_step_) {
    case FenceStep::Catch:
    case FenceStep::CatchAgain:
      return CatchFeeds{};
    case FenceStep::Copy:
      return copy_in_fence();
    case FenceStep::Commit:
      if (!is_marker_lost_) return Commit{group_, marker_, target_run_id_};
      fence_step_ = FenceStep::Mark;
      [[fallthrough]];
    case FenceStep::Mark:
      is_marker_lost_ = false;
      return PutMarker{++marker_};
    case FenceStep::None:
    case FenceStep::Asked:
      break;
  }
  SP_ASSERT(false);
}

Action Transfer::Machine::copy_in_fence() {
  if (!batch_.empty()) return write();
  if (auto action = settle_pieces()) return *action;
  if (owns_pieces()) return go_on_in_pieces();
  for (bool has_more = true; has_more;) {
    if (auto action = read_due()) return *action;
    make_due(dirty_.take_of(group_, batch_size()));
    while (due_.size() < batch_size() && !streams_.empty()) {
      (void)forget_dirty(streams_.back().name, slots::slot_of_key(streams_.back().name));
      due_.push_back(std::move(streams_.back()));
      streams_.pop_back();
    }
    has_more = !due_.empty();
  }
  if (LargeKeys::Key* key = large_.next_of(group_)) {
    if (!pieces_ && LargeKeys::cost_ms(*key) <= groups_.budget_ms()) return begin_large(*key);
    leave_fence("");  // It has become large or changed just now: too late for this fence.
    must_lift_ = false;
    return LiftFence{};
  }
  while (!renewals_.empty()) {
    renewing_ = std::move(renewals_.back());
    renewals_.pop_back();
    const LargeKeys::Key* key = large_.find(renewing_, slots::slot_of_key(renewing_.name));
    if (key == nullptr || !key->is_stream()) continue;
    return RenewGroups{renewing_.name, key->groups_at_ms,
                       LargeKeys::pending_for(groups_.budget_ms() / 2), renewing_.database};
  }
  groups_.note_copied(estimated_ms_, now_ms_ - copied_since_ms_);
  estimated_ms_ = 0;
  fence_step_ = is_group_written_ ? FenceStep::CatchAgain : FenceStep::Mark;
  return go_on_in_fence();
}

Action Transfer::Machine::keep() {
  if (kept_.empty()) return finish();
  if (now_ms_ < ask_durability_at_ms_) return wait_until(ask_durability_at_ms_);
  return AskDurability{};
}

Action Transfer::Machine::collect() {
  if (!passed_.empty()) {
    Remove remove{Side::Source, take(passed_, kRemoveBatch), passes_.front().database};
    removing_ = remove.keys.size();
    return remove;
  }
  if (auto action = scan()) return *action;
  return Collected{kept_slots()};
}

Action Transfer::Machine::finish() {
  if (marker_ > 0 && !std::exchange(is_marker_removed_, true)) {
    return Remove{Side::Target, {marker_key_, piece_key_}};
  }
  phase_ = Phase::Ended;
  return ending_.value_or(Finish{});
}

std::optional<Action> Transfer::Machine::scan() {
  if (std::exchange(is_scan_over_, false)) passes_.pop_front();
  if (passes_.empty()) return std::nullopt;
  return Scan{passes_.front().side, cursor_, kScanCount, passes_.front().database};
}

Action Transfer::Machine::read(std::vector<std::string> names, Database database, bool is_recopy) {
  if (is_target_older_) return begin_pieces({names.front(), database}, true, is_recopy);
  is_recopy_ = is_recopy;
  reading_ = names;
  batch_database_ = database;
  return Read{std::move(names), false, database};
}

// One database's keys at a time. Large ones have a turn of their own.
std::optional<Action> Transfer::Machine::read_due() {
  std::vector<std::string> names;
  Database database = 0;
  while (!due_.empty() && names.size() < batch_size()) {
    DbKey& key = due_.front();
    if (!large_.has(key, slots::slot_of_key(key.name))) {
      if (!names.empty() && key.database != database) break;
      database = key.database;
      names.push_back(std::move(key.name));
    }
    due_.pop_front();
  }
  if (names.empty()) return std::nullopt;
  return read(std::move(names), database, true);
}

void Transfer::Machine::make_due(const std::vector<std::string>& names) {
  for (const Database database : databases_) {
    for (const std::string& name : names) due_.push_back({name, database});
  }
}

Action Transfer::Machine::write() {
  written_.clear();
  for (const KeyValue& value : batch_) {
    written_.push_back({value.name, value.payload.size(), value.exists, value.is_stream()});
  }
  return Write{std::exchange(batch_, {}), batch_database_};
}

Action Transfer::Machine::wait_until(std::uint64_t at_ms) const {
  // Never so long that a wish would have to wait.
  return Wait{static_cast<std::uint32_t>(std::clamp<std::uint64_t>(at_ms - now_ms_, 1, kPausedMs))};
}

void Transfer::Machine::begin_anew() {
  must_begin_anew_ = false;
  if (!ending_ && (phase_ == Phase::Copying || phase_ == Phase::CatchingUp)) ++progress_.restarts;
  dirty_.clear();
  large_.clear();
  pieces_.reset();
  gone_.reset();
  pieces_left_in_.reset();
  groups_.forget_streams();
  batch_.clear();
  due_.clear();
  is_caught_up_ = false;
  round_left_ = 0;
  enter(Phase::Purging);
}

void Transfer::Machine::leave_fence(const std::string& why) {
  put_back_batch();
  if (owns_pieces()) drop_pieces();
  if (gone_) dirty_.put_back(gone_->name, slots::slot_of_key(gone_->name));
  gone_.reset();
  streams_.clear();
  renewals_.clear();
  fence_step_ = FenceStep::None;
  must_lift_ = true;
  if (why.empty()) return;
  groups_.note_failed(group_, now_ms_);
  ++fence_failures_;
  fence_reason_ = why;
}

void Transfer::Machine::put_back_batch() {
  for (const KeyValue& value : batch_) dirty_.put_back(value.name, slots::slot_of_key(value.name));
  for (const DbKey& key : due_) dirty_.put_back(key.name, slots::slot_of_key(key.name));
  batch_.clear();
  due_.clear();
}

void Transfer::Machine::begin_ending(Finish::How how, std::string reason) {
  if (ending_) return;
  if (is_fenced()) leave_fence("");
  ending_ = Finish{how, std::move(reason)};
  if (phase_ != Phase::Connecting && phase_ != Phase::Collecting) begin_anew();
}

void Transfer::Machine::resume() {
  if (must_drop_kept_ && !kept_.empty()) {
    enter(Phase::Collecting);
  } else if (!open_.empty() && !is_purged_) {
    begin_anew();
  } else {
    ask_durability_at_ms_ = 0;
    enter(Phase::Keeping);
  }
}

void Transfer::Machine::enter(Phase phase) {
  phase_ = phase;
  cursor_ = 0;
  is_scan_over_ = false;
  passed_.clear();
  passes_.clear();
  if (phase == Phase::Purging || phase == Phase::Copying || phase == Phase::Collecting) {
    const Side side = phase == Phase::Purging ? Side::Target : Side::Source;
    for (const Database database : databases_) passes_.push_back({side, database});
  }
  if (phase == Phase::Collecting) is_collecting_ = true;
}

std::size_t Transfer::Machine::batch_size() const {
  if (is_target_older_) return 1;
  const double fitting = spec_.batch_bytes / std::max(payload_bytes_, 1.0);
  return static_cast<std::size_t>(std::clamp<double>(fitting, 1, spec_.batch_keys));
}

slots::SlotSet Transfer::Machine::kept_slots() const {
  slots::SlotSet all;
  for (const KeptSlots& kept : kept_) all.add(kept.slots);
  return all;
}

void Transfer::Machine::update_progress() {
  progress_.phase = is_fenced() ? Phase::Fencing : phase_;
  progress_.is_paused = wish_ == Wish::Pause && phase_ != Phase::Ended;
  progress_.waits_for = why_waiting();
}

std::string Transfer::Machine::why_waiting() const {
  if (phase_ == Phase::Ended) return "";
  if (!is_connected_) return connect_reason_;
  if (phase_ == Phase::Keeping) return durability_reason_;
  if (phase_ != Phase::Copying && phase_ != Phase::CatchingUp) return "";
  if (!write_reason_.empty()) return write_reason_;
  if (fence_failures_ >= kFenceFailuresTold) {
    const SlotGroups::Worst worst = groups_.worst();
    if (worst.failures == 0) return fence_reason_;
    return fmt::format("slot {} could not be moved in {} tries: {}", worst.slot, worst.failures,
                       fence_reason_);
  }
  if (const LargeKeys::Key* key = large_.restless()) {
    return fmt::format("{}: {}, {} times; other slots go on", words_of(*key), key->why, key->tries);
  }
  if (pieces_) return large_key_words();
  if (unready_since_ms_ && now_ms_ - *unready_since_ms_ > kUnreadyMs) {
    return fmt::format("keys change faster than they are copied: {} to be copied again",
                       dirty_.size());
  }
  return "";
}

}  // namespace proxy::mover
