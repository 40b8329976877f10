#include "proxy/mover/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/mover/transfer_machine.h"
#include "proxy/resp/reserved_key.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::mover {
namespace {

constexpr std::string_view kPiecePrefix = "__slotproxy:pieces:";

constexpr std::uint64_t kReconnectMs = 50;       // After the first failure; doubled each time,
constexpr std::uint64_t kReconnectMsMax = 2000;  // up to this.
constexpr std::uint64_t kNotNowMs = 200;
constexpr std::uint64_t kAskDurabilityMs = 200;
constexpr std::uint64_t kFenceAgainMs = 100;
constexpr std::uint64_t kFenceAgainMsMax = 5000;

std::uint64_t back_off(std::uint64_t first_ms, std::uint64_t most_ms, unsigned failures) {
  return std::min(first_ms << std::min(failures - 1, 10U), most_ms);
}

}  // namespace

bool KeyValue::is_stream() const {
  // RDB_TYPE_STREAM_LISTPACKS, _2 (Redis 7.0) and _3 (7.2).
  return !payload.empty() && (payload[0] == 15 || payload[0] == 19 || payload[0] == 21);
}

std::int64_t KeyValue::restore_expiry_ms() const {
  return expire_at_ms < 0 ? 0 : std::max<std::int64_t>(expire_at_ms, 1);
}

std::string piece_key(std::uint64_t plan, std::string_view source) {
  return fmt::format("{}{}:{}", kPiecePrefix, plan, source);
}

std::string marker_key(std::uint64_t plan, std::string_view source) {
  return fmt::format("{}marker:{}:{}", resp::kReservedPrefix, plan, source);
}

Transfer::Transfer(TransferSpec spec) : machine_(std::make_unique<Machine>(std::move(spec))) {}
Transfer::~Transfer() = default;
Action Transfer::step(Event event) { return machine_->step(std::move(event)); }
const Progress& Transfer::progress() const { return machine_->progress(); }

Transfer::Machine::Machine(TransferSpec spec)
    : spec_(std::move(spec)),
      marker_key_(marker_key(spec_.plan, spec_.source)),
      piece_key_(piece_key(spec_.plan, spec_.source)),
      open_(spec_.slots),
      kept_(spec_.kept),
      groups_(spec_.pause_ms, spec_.group_slots) {
  SP_ASSERT(spec_.batch_keys > 0 && spec_.group_slots > 0);
  for (const KeptSlots& kept : kept_) {
    SP_ASSERT(!open_.intersects(kept.slots));
    marker_ = std::max(marker_, kept.marker);
  }
  progress_.slots_committed = kept_slots().size();
  progress_.slots_total = progress_.slots_committed + open_.size();
}

Action Transfer::Machine::step(Event event) {
  SP_ASSERT(phase_ != Phase::Ended);
  now_ms_ = std::max(now_ms_, event.now_ms);
  wish_ = event.wish;
  // Before the outcome: what the feeds had said decides what it is worth.
  hear_source(event.source);
  hear_target(event.target);
  std::visit([this](auto& outcome) { on(outcome); }, event.outcome);
  Action action = next();
  last_action_ = action.index();
  update_progress();
  return action;
}

void Transfer::Machine::hear_source(const Notices& notices) {
  // Before the pass over the source nothing is copied; what changes until then the pass will find.
  if (phase_ != Phase::Copying && phase_ != Phase::CatchingUp) return;
  if (notices.all) must_begin_anew_ = true;
  for (const std::string& key : notices.keys) {
    if (must_begin_anew_) break;
    const slots::SlotId slot = slots::slot_of_key(key);
    if (open_.contains(slot) && !resp::is_reserved_key(key)) note_changed(key, slot);
  }
  if (dirty_.bytes() > spec_.dirty_bytes) must_begin_anew_ = true;
  if (must_begin_anew_) dirty_.clear();
}

void Transfer::Machine::hear_target(const Notices& notices) {
  was_target_flushed_ = notices.all;
  if (notices.all) {
    is_marker_lost_ = true;
    if (phase_ == Phase::Copying || phase_ == Phase::CatchingUp) must_begin_anew_ = true;
    if (!kept_.empty()) {
      is_marker_doubted_ = true;
      must_drop_kept_ = must_drop_kept_ || may_drop_kept();
    }
  }
  // Somebody has changed a copy, or left one behind the purge: the source says what is right.
  const bool has_copies = phase_ != Phase::Connecting && !ending_ && !must_begin_anew_;
  for (const std::string& key : notices.keys) {
    if (key == marker_key_) {
      is_marker_lost_ = true;
      if (!kept_.empty()) is_marker_doubted_ = true;
    } else if (key == piece_key_) {
      if (pieces_) pieces_->is_lost = true;
    } else if (has_copies && !resp::is_reserved_key(key)) {
      const slots::SlotId slot = slots::slot_of_key(key);
      if (open_.contains(slot)) note_changed(key, slot);
    }
  }
}

void Transfer::Machine::note_changed(const std::string& name, slots::SlotId slot) {
  if (pieces_ && pieces_->key.name == name) pieces_->has_changed = true;
  const bool is_large = large_.note_changed(name, slot, now_ms_);
  if (!is_large || databases_.size() > 1) dirty_.add(name, slot);
}

bool Transfer::Machine::forget_dirty(const std::string& name, slots::SlotId slot) {
  if (databases_.size() == 1) return dirty_.remove(name, slot);
  return dirty_.has(name, slot);  // It may be another database's key that has changed.
}

// What was written to a database before it was first seen in use is found by a pass over it; what
// is written to it later, by its name.
bool Transfer::Machine::note_databases(const UsedDatabases& used) {
  Databases found = used.source;
  found.insert(used.target.begin(), used.target.end());
  bool is_any_new = false;
  for (const Database database : found) {
    if (!databases_.insert(database).second) continue;
    is_any_new = true;
    if (used.target.contains(database)) passes_.push_back({Side::Target, database});
    if (used.source.contains(database)) passes_.push_back({Side::Source, database});
  }
  groups_.note_databases(databases_.size());
  return is_any_new;
}

void Transfer::Machine::on(Connected& connected) {
  expect<Connect>();
  is_connected_ = true;
  connect_failures_ = 0;
  connect_reason_.clear();
  marker_ = std::max(marker_, connected.marker);
  may_evict_marker_ = may_evict_marker_ || connected.may_evict_marker;
  (void)note_databases(connected.databases);  // resume() begins passes over all.
  if (!kept_.empty()) judge_marker(connected);
  // Another process may have come back from before the purge.
  if (target_run_id_ != connected.target_run_id) is_purged_ = false;
  target_run_id_ = connected.target_run_id;
  resume();
}

// Whether the target still holds what was committed.
void Transfer::Machine::judge_marker(const Connected& connected) {
  slots::SlotSet lost;
  for (const KeptSlots& kept : kept_) {
    if (kept.marker > connected.marker) lost.add(kept.slots);
  }
  must_vouch_ = true;
  if (lost.empty()) return;
  if (target_run_id_ == connected.target_run_id) {  // The same process: it has lost the key alone.
    is_marker_lost_ = is_marker_doubted_ = true;
    return;
  }
  if (!target_run_id_.empty() && !is_marker_doubted_ && !may_evict_marker_ && !is_collecting_) {
    to_give_back_ = lost;
    return;
  }
  finish_now_ = Finish{
      Finish::How::Failed,
      fmt::format(
          "{} was restarted and does not hold the marker of slots {}: it may have lost them, "
          "or the marker alone{}. {} still keeps its copies as they were at the commit",
          spec_.target, to_string(lost), may_evict_marker_ ? " (it may evict any key)" : "",
          spec_.source)};
}

void Transfer::Machine::on(Scanned& scanned) {
  expect<Scan>();
  cursor_ = scanned.cursor;
  is_scan_over_ = scanned.cursor == 0;
  const slots::SlotSet slots = phase_ == Phase::Collecting ? kept_slots() : open_;
  const bool is_purging_late = phase_ == Phase::Copying && passes_.front().side == Side::Target;
  for (std::string& key : scanned.keys) {
    const bool is_reserved = resp::is_reserved_key(key);
    const slots::SlotId slot = slots::slot_of_key(key);
    if (!(is_reserved ? is_left_over(key) : slots.contains(slot))) continue;
    if (is_purging_late) {  // The source says what is right.
      note_changed(key, slot);
    } else {
      passed_.push_back(std::move(key));
    }
  }
}

// A copy in pieces of an earlier try, or of another plan: one is at work at a time.
bool Transfer::Machine::is_left_over(const std::string& key) const {
  if (phase_ != Phase::Purging || !key.starts_with(kPiecePrefix)) return false;
  return key == piece_key_ || !key.starts_with(fmt::format("{}{}:", kPiecePrefix, spec_.plan));
}

void Transfer::Machine::on(ReadDone& done) {
  expect<Read>();
  SP_ASSERT(!done.values.empty() && done.values.size() <= reading_.size());
  batch_ = std::move(done.values);
  for (std::size_t i = reading_.size(); i > batch_.size(); --i) {  // Each to where it came from.
    std::string& name = reading_[i - 1];
    if (is_recopy_) {
      due_.push_front({std::move(name), batch_database_});
    } else {
      passed_.push_front(std::move(name));
    }
  }
  reading_.clear();
  const auto large = std::stable_partition(
      batch_.begin(), batch_.end(), [](const KeyValue& value) { return value.large_bytes == 0; });
  const std::vector<KeyValue> large_values(large, batch_.end());
  batch_.erase(large, batch_.end());
  for (const KeyValue& value : large_values) note_large(value);
  if (batch_.empty()) return;
  std::size_t bytes = 0;
  for (const KeyValue& value : batch_) bytes += value.payload.size();
  const double average = static_cast<double>(bytes) / static_cast<double>(batch_.size());
  payload_bytes_ = std::max(average, (payload_bytes_ + average) / 2);
  groups_.note_payload(batch_.size(), bytes);
}

void Transfer::Machine::on(WriteDone& done) {
  expect<Write>();
  std::vector<bool> has_failed(written_.size());
  for (const WriteDone::Failure& failure : done.failures) has_failed.at(failure.index) = true;
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const Written& written = written_[i];
    const slots::SlotId slot = slots::slot_of_key(written.name);
    if (has_failed[i]) {
      dirty_.put_back(written.name, slot);
    } else {
      note_written(written, slot);
    }
    if (has_failed[i] || !written.exists) continue;
    ++progress_.keys_copied;
    if (is_recopy_) ++progress_.keys_recopied;
    progress_.payload_bytes += written.payload_bytes;
  }
  is_group_written_ = true;
  write_reason_.clear();
  for (const WriteDone::Failure& failure : done.failures) {
    note_write_failure({written_[failure.index].name, batch_database_}, failure.fate, failure.text);
  }
  written_.clear();
}

void Transfer::Machine::note_write_failure(const DbKey& key, WriteFate fate,
                                           const std::string& text) {
  switch (fate) {
    case WriteFate::Ok:
    case WriteFate::Incomplete:
      return;
    case WriteFate::NotNow:
      copy_at_ms_ = now_ms_ + kNotNowMs;
      write_reason_ = fmt::format("{} takes no writes now: {}", spec_.target, text);
      if (is_fenced()) leave_fence(write_reason_);
      return;
    case WriteFate::OutOfMemory:
      return begin_ending(
          Finish::How::Failed,
          fmt::format("{} has no room for the copies ({}): raise its maxmemory or free some of it",
                      spec_.target, text));
    case WriteFate::Unreadable:
    case WriteFate::TooNew:
      return note_unreadable(key, fate, text);
    case WriteFate::Failed:
      return begin_ending(Finish::How::Failed,
                          fmt::format("{} refused a copy: {}", spec_.target, text));
  }
}

void Transfer::Machine::on(const Removed&) {
  expect<Remove>();
  if (phase_ == Phase::Collecting) progress_.keys_collected += removing_;
  if (is_fenced()) is_group_written_ = true;
}

void Transfer::Machine::on(const Caught& caught) {
  expect<CatchFeeds>();
  if (note_databases(caught.databases)) {
    if (is_fenced()) leave_fence("");
    phase_ = Phase::Copying;
    round_left_ = 0;
    return;
  }
  if (fence_step_ == FenceStep::Catch) {
    const std::uint64_t waited_ms = now_ms_ - fenced_at_ms_;
    estimated_ms_ = groups_.cost_ms(group_, dirty_, large_);
    if (static_cast<double>(waited_ms) + estimated_ms_ > spec_.pause_ms) {
      return leave_fence(
          fmt::format("too much had changed for a last copy within {} ms", spec_.pause_ms));
    }
    streams_ = groups_.streams_of(group_);
    renewals_ = large_.streams_of(group_);
    copied_since_ms_ = now_ms_;
    is_group_written_ = false;
    fence_step_ = FenceStep::Copy;
  } else if (fence_step_ == FenceStep::CatchAgain) {
    is_group_written_ = false;
    fence_step_ = is_group_dirty() ? FenceStep::Copy : FenceStep::Mark;
  } else {
    is_caught_up_ = true;
  }
}

void Transfer::Machine::on(const NotFenced& not_fenced) {
  expect<Fence>();
  leave_fence("");
  must_lift_ = false;
  ++fence_failures_;
  fence_at_ms_ = now_ms_ + back_off(kFenceAgainMs, kFenceAgainMsMax, fence_failures_);
  fence_reason_ = not_fenced.reason;
}

void Transfer::Machine::on(const MarkerPut&) {
  expect<PutMarker>();
  if (!is_fenced()) return;
  fence_step_ = is_group_dirty() ? FenceStep::Copy : FenceStep::Commit;
}

void Transfer::Machine::on(const Committed&) {
  expect<Commit>();
  for (const slots::SlotRange& range : group_.ranges()) {
    for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
      open_.remove(static_cast<slots::SlotId>(slot));
    }
  }
  kept_.push_back({group_, marker_});
  // Lost since it was put, perhaps after the commit.
  if (is_marker_lost_) is_marker_doubted_ = true;
  if (was_target_flushed_) must_drop_kept_ = may_drop_kept();
  dirty_.remove_slots(group_);
  large_.remove_slots(group_);
  groups_.note_committed(group_);
  progress_.slots_committed += group_.size();
  fence_step_ = FenceStep::None;
  fence_failures_ = 0;
  fence_reason_.clear();
}

void Transfer::Machine::on(const NotCommitted& not_committed) {
  expect<Commit>();
  leave_fence(not_committed.reason);
  must_lift_ = false;
  if (not_committed.is_fatal) finish_now_ = Finish{Finish::How::Failed, not_committed.reason};
}

void Transfer::Machine::on(const Durability& durability) {
  expect<AskDurability>();
  durability_reason_ = durability.is_durable ? "" : durability.waits_for;
  if (durability.is_durable) {
    enter(Phase::Collecting);
  } else {
    ask_durability_at_ms_ = now_ms_ + kAskDurabilityMs;
  }
}

void Transfer::Machine::on(const GaveBack&) {
  expect<GiveBack>();
  open_.add(to_give_back_);
  progress_.slots_committed -= to_give_back_.size();
  std::erase_if(kept_, [&](const KeptSlots& kept) { return to_give_back_.intersects(kept.slots); });
  to_give_back_ = {};
  must_vouch_ = !kept_.empty();
  is_purged_ = false;
  begin_anew();
}

void Transfer::Machine::on(const NotGivenBack& not_given_back) {
  expect<GiveBack>();
  finish_now_ = Finish{
      Finish::How::Failed,
      fmt::format("{} has lost slots {}, and they can't be given back to {}: {}", spec_.target,
                  to_string(to_give_back_), spec_.source, not_given_back.reason)};
}

void Transfer::Machine::on(const Noted&) {
  if (must_vouch_) {
    expect<Vouch>();
    must_vouch_ = false;
    return;
  }
  expect<Collected>();
  kept_.clear();
  is_collecting_ = must_drop_kept_ = false;
  if (!open_.empty() && !is_purged_) {
    begin_anew();
  } else {
    enter(Phase::Keeping);
  }
}

void Transfer::Machine::on(const NotNoted& not_noted) {
  finish_now_ = Finish{Finish::How::Failed, not_noted.reason};
}

void Transfer::Machine::on(const NodeLost& lost) {
  is_connected_ = false;
  connect_reason_ =
      fmt::format("{}: {}", lost.side == Side::Source ? spec_.source : spec_.target, lost.reason);
  reading_.clear();
  batch_.clear();
  due_.clear();
  written_.clear();
  if (is_fenced()) leave_fence("");
  pieces_.reset();
  const bool at_connect = last_action_ == place_of<Connect>();
  connect_failures_ += at_connect ? 1 : 0;
  connect_at_ms_ =
      at_connect ? now_ms_ + back_off(kReconnectMs, kReconnectMsMax, connect_failures_) : now_ms_;
}

}  // namespace proxy::mover
