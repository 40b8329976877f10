// Transfer: moves slots from one node (the source) to another (the target). The mover's state
// machine: pure, no I/O, no clock, no thread.
//
// step() takes what has become of the last action and names the next one. Whoever carries the
// actions out (a thread of the daemon, the simulation) does one at a time and reports everything
// that the feeds said meanwhile, in the event that ends it. A feed is the node's own report of
// every key that anybody changes (CLIENT TRACKING ON BCAST,
// https://redis.io/docs/manual/client-side-caching/).
//
//   Connect -> purge the target -> scan the source and copy -> catch up ->
//   per group of slots: Fence -> last copy -> PutMarker -> Commit ->
//   AskDurability until the target keeps what it has -> collect the source's copies -> Finish
//
// What it promises (and the simulation checks): until Commit only the source's keys count and
// nothing but the mover writes these slots on the target; at Commit both are equal; afterwards
// nothing but the collector touches them on the source, and only once the target is durable. When a
// feed breaks or a node's server is another one than before, all copying of slots that are not
// committed begins anew.
//
// A target that comes back without the marker of a commit has lost everything since: those slots
// are given back to the source, whose kept copies are then the newest. Unless the marker may have
// got lost in another way (evicted, flushed): then nobody can know, and the transfer ends for a
// human to decide, with nothing collected.
//
// A large value would stall both servers if it went in one payload, and an older target may not be
// able to read the payload at all. Such keys go in pieces: each piece is read, and written to a
// hidden name on the target (piece_key()); the whole then takes the key's name. A change while the
// pieces are copied means to begin again (large_keys.h), and other slots go on meanwhile.
//
// A slot moves in all numbered databases (databases.h). The feeds name keys without their database:
// a changed name stands for its key in every database that is in use at either node, as far as that
// is known. Every CatchFeeds tells which are; one that was not known has a pass of its own, at the
// target for what lies there, and at the source for what was written before.
//
// Keys of the proxy's own (resp::is_reserved_key) are never read, copied or purged, but for hidden
// names that earlier tries left behind.
//
// Errors: none; what can't go on becomes Finish with a reason, or waits (Progress::waits_for) for
// somebody to mend it, trying on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxy/mover/databases.h"
#include "slots/slot.h"
#include "slots/slot_map.h"

namespace proxy::mover {

enum class Side : std::uint8_t { Source, Target };

// One key as the source had it at one instant; the action says in which database.
struct KeyValue {
  std::string name;
  bool exists = false;
  std::string payload;             // As DUMP gives it; empty when the key does not exist.
  std::int64_t expire_at_ms = -1;  // Unix time; -1: never.
  std::uint64_t large_bytes = 0;   // Not 0: not read, for it takes so many bytes.

  // The first byte of a payload is the RDB type; streams change without notices (consumer groups).
  [[nodiscard]] bool is_stream() const;
  // What RESTORE ... ABSTTL calls this expiry: there 0 means never.
  [[nodiscard]] std::int64_t restore_expiry_ms() const;
};

// --- actions
//
// Each is answered by the outcome named beside it. Those that speak with a node may be answered by
// NodeLost instead: a connection or a feed broke, and what was under way may still happen, until
// the next Connect. A feed's end is told with the next action that speaks with a node. Those that
// name keys mean them in one `database`, on both sides.

// -> Connected. First ends for certain (CLIENT KILL, answered) what movers that have ended left
// connected, of any plan and any process: none of their commands runs after this one.
struct Connect {};
struct Scan {  // -> Scanned.
  Side side = Side::Source;
  std::uint64_t cursor = 0;
  std::uint32_t count = 0;
  Database database = 0;
};
// -> ReadDone. From the source, value and expiry of each. A change that comes between reading the
// one and the other must be reported by the feed afterwards.
struct Read {
  std::vector<std::string> keys;
  bool is_whole = false;  // Large values too.
  Database database = 0;
};
struct Write {  // -> WriteDone. To the target; what does not exist is removed there.
  std::vector<KeyValue> values;
  Database database = 0;
};
struct Remove {  // -> Removed.
  Side side = Side::Source;
  std::vector<std::string> keys;
  Database database = 0;
};
using Words = std::vector<std::string>;  // A command.
// Where the next piece of a key begins; the affair of whoever reads pieces. Without a type: at the
// key's beginning.
struct PiecePlace {
  std::string type = {};  // As TYPE says.
  std::string cursor = {};
  std::uint64_t element_bytes = 0;       // About; the number of a piece's elements depends on it.
  bool has_field_expiry = false;         // The source knows expiry of a hash's fields.
  std::vector<std::string> groups = {};  // Of a stream.
};
// -> PieceRead. From the source, what is from there on, as commands that make the same of
// piece_key() on the target.
struct ReadPiece {
  std::string key;
  PiecePlace from;
  bool is_any_size = false;  // Else a key that is not large is told as such.
  Database database = 0;
};
// -> PieceWritten. To piece_key() on the target, which the first piece makes anew.
struct WritePiece {
  std::vector<Words> commands;
  bool is_first = false;
  Database database = 0;
};
// -> Published. If piece_key() has as many elements as the key has on the source, it takes the
// key's name and expiry at the target, in one instant.
struct Publish {
  std::string key;
  std::string type;
  Database database = 0;
};
// -> GroupsRenewed. Makes the consumer groups of a stream on the target, whose entries are copied,
// those that it has on the source. A group that has the same figures on both sides, and whose
// consumers did nothing since `unchanged_since_ms`, has not changed.
struct RenewGroups {
  std::string key;
  std::int64_t unchanged_since_ms = 0;  // By the source's clock.
  std::uint64_t pending_max = 0;        // Groups that have changed and have more: Incomplete.
  Database database = 0;
};
// -> Caught: all that was acknowledged before has been reported after it, and the databases in
// which it was written are named.
struct CatchFeeds {};
// -> Fenced or NotFenced. Once fenced, nobody writes these slots nor flushes either node, and
// nothing that was sent to the source for them can still run. No answer within `limit_ms`:
// NotFenced. What follows under the fence has the rest of `limit_ms`: then the fence is lifted,
// whatever is under way, and a Commit is refused.
struct Fence {
  slots::SlotSet slots;
  std::uint32_t limit_ms = 0;
};
struct LiftFence {};  // -> Lifted. Speaks with no node. Without a fence it does nothing.
// -> MarkerPut. Writes `number` to the target's marker_key(), in database 0: the target's own proof
// that it holds all copies of that commit and those before.
struct PutMarker {
  std::uint64_t number = 0;
};
// -> Committed or NotCommitted. Lifts the fence, either way. Speaks with no node.
struct Commit {
  slots::SlotSet slots;
  std::uint64_t marker = 0;   // To be recorded with the commit.
  std::string target_run_id;  // Of the server that holds the copies.
};
struct AskDurability {};  // -> Durability. Whether the target would keep all it has, marker too.
// -> Noted or NotNoted. Speaks with no node. After a Connect that found the marker: the target
// still holds these slots, and commands held back since its restart may go on.
struct Vouch {
  slots::SlotSet slots;
  std::string target_run_id;
};
// -> GaveBack or NotGivenBack. Speaks with no node. The target has lost these: they belong to the
// source again.
struct GiveBack {
  slots::SlotSet slots;
};
// -> Noted or NotNoted. Speaks with no node. The source holds nothing of these any more: recorded.
struct Collected {
  slots::SlotSet slots;
};
struct Wait {  // -> Waited. The feeds are read meanwhile.
  std::uint32_t ms = 0;
};
struct Finish {  // No event follows.
  enum class How : std::uint8_t { Done, Aborted, Failed };
  How how = How::Done;
  std::string reason;
};
using Action = std::variant<Connect, Scan, Read, Write, Remove, ReadPiece, WritePiece, Publish,
                            RenewGroups, CatchFeeds, Fence, LiftFence, PutMarker, Commit,
                            AskDurability, Vouch, GiveBack, Collected, Wait, Finish>;

// --- outcomes

struct Started {};
struct Connected {
  std::string source_run_id;
  std::string target_run_id;
  std::uint64_t marker = 0;       // What marker_key() says on the target; 0: there is none.
  bool may_evict_marker = false;  // The target evicts any key (allkeys-*) when it is full.
  UsedDatabases databases = {};
};
struct Scanned {
  std::uint64_t cursor = 0;  // 0: the scan is over.
  std::vector<std::string> keys;
};
struct ReadDone {
  // In the order asked for. The last ones may be missing, where they would be more than
  // TransferSpec::batch_bytes; at least one is there.
  std::vector<KeyValue> values;
};
enum class WriteFate : std::uint8_t {
  Ok,
  OutOfMemory,  // OOM: the target has no room.
  NotNow,       // LOADING, MISCONF, READONLY, BUSY: may pass.
  Unreadable,   // The target can't read this payload.
  TooNew,       // The same, and any other of the source's: its server is older.
  Incomplete,   // Of a copy in pieces: the target does not hold what the source has.
  Failed,       // Anything else; `text` says what.
};
struct WriteDone {
  struct Failure {
    std::uint32_t index = 0;  // In Write::values.
    WriteFate fate = WriteFate::Failed;
    std::string text;  // The node's words.
  };
  std::vector<Failure> failures;  // The others are written.
};
struct Removed {};
struct PieceRead {
  enum class Fate : std::uint8_t {
    Ok,
    Gone,     // There is no such key (any more).
    Small,    // It is not large (any more).
    Whole,    // It can't be read in pieces; `text` says why.
    Changed,  // It is something else than it was at its first piece.
  };
  Fate fate = Fate::Ok;
  std::string text = {};
  std::vector<Words> commands = {};
  std::uint64_t bytes = 0;  // Of the commands.
  PiecePlace next = {};
  bool is_last = false;
  // With the first piece:
  std::uint64_t key_bytes = 0;   // What it takes in the source's memory.
  std::uint64_t pending = 0;     // Of a stream: entries that its groups' consumers have not acked.
  std::int64_t read_at_ms = -1;  // Of a stream: when its groups were read; the source's clock.
};
struct PieceWritten {
  WriteFate fate = WriteFate::Ok;
  std::string text = {};
};
struct Published {
  WriteFate fate = WriteFate::Ok;
  std::string text = {};
};
struct GroupsRenewed {
  WriteFate fate = WriteFate::Ok;
  std::string text = {};
  std::uint64_t pending = 0;
  std::int64_t read_at_ms = -1;
};
struct Caught {
  UsedDatabases databases = {};
};
struct Fenced {
  std::uint64_t held_ms = 0;  // So long clients have been held back by now.
};
struct NotFenced {
  std::string reason;
};
struct Lifted {};
struct MarkerPut {};
struct Committed {
  slots::Epoch epoch = 0;
};
struct NotCommitted {
  std::string reason;
  // The journal is broken (and may hold the commit), or the slots are not the source's any more.
  bool is_fatal = false;
};
struct GaveBack {
  slots::Epoch epoch = 0;
};
struct NotGivenBack {
  std::string reason;
};
struct Durability {
  bool is_durable = false;
  std::string waits_for;  // What is not there yet, in words.
};
struct Noted {};
struct NotNoted {
  std::string reason;
};
struct Waited {};
struct NodeLost {
  Side side = Side::Source;
  std::string reason;
};
using Outcome = std::variant<Started, Connected, Scanned, ReadDone, WriteDone, Removed, PieceRead,
                             PieceWritten, Published, GroupsRenewed, Caught, Fenced, NotFenced,
                             Lifted, MarkerPut, Committed, NotCommitted, Durability, GaveBack,
                             NotGivenBack, Noted, NotNoted, Waited, NodeLost>;

// What a feed has said since the last event. All that it said before it broke comes with NodeLost.
struct Notices {
  std::vector<std::string> keys;  // In some database.
  bool all = false;               // FLUSHALL, or FLUSHDB of some database: every key.
};

enum class Wish : std::uint8_t { Run, Pause, Abort };

struct Event {
  Outcome outcome;
  Notices source = {};  // Of all keys of the node, these slots' or not.
  Notices target = {};  // Changes by others than the mover: eviction, expiry, flushes.
  Wish wish = Wish::Run;
  std::uint64_t now_ms = 0;  // Of a clock that never goes back.
};

// Slots of one commit whose copies the source still has.
struct KeptSlots {
  slots::SlotSet slots;
  std::uint64_t marker = 0;  // Commit::marker.
};

struct TransferSpec {
  std::uint64_t plan = 0;
  std::string source;
  std::string target;
  slots::SlotSet slots;         // To move: the source's now.
  std::vector<KeptSlots> kept;  // Committed by earlier processes, not yet collected.
  std::uint32_t pause_ms = 50;  // A fence's last copy should take no longer.
  // Of one fence, at most. Each pause costs a sync of the journal and a new table at all workers,
  // whatever its slots hold, so fewer and larger groups make fewer and, by that, shorter pauses.
  std::uint32_t group_slots = 256;
  std::uint32_t batch_keys = 100;
  std::uint32_t batch_bytes = 256U << 10;
  std::uint64_t dirty_bytes = 64ULL << 20;  // Names of changed keys take no more memory.
};

// The key on the target that says which commits it holds.
[[nodiscard]] std::string marker_key(std::uint64_t plan, std::string_view source);
// The name on the target under which a copy in pieces grows.
[[nodiscard]] std::string piece_key(std::uint64_t plan, std::string_view source);

enum class Phase : std::uint8_t {
  Connecting,
  Purging,
  Copying,
  CatchingUp,
  Fencing,  // From Fence to the answer to Commit.
  Keeping,
  Collecting,
  Ended,
};

struct Progress {
  Phase phase = Phase::Connecting;
  bool is_paused = false;  // As wished.
  // Why nothing goes on, in words, or which large key is being copied in pieces, for which the rest
  // may have to wait; else empty. What fails is tried again by itself, now and then.
  std::string waits_for;
  std::string large_key;              // The key that is being copied in pieces, in words; or empty.
  std::uint64_t slots_committed = 0;  // The spec's kept ones included.
  std::uint64_t slots_total = 0;
  std::uint64_t keys_copied = 0;  // Copies made, those made again included.
  std::uint64_t keys_recopied = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t keys_collected = 0;
  std::uint64_t restarts = 0;  // Times that copying began anew.
  // Known to whoever carries the actions out.
  std::uint64_t wire_bytes = 0;               // Between mover and nodes, both ways, both nodes.
  std::uint64_t bytes_per_second = 0;         // Of late, with the node that exchanges more of them.
  bool is_resting = false;                    // Of late, it was for the nodes' rest that it waited.
  std::vector<std::uint32_t> pauses_us = {};  // Of fences that ended since the last report.
};

class Transfer {
 public:
  explicit Transfer(TransferSpec spec);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The first event is Started.
  [[nodiscard]] Action step(Event event);
  [[nodiscard]] const Progress& progress() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace proxy::mover
