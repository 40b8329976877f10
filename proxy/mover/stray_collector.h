// StrayCollector: gives keys that lie on one node (the source) to the node that owns their slots
// (the target), without a pause for anybody.
//
// Clients have never seen a stray, and they use the same name at the owner as they like. So these
// must not happen: a key of the owner is overwritten, a key that a client has deleted comes back,
// the only copy is removed. And nobody fences these slots. Instead:
//
//   * What an operator approves is that strays go to owners that lack them. A stray whose owner had
//     the key when the plan was proposed is left alone for good (StraySpec::left_alone), also when
//     a client deletes that key later. Whether a key that the owner lacks was never there or was
//     deleted before the collection began, no server knows: that is the operator's to decide, and
//     why strays are not collected without one.
//   * From then on nothing is left to chance. A stray is given to an owner that has no such key and
//     has not had one since this collection began. The owner's change feed says which names were
//     written, deleted or expired; from one look at it to the restoring the name is watched (WATCH
//     ... EXEC), so that the two leave no gap: WATCH, then a round trip, behind which the feed has
//     told of all that came before WATCH; what comes after it makes EXEC do nothing. RESTORE
//     without REPLACE would refuse besides.
//   * A flush ends the collection. The identity key is watched too: it always exists, so that a
//     flush in between is a change. Flushes that are under way when the feeds begin are waited for
//     (the fence of no slots).
//   * Restoring notes the name at the target in the same step, under resp::kNotedKey. So when proxy
//     or connection ends before the source's copy is removed, the next collection knows that this
//     stray has been given once: whatever the owner has under the name by then, or has deleted
//     since, is newer, and the stray is only removed. Note and key are in one history of one
//     server: one that comes back without the note has not had the key either.
//   * A stray is removed once the target would keep what it got through a crash (as with moves),
//     and if nobody has changed it at the source meanwhile: again by feed and WATCH.
//   * Feeds with a gap know nothing. When a connection breaks, or the proxy is started again, the
//     collection ends as failed, and what is left takes a new approval.
//
// Large values, and those whose payload the target can't read, go in pieces under a hidden name, as
// with moves (pieces.h), which is then renamed under the same WATCH. What is not the same any more
// at the end is left alone.
//
// Expiry: absolute (PEXPIRETIME, below 7.0 PTTL and TIME). A stray that has expired is gone; one
// that expires on its way is not created by RESTORE, and is removed.
//
// Thread:  one, which it blocks. Errors: none but Finish::Failed, whose reason says what to do.
// Limits:  kTouchedMax names that clients change at the target meanwhile are told apart; beyond it
//          the collection ends as failed. What it moves is within the pacers' limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/durability.h"
#include "proxy/mover/lost_clients.h"
#include "proxy/mover/move_host.h"
#include "proxy/mover/node_link.h"
#include "proxy/mover/pacer.h"
#include "proxy/mover/pieces.h"
#include "proxy/mover/transfer.h"
#include "slots/result.h"

namespace proxy::mover {

struct StraySpec {
  std::uint64_t plan = 0;
  std::string source;
  std::string target;
  slots::SlotSet slots = {};                   // Whose strays are collected.
  slots::SlotSet target_slots = {};            // All that the target owns.
  std::vector<std::uint64_t> left_alone = {};  // slots::key_hash() of keys, ascending.
  bool is_resumed = false;                     // By another process than the one that began it.
};

class StrayCollector {
 public:
  static constexpr std::size_t kTouchedMax = 4'000'000;

  // `on_tick` is called a few times a second at least; false: end now, whatever is under way.
  StrayCollector(LinkOptions options, StraySpec spec, conf::Milliseconds grace, MoveHost& host,
                 Pacer& source, Pacer& target, LostClients& lost_clients,
                 std::function<bool()> on_tick);
  StrayCollector(const StrayCollector&) = delete;
  StrayCollector& operator=(const StrayCollector&) = delete;

  [[nodiscard]] Finish run();
  [[nodiscard]] const Progress& progress() const { return progress_; }

 private:
  using Clock = NodeLink::Clock;
  using Names = std::vector<std::string>;

  struct End {
    NodeLink link;
    Pacer& pacer;
    std::string name;
    std::uint64_t asked = 0;                         // Of the pacer, since it was last settled.
    std::unordered_set<std::uint64_t> touched = {};  // Hashes of names that others changed.
  };
  // What a WATCH has found.
  struct Watched {
    Names untouched;
    Names touched;
  };

  // stray_collector.cc: the order of things.
  [[nodiscard]] slots::Status work();
  [[nodiscard]] slots::Status wait_for_flushes();
  [[nodiscard]] slots::Status take_up_noted();
  [[nodiscard]] slots::Status pass();
  [[nodiscard]] slots::Status copy(const Names& names);
  [[nodiscard]] slots::Result<std::vector<KeyValue>> read(const Names& names);
  [[nodiscard]] slots::Status finish_round();
  [[nodiscard]] slots::Status wait_until_durable();
  [[nodiscard]] slots::Status remove(const Names& names);
  [[nodiscard]] slots::Status forget_noted(const Names& names);

  // stray_collector_give.cc: what is done under WATCH at the target.
  [[nodiscard]] slots::Status give(const std::vector<KeyValue>& values, unsigned tries);
  [[nodiscard]] slots::Status restore(const std::vector<KeyValue>& values, unsigned tries);
  [[nodiscard]] slots::Status give_in_pieces(const std::string& name);
  [[nodiscard]] slots::Result<bool> copy_in_pieces(ReadPiece& read, std::uint64_t& bytes);
  [[nodiscard]] slots::Status publish(const std::string& name, const std::string& type,
                                      std::uint64_t bytes);
  [[nodiscard]] slots::Status drop_pieces();
  // Which of these the owner lacks, and has lacked; they are watched then.
  [[nodiscard]] slots::Result<Names> watch_absent(const Names& names);
  void note_given(const std::string& name, std::uint64_t bytes);

  // stray_collector_ends.cc: feeds, bytes and time.
  [[nodiscard]] slots::Result<Watched> watch(End& end, const Names& names);
  // Waits until so many bytes may be exchanged, hearing the feeds; and as long as it is to pause.
  [[nodiscard]] slots::Status ask(End& end, std::uint64_t bytes);
  [[nodiscard]] slots::Status rest(Clock::duration time);
  [[nodiscard]] slots::Status hear();
  [[nodiscard]] slots::Status take_notices(End& end);
  [[nodiscard]] slots::Result<NodeLink::Replies> exchange(End& end);
  [[nodiscard]] Ask asker(End& end);
  // False once the collection is to end; waits while it is to pause.
  [[nodiscard]] slots::Result<bool> may_go_on();
  [[nodiscard]] PieceRules piece_rules() const;
  [[nodiscard]] static std::uint64_t now_us();
  void leave(const std::string& name, std::string_view why);
  [[nodiscard]] std::string summary() const;

  StraySpec spec_;
  MoveHost& host_;
  std::function<bool()> on_tick_;
  End source_;
  End target_;
  std::string piece_key_;
  DurabilityWatch durability_;
  Names given_;  // Whose strays are to be removed once the target is durable.
  std::uint64_t given_bytes_ = 0;
  std::uint64_t left_alone_ = 0;
  std::string first_left_;  // One of them, and why.
  Progress progress_;
};

}  // namespace proxy::mover
