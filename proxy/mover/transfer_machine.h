// Transfer::Machine: the state behind a Transfer. step() takes in what the feeds said (hear_source,
// hear_target) and what has become of the last action (on, all in transfer.cc); then next() decides
// from the state alone what to do (transfer_steps.cc). What concerns copies in pieces, both ways,
// is in transfer_pieces.cc.
//
// Two rules hold the copies together: a name leaves the set of dirty ones before its key is read,
// so that a change which the read does not show makes it dirty again; and what was taken out and
// not written is put back, whenever a fence is lifted early.
//
// A dirty name stands for its key in every database of `databases_`; it is taken apart into these
// (due_) when its turn has come, and all of them are read before anything is fenced.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "proxy/mover/dirty_keys.h"
#include "proxy/mover/large_keys.h"
#include "proxy/mover/slot_groups.h"
#include "proxy/mover/transfer.h"
#include "slots/assert.h"
#include "slots/slot.h"

namespace proxy::mover {

class Transfer::Machine {
 public:
  explicit Machine(TransferSpec spec);

  [[nodiscard]] Action step(Event event);
  [[nodiscard]] const Progress& progress() const { return progress_; }

 private:
  // Of a KeyValue, what is to be known when it has been written.
  struct Written {
    std::string name;
    std::size_t payload_bytes = 0;
    bool exists = false;
    bool is_stream = false;
  };
  // The key that is being copied in pieces: one at a time, for there is one name to copy to.
  struct PieceCopy {
    DbKey key;
    slots::SlotId slot = 0;
    bool is_any_size = false;
    PiecePlace next = {};
    std::optional<PieceRead> piece = {};  // To be written.
    bool is_read = false;                 // All of it.
    bool is_begun = false;                // Something was written.
    std::uint64_t writing_bytes = 0;
    std::uint64_t written_bytes = 0;
    bool is_recopy = false;
    // The feeds have said so since the first piece was read:
    bool has_changed = false;
    bool is_lost = false;  // The hidden name.
    // As the first piece said:
    std::string type = {};
    std::uint64_t bytes = 0;
    std::uint64_t pending = 0;
    std::int64_t read_at_ms = 0;
  };
  enum class FenceStep : std::uint8_t {
    None,        // No fence.
    Asked,       // Fence is under way.
    Catch,       // Then everything that was written before the fence is known.
    Copy,        // Dirty keys and streams of the group.
    CatchAgain,  // Then the target is known to have kept the copies.
    Mark,
    Commit,
  };

  // --- what has happened (transfer.cc)
  void on(const Started&) {}
  void on(Connected& connected);
  void on(Scanned& scanned);
  void on(ReadDone& done);
  void on(WriteDone& done);
  void on(const Removed&);
  void on(PieceRead& read);
  void on(const PieceWritten& written);
  void on(const Published& published);
  void on(const GroupsRenewed& renewed);
  void on(const Caught& caught);
  void on(const Fenced& fenced) {
    expect<Fence>();
    fenced_at_ms_ = now_ms_ - fenced.held_ms;
    fence_step_ = FenceStep::Catch;
  }
  void on(const NotFenced& not_fenced);
  void on(const Lifted&) {}
  void on(const MarkerPut&);
  void on(const Committed&);
  void on(const NotCommitted& not_committed);
  void on(const Durability& durability);
  void on(const GaveBack&);
  void on(const NotGivenBack& not_given_back);
  void on(const Noted&);
  void on(const NotNoted& not_noted);
  void on(const Waited&) {}
  void on(const NodeLost& lost);
  void hear_source(const Notices& notices);
  void hear_target(const Notices& notices);
  void note_write_failure(const DbKey& key, WriteFate fate, const std::string& text);
  void note_changed(const std::string& name, slots::SlotId slot);
  // From now on other than by its name it is known that the key has to be copied. Whether it was
  // dirty.
  bool forget_dirty(const std::string& name, slots::SlotId slot);
  // Whether some were not known; in a pass over the source they are passed over then too.
  bool note_databases(const UsedDatabases& used);
  void note_written(const Written& written, slots::SlotId slot);
  void note_unreadable(const DbKey& key, WriteFate fate, const std::string& text);
  void judge_marker(const Connected& connected);
  [[nodiscard]] bool is_left_over(const std::string& key) const;

  // --- what to do (transfer_steps.cc)
  [[nodiscard]] Action next();
  [[nodiscard]] Action connect();
  [[nodiscard]] Action purge();
  [[nodiscard]] Action copy();
  [[nodiscard]] Action catch_up();
  [[nodiscard]] Action fence(const slots::SlotSet& group);
  [[nodiscard]] Action go_on_in_fence();
  [[nodiscard]] Action keep();
  [[nodiscard]] Action collect();
  [[nodiscard]] std::optional<Action> scan();  // Nothing: the passes of this phase are over.
  [[nodiscard]] Action read(std::vector<std::string> names, Database database, bool is_recopy);
  [[nodiscard]] std::optional<Action> read_due();
  void make_due(const std::vector<std::string>& names);
  [[nodiscard]] Action copy_in_fence();
  [[nodiscard]] Action write();
  [[nodiscard]] Action finish();
  [[nodiscard]] Action wait_until(std::uint64_t at_ms) const;

  // --- copies in pieces (transfer_pieces.cc)
  [[nodiscard]] Action begin_pieces(const DbKey& key, bool is_any_size, bool is_recopy);
  [[nodiscard]] Action begin_large(LargeKeys::Key& key);
  [[nodiscard]] Action go_on_in_pieces();
  // What a copy in pieces has left to be done before anything else is copied.
  [[nodiscard]] std::optional<Action> settle_pieces();
  [[nodiscard]] bool owns_pieces() const;  // It is under the fence that they are copied.
  void note_large(const KeyValue& value);
  void note_pieces_left(const PieceCopy& copy);
  void drop_pieces();                        // In order: to be copied again.
  void fail_pieces(const std::string& why);  // In vain: later again.
  [[nodiscard]] slots::SlotSet fenceable() const;
  // Why no slot that is left can be moved; nothing while some can.
  [[nodiscard]] std::optional<std::string> why_given_up() const;
  [[nodiscard]] bool is_given_up(slots::SlotId slot) const;
  [[nodiscard]] std::string advice_for(slots::SlotId slot) const;
  [[nodiscard]] std::string large_key_words() const;

  void begin_anew();                         // All copying of what is not committed.
  void leave_fence(const std::string& why);  // Before Commit; "" when nobody is to blame.
  void put_back_batch();                     // What was taken is not written.
  void begin_ending(Finish::How how, std::string reason);  // In good order: purge, keep, collect.
  void resume();                                           // After a Connect.
  void enter(Phase phase);                                 // And begin its passes, if it has any.
  void update_progress();
  [[nodiscard]] std::string why_waiting() const;
  [[nodiscard]] std::size_t batch_size() const;
  [[nodiscard]] slots::SlotSet kept_slots() const;
  // Whether a flush of the target has flushed all that was committed. With several databases it may
  // have been another one: then what the source keeps is kept until the target is durable, and a
  // target that has lost its marker meanwhile is for a human to judge.
  [[nodiscard]] bool may_drop_kept() const { return databases_.size() == 1; }
  [[nodiscard]] bool is_group_dirty();
  [[nodiscard]] bool is_fenced() const { return fence_step_ != FenceStep::None; }
  // Of an action in Action.
  template <class T, std::size_t I = 0>
  static constexpr std::size_t place_of() {
    if constexpr (std::is_same_v<T, std::variant_alternative_t<I, Action>>) {
      return I;
    } else {
      return place_of<T, I + 1>();
    }
  }
  template <class T>
  void expect() const {  // That `T` was the last action.
    SP_ASSERT((last_action_ == place_of<T>()));
  }

  TransferSpec spec_;
  std::string marker_key_;
  std::string piece_key_;
  Progress progress_;
  Phase phase_ = Phase::Connecting;
  std::uint64_t now_ms_ = 0;
  Wish wish_ = Wish::Run;
  std::size_t last_action_ = 0;  // Its place in Action.

  slots::SlotSet open_;  // The source's, to move.
  std::vector<KeptSlots> kept_;

  // --- the nodes
  bool is_connected_ = false;
  unsigned connect_failures_ = 0;
  std::uint64_t connect_at_ms_ = 0;
  std::string target_run_id_;

  // --- passes over a node's keys, a database at a time: purge, copy or collect
  struct Pass {
    Side side = Side::Source;
    Database database = 0;
  };
  // In use at either node, at any time until now.
  Databases databases_ = {0};
  std::deque<Pass> passes_;  // Of this phase; the first one is under way.
  std::uint64_t cursor_ = 0;
  bool is_scan_over_ = false;       // Of the first pass.
  std::deque<std::string> passed_;  // Names of the last Scanned that are still to be dealt with.

  // --- copies
  DirtyKeys dirty_;
  SlotGroups groups_;
  std::deque<DbKey> due_;  // Of names that were taken out of dirty_, still to be read.
  std::vector<std::string> reading_;
  Database batch_database_ = 0;                    // Of what is read and written.
  std::vector<KeyValue> batch_;                    // Read, to be written.
  std::vector<Written> written_;                   // Being written.
  bool is_recopy_ = false;                         // The batch is of dirty names.
  double payload_bytes_ = 0;                       // Of a key, lately.
  std::size_t round_left_ = 0;                     // Of a catch-up round: names still to be taken.
  bool is_caught_up_ = false;                      // A round has just ended with a CatchFeeds.
  bool is_idle_round_ = false;                     // It had nothing to copy.
  bool is_dirty_turn_ = false;                     // In the pass: dirty names before new ones.
  std::optional<std::uint64_t> unready_since_ms_;  // No group could be fenced since.
  bool must_begin_anew_ = false;                   // Names of changed keys were lost, or copies.
  std::uint64_t copy_at_ms_ = 0;                   // Not before: the target had said NotNow.

  // --- copies in pieces
  LargeKeys large_;
  std::optional<PieceCopy> pieces_;
  std::optional<Database> pieces_left_in_;  // What was written of them is of no use any more.
  std::optional<DbKey> gone_;     // To be removed from the target: the source has no such key.
  bool is_piece_due_ = false;     // In this round.
  bool is_target_older_ = false;  // It can't read any payload: all keys go in pieces.

  // --- the fence
  FenceStep fence_step_ = FenceStep::None;
  bool must_lift_ = false;
  slots::SlotSet group_;
  std::vector<DbKey> streams_;   // Of the group, still to be copied.
  std::vector<DbKey> renewals_;  // Large ones whose groups are still to be renewed.
  DbKey renewing_;
  std::uint64_t fenced_at_ms_ = 0;
  std::uint64_t copied_since_ms_ = 0;
  double estimated_ms_ = 0;
  bool is_group_written_ = false;  // Something was, since the feeds were caught.
  unsigned fence_failures_ = 0;    // In a row.
  std::uint64_t fence_at_ms_ = 0;  // Not before.

  // --- the marker
  std::uint64_t marker_ = 0;        // The last number that was put, by anybody.
  bool is_marker_lost_ = false;     // To be put again.
  bool is_marker_doubted_ = false;  // It got lost while the target ran: its absence proves nothing.
  bool may_evict_marker_ = false;
  bool must_vouch_ = false;
  slots::SlotSet to_give_back_;
  bool was_target_flushed_ = false;  // Heard with this event.

  // --- keep and collect
  std::uint64_t ask_durability_at_ms_ = 0;
  std::size_t removing_ = 0;    // Keys of the Remove under way.
  bool is_collecting_ = false;  // Some of the kept copies may be gone.
  bool must_drop_kept_ =
      false;                // The target was flushed: what the source keeps must not come back.
  bool is_purged_ = false;  // While ending: the target holds nothing of what is not committed.
  bool is_marker_removed_ = false;

  std::optional<Finish> ending_;      // How it is to end once all is in order.
  std::optional<Finish> finish_now_;  // As things are.

  // --- why nothing goes on
  std::string connect_reason_;
  std::string write_reason_;
  std::string fence_reason_;
  std::string durability_reason_;
};

}  // namespace proxy::mover
