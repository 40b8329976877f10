// Copies in pieces: what has become of them, what to do next, and when a key is given up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "conf/words.h"
#include "proxy/mover/transfer_machine.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::mover {
namespace {

// The payload of a stream from which on its groups alone are renewed under the fence.
constexpr std::size_t kRenewedBytes = 32U << 10;
constexpr double kPauseAdvisedMsMax = 5000;  // A longer pause is no advice.

}  // namespace

// --- what has happened

void Transfer::Machine::note_large(const KeyValue& value) {
  const slots::SlotId slot = slots::slot_of_key(value.name);
  const DbKey found{value.name, batch_database_};
  (void)forget_dirty(value.name, slot);
  groups_.note_no_stream(found, slot);
  const LargeKeys::Key& key = large_.note(found, slot, value.large_bytes);
  if (is_fenced() && LargeKeys::cost_ms(key) > groups_.budget_ms()) {
    leave_fence(fmt::format("{} is too large for a last copy", words_of(key)));
  }
}

void Transfer::Machine::note_written(const Written& written, slots::SlotId slot) {
  const DbKey name{written.name, batch_database_};
  if (LargeKeys::Key* key = large_.find(name, slot)) {  // Whole.
    key->is_copied = !key->has_changed;
    if (!written.exists && key->is_copied) large_.forget(name, slot);
  } else if (written.is_stream && written.payload_bytes > kRenewedBytes) {
    groups_.note_no_stream(name, slot);
    LargeKeys::Key& stream = large_.note(name, slot, written.payload_bytes);
    stream.type = "stream";
    stream.is_copied = !forget_dirty(written.name, slot);
  } else if (written.is_stream) {
    groups_.note_stream(name, slot, written.payload_bytes);
  } else {
    groups_.note_no_stream(name, slot);
  }
}

void Transfer::Machine::note_unreadable(const DbKey& name, WriteFate fate,
                                        const std::string& text) {
  const slots::SlotId slot = slots::slot_of_key(name.name);
  if (const LargeKeys::Key* key = large_.find(name, slot); key != nullptr && key->is_whole) {
    return begin_ending(
        Finish::How::Failed,
        fmt::format("{} can't be copied in pieces ({}), and {} can't read it as {} dumps it ({}): "
                    "its server must not be older, or the key has to go",
                    words_of(*key), key->why, spec_.target, spec_.source, text));
  }
  if (fate == WriteFate::TooNew) {
    is_target_older_ = true;
    groups_.note_pieces();
  } else {
    (void)forget_dirty(name.name, slot);
    large_.note(name, slot, 0).is_any_size = true;
  }
  if (is_fenced()) leave_fence("");
}

void Transfer::Machine::on(PieceRead& read) {
  expect<ReadPiece>();
  using Fate = PieceRead::Fate;
  PieceCopy& copy = *pieces_;
  LargeKeys::Key* key = large_.find(copy.key, copy.slot);
  if (read.fate == Fate::Ok) {
    if (copy.type.empty()) {
      copy.type = read.next.type;
      copy.bytes = read.key_bytes;
      copy.pending = read.pending;
      copy.read_at_ms = read.read_at_ms;
      if (key != nullptr) key->type = copy.type, key->bytes = copy.bytes;
    }
    copy.next = std::move(read.next);
    copy.is_read = read.is_last;
    if (!read.commands.empty()) copy.piece = std::move(read);
    return;
  }
  if (read.fate == Fate::Changed) return fail_pieces("it changed while it was copied");
  const PieceCopy left = *std::exchange(pieces_, std::nullopt);
  note_pieces_left(left);
  if (read.fate == Fate::Whole) {
    LargeKeys::Key& whole = large_.note(left.key, left.slot, read.key_bytes);
    whole.type = read.next.type;
    whole.is_whole = true;
    whole.why = read.text;
    if (left.is_any_size) note_unreadable(left.key, WriteFate::Unreadable, "older");
    return;
  }
  large_.forget(left.key, left.slot);
  groups_.note_no_stream(left.key, left.slot);
  if (read.fate == Fate::Gone) gone_ = left.key;
  if (read.fate == Fate::Small || left.has_changed) dirty_.put_back(left.key.name, left.slot);
}

void Transfer::Machine::on(const PieceWritten& written) {
  expect<WritePiece>();
  if (written.fate == WriteFate::Ok) {
    pieces_->written_bytes += pieces_->writing_bytes;
    progress_.payload_bytes += pieces_->writing_bytes;
    write_reason_.clear();
    return;
  }
  // Some of it may have been written: it can't be repeated.
  const DbKey key = pieces_->key;
  drop_pieces();
  note_write_failure(key, written.fate, written.text);
}

void Transfer::Machine::on(const Published& published) {
  expect<Publish>();
  if (published.fate == WriteFate::Incomplete) return fail_pieces(published.text);
  if (published.fate != WriteFate::Ok) {
    const DbKey key = pieces_->key;
    drop_pieces();
    return note_write_failure(key, published.fate, published.text);
  }
  const PieceCopy copy = *std::exchange(pieces_, std::nullopt);
  is_group_written_ = true;
  ++progress_.keys_copied;
  if (copy.is_recopy) ++progress_.keys_recopied;
  groups_.note_no_stream(copy.key, copy.slot);
  LargeKeys::Key* key = large_.find(copy.key, copy.slot);
  if (key == nullptr && copy.type != "stream") return;
  if (key == nullptr) {  // From now on its groups are renewed.
    key = &large_.note(copy.key, copy.slot, copy.bytes);
    key->is_any_size = copy.is_any_size;
    (void)forget_dirty(copy.key.name, copy.slot);
  }
  key->type = copy.type;
  key->bytes = copy.bytes;
  key->is_copied = !copy.has_changed;
  key->tries = 0;
  key->pending = copy.pending;
  key->groups_at_ms = copy.read_at_ms;
  key->must_renew = false;
}

void Transfer::Machine::on(const GroupsRenewed& renewed) {
  expect<RenewGroups>();
  is_group_written_ = true;
  const slots::SlotId slot = slots::slot_of_key(renewing_.name);
  LargeKeys::Key* key = large_.find(renewing_, slot);
  if (key == nullptr) return;
  switch (renewed.fate) {
    case WriteFate::Ok:
      key->pending = renewed.pending;
      key->groups_at_ms = renewed.read_at_ms;
      key->must_renew = false;
      return;
    case WriteFate::Incomplete:
      key->pending = renewed.pending;
      large_.note_vain_try(*key, now_ms_, renewed.text);
      if (is_fenced()) {
        key->must_renew = true;
        leave_fence(fmt::format("{}: {}", words_of(*key), renewed.text));
      } else {  // Only a new copy has the same entries.
        key->must_renew = key->is_copied = false;
      }
      return;
    default:
      return note_write_failure(renewing_, renewed.fate, renewed.text);
  }
}

// --- what to do

Action Transfer::Machine::begin_pieces(const DbKey& key, bool is_any_size, bool is_recopy) {
  SP_ASSERT(!pieces_);
  const slots::SlotId slot = slots::slot_of_key(key.name);
  if (LargeKeys::Key* large = large_.find(key, slot)) {
    ++large->copies;
    large->has_changed = false;
  }
  pieces_ = PieceCopy{.key = key, .slot = slot, .is_any_size = is_any_size};
  pieces_->is_recopy = is_recopy;
  is_piece_due_ = true;
  return go_on_in_pieces();
}

Action Transfer::Machine::begin_large(LargeKeys::Key& key) {
  is_idle_round_ = false;
  if (key.is_copied) {
    renewing_ = key.key;
    return RenewGroups{key.key.name, key.groups_at_ms, std::numeric_limits<std::uint64_t>::max(),
                       key.key.database};
  }
  const bool is_recopy = key.copies > 0;
  if (!key.is_whole) {
    return begin_pieces(DbKey(key.key), key.is_any_size || is_target_older_, is_recopy);
  }
  ++key.copies;
  key.has_changed = false;
  is_recopy_ = is_recopy;
  reading_ = {key.key.name};
  batch_database_ = key.key.database;
  return Read{reading_, true, batch_database_};
}

Action Transfer::Machine::go_on_in_pieces() {
  is_idle_round_ = false;
  PieceCopy& copy = *pieces_;
  if (copy.piece) {
    is_piece_due_ = false;
    copy.writing_bytes = copy.piece->bytes;
    WritePiece write{std::move(copy.piece->commands), !std::exchange(copy.is_begun, true),
                     copy.key.database};
    copy.piece.reset();
    return write;
  }
  if (copy.is_read) return Publish{copy.key.name, copy.type, copy.key.database};
  return ReadPiece{copy.key.name, copy.next, copy.is_any_size, copy.key.database};
}

std::optional<Action> Transfer::Machine::settle_pieces() {
  if (pieces_ && (!is_fenced() || owns_pieces())) {
    if (pieces_->has_changed) {
      fail_pieces("it changed while it was copied");
    } else if (pieces_->is_lost) {
      fail_pieces(fmt::format("{} lost what it had of it", spec_.target));
    }
  }
  if (const auto left_in = std::exchange(pieces_left_in_, std::nullopt)) {
    return Remove{Side::Target, {piece_key_}, *left_in};
  }
  if (auto gone = std::exchange(gone_, std::nullopt)) {
    return Remove{Side::Target, {std::move(gone->name)}, gone->database};
  }
  return std::nullopt;
}

bool Transfer::Machine::owns_pieces() const {
  return is_fenced() && pieces_ && group_.contains(pieces_->slot);
}

void Transfer::Machine::drop_pieces() {
  const PieceCopy copy = *std::exchange(pieces_, std::nullopt);
  note_pieces_left(copy);
  if (!large_.has(copy.key, copy.slot)) dirty_.put_back(copy.key.name, copy.slot);
}

void Transfer::Machine::note_pieces_left(const PieceCopy& copy) {
  if (copy.is_begun) pieces_left_in_ = copy.key.database;
}

void Transfer::Machine::fail_pieces(const std::string& why) {
  LargeKeys::Key* key = large_.find(pieces_->key, pieces_->slot);
  if (key != nullptr && !is_fenced()) large_.note_vain_try(*key, now_ms_, why);
  drop_pieces();
}

slots::SlotSet Transfer::Machine::fenceable() const {
  if (!pieces_) return open_;
  if (is_target_older_) return {};
  slots::SlotSet slots = open_;
  for (const slots::SlotRange& range : large_.open_slots().ranges()) {
    for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
      slots.remove(static_cast<slots::SlotId>(slot));
    }
  }
  return slots;
}

bool Transfer::Machine::is_group_dirty() {
  return dirty_.size_of(group_) > 0 || large_.next_of(group_) != nullptr;
}

// --- for people

bool Transfer::Machine::is_given_up(slots::SlotId slot) const {
  if (groups_.is_hopeless(slot, large_)) return true;
  return large_.given_up(slot) != nullptr &&
         groups_.steady_cost_ms(slot, large_) > groups_.budget_ms();
}

std::optional<std::string> Transfer::Machine::why_given_up() const {
  std::optional<slots::SlotId> first;
  std::size_t count = 0;
  for (const slots::SlotRange& range : open_.ranges()) {
    for (std::uint32_t at = range.first; at <= range.last; ++at) {
      const auto slot = static_cast<slots::SlotId>(at);
      if (!is_given_up(slot)) return std::nullopt;
      if (!first) first = slot;
      ++count;
    }
  }
  if (!first) return std::nullopt;
  std::string text = advice_for(*first);
  if (count > 1) text += fmt::format("; the same goes for {} more slots", count - 1);
  return text;
}

std::string Transfer::Machine::advice_for(slots::SlotId slot) const {
  const LargeKeys::Key* key = large_.given_up(slot);
  std::string text =
      key == nullptr
          ? fmt::format("the streams and large keys of slot {} can't be copied within {} ms", slot,
                        spec_.pause_ms)
          : fmt::format("{} could not be moved: {}, in each of {} copies", words_of(*key), key->why,
                        key->copies);
  text += fmt::format("; nothing is lost, {} still serves it. Retry the plan when it is quieter",
                      spec_.source);
  // Twice, since half of a pause is for the last copy; and some more, for it is an estimate.
  const double pause_ms = std::ceil(groups_.steady_cost_ms(slot, large_) * 2.5 / 50) * 50;
  if (pause_ms <= kPauseAdvisedMsMax) {
    text += fmt::format(", or propose it with --pause {}ms", static_cast<unsigned>(pause_ms));
  }
  return text;
}

std::string Transfer::Machine::large_key_words() const {
  const PieceCopy& copy = *pieces_;
  if (!large_.has(copy.key, copy.slot) || copy.type.empty()) return "";
  return fmt::format("{} ({}, {} in memory) goes in pieces: {} so far",
                     conf::in_quotes(copy.key.name), copy.type, megabytes(copy.bytes),
                     megabytes(copy.written_bytes));
}

}  // namespace proxy::mover
