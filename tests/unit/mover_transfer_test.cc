// Transfer, step by step: what it does in which order, and what it makes of what can go wrong. The
// simulation (tests/sim) has the interleavings; here are the rules.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/mover/transfer.h"
#include "slots/key_slot.h"

namespace proxy::mover {
namespace {

slots::SlotSet slots_of(const std::vector<std::string>& keys) {
  slots::SlotSet slots;
  for (const std::string& key : keys) slots.add(slots::slot_of_key(key));
  return slots;
}

template <class T>
bool is(const Action& action) {
  return std::holds_alternative<T>(action);
}

struct Value {
  std::string payload;
  std::int64_t expire_at_ms = -1;
  friend bool operator==(const Value&, const Value&) = default;
};
using Node = std::map<std::string, Value>;

std::string stream_payload(const std::string& rest) { return '\x0f' + rest; }

// Two nodes, and whoever carries a transfer's actions out: rightly, unless `instead` says
// otherwise.
class Rig {
 public:
  explicit Rig(TransferSpec spec) : spec_(std::move(spec)), transfer_(spec_) {
    event_.outcome = Started{};
  }

  // The next action, carried out; what it was.
  Action step() {
    event_.now_ms = now_ms += step_ms;
    event_.wish = wish;
    Action action = transfer_.step(std::exchange(event_, {}));
    if (!is<Finish>(action)) {
      std::optional<Outcome> other = instead ? instead(action) : std::nullopt;
      if (lost_next_) other = NodeLost{*std::exchange(lost_next_, std::nullopt), "it is gone"};
      event_.outcome =
          other ? std::move(*other) : std::visit([&](auto& a) { return carry_out(a); }, action);
    }
    log.push_back(action);
    return action;
  }
  // Steps until an action of the kind T has been carried out.
  template <class T>
  T until() {
    for (int i = 0; i < 10000; ++i) {
      Action action = step();
      if (T* wanted = std::get_if<T>(&action)) return *wanted;
      REQUIRE_FALSE(is<Finish>(action));
    }
    FAIL("never came");
    return {};
  }
  Finish until_end() { return until<Finish>(); }
  template <class T>
  std::size_t count() const {
    std::size_t found = 0;
    for (const Action& action : log) found += is<T>(action) ? 1 : 0;
    return found;
  }

  // As a client would: the feed says so.
  void client_writes(const std::string& key, const std::string& payload) {
    source[key] = {payload, -1};
    event_.source.keys.push_back(key);
  }
  void client_deletes(const std::string& key) {
    source.erase(key);
    event_.source.keys.push_back(key);
  }
  void target_says(const std::string& key) { event_.target.keys.push_back(key); }
  void source_flushed() {
    source.clear();
    event_.source.all = true;
  }
  void target_flushed() {
    target.clear();
    event_.target.all = true;
  }
  void lose_next(Side side) { lost_next_ = side; }
  [[nodiscard]] const Progress& progress() const { return transfer_.progress(); }

  Node source;
  Node target;
  std::uint64_t now_ms = 1000;
  std::uint64_t step_ms = 0;
  Wish wish = Wish::Run;
  std::string source_run_id = "s1";
  std::string target_run_id = "t1";
  std::uint64_t marker = 0;
  bool may_evict_marker = false;
  bool is_durable = true;
  slots::SlotSet fenced;
  slots::SlotSet committed;
  std::size_t large_payload = 1000;  // As long a payload goes in pieces, one per character.
  std::map<std::string, std::string> unsplittable = {};  // And why.
  bool is_target_older = false;
  std::function<std::optional<Outcome>(const Action&)> instead;
  std::vector<Action> log;

 private:
  Outcome carry_out(const Connect&) {
    return Connected{source_run_id, target_run_id, marker, may_evict_marker};
  }
  Outcome carry_out(const Scan& scan) {
    Scanned scanned;
    for (const auto& [key, value] : scan.side == Side::Source ? source : target) {
      scanned.keys.push_back(key);
    }
    return scanned;
  }
  Outcome carry_out(const Read& read) {
    ReadDone done;
    for (const std::string& key : read.keys) {
      auto found = source.find(key);
      if (found == source.end()) {
        done.values.push_back({.name = key, .payload = {}});
      } else if (found->second.payload.size() >= large_payload && !read.is_whole) {
        done.values.push_back(
            {.name = key, .payload = {}, .large_bytes = found->second.payload.size() << 20});
      } else {
        done.values.push_back({key, true, found->second.payload, found->second.expire_at_ms});
      }
    }
    return done;
  }
  Outcome carry_out(const Write& write) {
    WriteDone refused;
    for (std::uint32_t i = 0; is_target_older && i < write.values.size(); ++i) {
      refused.failures.push_back({i, WriteFate::TooNew, "ERR version"});
    }
    if (is_target_older) return refused;
    for (const KeyValue& value : write.values) {
      if (value.exists) {
        target[value.name] = {value.payload, value.expire_at_ms};
      } else {
        target.erase(value.name);
      }
    }
    return WriteDone{};
  }
  Outcome carry_out(const Remove& remove) {
    for (const std::string& key : remove.keys) {
      (remove.side == Side::Source ? source : target).erase(key);
    }
    return Removed{};
  }
  Outcome carry_out(const ReadPiece& read) {
    auto found = source.find(read.key);
    PieceRead piece{.next = read.from};
    if (found == source.end()) return PieceRead{.fate = PieceRead::Fate::Gone};
    const std::string& payload = found->second.payload;
    piece.next.type = payload[0] == '\x0f' ? "stream" : "hash";
    piece.key_bytes = payload.size() << 20;
    piece.read_at_ms = 77;
    if (auto why = unsplittable.find(read.key); why != unsplittable.end()) {
      piece.fate = PieceRead::Fate::Whole;
      piece.text = why->second;
      return piece;
    }
    if (payload.size() < large_payload && !read.is_any_size) {
      return PieceRead{.fate = PieceRead::Fate::Small};
    }
    const std::size_t at = read.from.cursor.empty() ? 0 : std::stoull(read.from.cursor);
    if (at < payload.size()) piece.commands = {{payload.substr(at, 1)}};
    piece.bytes = 1;
    piece.next.cursor = std::to_string(at + 1);
    piece.is_last = at + 1 >= payload.size();
    return piece;
  }
  Outcome carry_out(const WritePiece& write) {
    std::string& hidden = target[piece_key(7, "a")].payload;
    if (write.is_first) hidden.clear();
    for (const Words& words : write.commands) hidden += words[0];
    return PieceWritten{};
  }
  Outcome carry_out(const Publish& publish) {
    auto found = source.find(publish.key);
    const auto hidden = target.find(piece_key(7, "a"));
    if (found == source.end() || hidden == target.end() ||
        hidden->second.payload.size() != found->second.payload.size()) {
      return Published{WriteFate::Incomplete, "it is not whole"};
    }
    target[publish.key] = {hidden->second.payload, found->second.expire_at_ms};
    target.erase(hidden);
    return Published{};
  }
  Outcome carry_out(const RenewGroups&) { return GroupsRenewed{.read_at_ms = 99}; }
  Outcome carry_out(const CatchFeeds&) { return Caught{}; }
  Outcome carry_out(const Fence& fence) {
    fenced = fence.slots;
    return Fenced{};
  }
  Outcome carry_out(const LiftFence&) {
    fenced = {};
    return Lifted{};
  }
  Outcome carry_out(const PutMarker& put) {
    marker = put.number;
    return MarkerPut{};
  }
  Outcome carry_out(const Commit& commit) {
    CHECK(commit.slots == fenced);
    CHECK(commit.marker == marker);
    committed.add(commit.slots);
    fenced = {};
    return Committed{2};
  }
  Outcome carry_out(const AskDurability&) { return Durability{is_durable, "the next save"}; }
  Outcome carry_out(const Vouch&) { return Noted{}; }
  Outcome carry_out(const GiveBack&) { return GaveBack{3}; }
  Outcome carry_out(const Collected&) { return Noted{}; }
  Outcome carry_out(const Wait& wait) {
    now_ms += wait.ms;
    return Waited{};
  }
  Outcome carry_out(const Finish&) { return Started{}; }

  TransferSpec spec_;
  Transfer transfer_;
  Event event_;
  std::optional<Side> lost_next_;
};

TransferSpec spec_for(const std::vector<std::string>& keys) {
  TransferSpec spec;
  spec.plan = 7;
  spec.source = "a";
  spec.target = "b";
  spec.slots = slots_of(keys);
  return spec;
}

}  // namespace

TEST_CASE("transfer: in fair weather every key of the slots changes sides, and no other") {
  Rig rig(spec_for({"k1", "k2", "k3"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2", 5000}}, {"other", {"o"}}};
  rig.target = {{"k3", {"left behind by an earlier try"}}, {"theirs", {"t"}}};

  const Finish end = rig.until_end();

  CHECK(end.how == Finish::How::Done);
  CHECK(rig.target == Node{{"k1", {"v1"}}, {"k2", {"v2", 5000}}, {"theirs", {"t"}}});
  CHECK(rig.source == Node{{"other", {"o"}}});
  CHECK(rig.committed == slots_of({"k1", "k2", "k3"}));
  CHECK(rig.progress().slots_committed == 3);
  CHECK(rig.progress().slots_total == 3);
  CHECK(rig.progress().keys_copied == 2);
  CHECK(rig.progress().keys_recopied == 0);
  CHECK(rig.progress().phase == Phase::Ended);
}

TEST_CASE("transfer: keys of the proxy's own stay where they are") {
  const std::string own = "__slotproxy:identity";
  Rig rig(spec_for({own, "k1"}));
  rig.source = {{own, {"a"}}, {"k1", {"v1"}}};
  rig.target = {{own, {"b"}}};
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.source == Node{{own, {"a"}}});
  CHECK(rig.target == Node{{own, {"b"}}, {"k1", {"v1"}}});
}

TEST_CASE("transfer: what changes after it was copied is copied again, until the commit") {
  Rig rig(spec_for({"k1", "k2", "k3"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<Write>();
  rig.client_writes("k1", "newer");
  rig.client_deletes("k2");
  rig.client_writes("elsewhere", "of no slot that moves");
  rig.until<Fence>();
  rig.client_writes("k3", "the last one before the fence held");
  rig.until<Commit>();
  rig.source.erase("elsewhere");
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a key that changes while it is read is read again") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.until<Read>();
  rig.client_writes("k1", "written after the read");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a copy that the target evicted is made again") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  SUBCASE("while catching up") { rig.until<CatchFeeds>(); }
  SUBCASE("just after the marker") { rig.until<PutMarker>(); }
  rig.target.erase("k1");
  rig.target_says("k1");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a flush of either node begins everything anew") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<CatchFeeds>();
  SUBCASE("of the source, which must not come back from the target") { rig.source_flushed(); }
  SUBCASE("of the target, which needs its copies again") { rig.target_flushed(); }
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
  CHECK(rig.progress().restarts == 1);
}

TEST_CASE("transfer: streams are copied under the fence, for their groups change unheard") {
  Rig rig(spec_for({"k1", "s1"}));
  rig.source = {{"k1", {"v1"}}, {"s1", {stream_payload("no group yet")}}};
  rig.until<Fence>();
  rig.source["s1"].payload = stream_payload("a group");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a hot key is copied at most once a second, but always under the fence") {
  TransferSpec spec = spec_for({"hot", "k1"});
  Rig rig(spec);
  rig.source = {{"hot", {"0"}}, {"k1", {"v1"}}};
  // The fence fails for three seconds.
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Fence>(action) || rig.now_ms > 4000) return std::nullopt;
    return NotFenced{"worker 2 is busy"};
  };
  int value = 0;
  while (rig.count<Commit>() == 0) {
    if (rig.fenced.empty()) rig.client_writes("hot", std::to_string(++value));
    rig.step();
  }
  CHECK(rig.target == rig.source);
  CHECK(rig.progress().keys_recopied >= 3);
  CHECK(rig.progress().keys_recopied <= 6);
}

TEST_CASE("transfer: a read may bring less than was asked for; the rest is asked for again") {
  Rig rig(spec_for({"k1", "k2", "k3"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}, {"k3", {"v3"}}};
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    const Read* read = std::get_if<Read>(&action);
    if (read == nullptr) return std::nullopt;
    return ReadDone{{{read->keys[0], true, rig.source[read->keys[0]].payload, -1}}};
  };
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE(
    "transfer: batches are bounded by count, and by bytes once values are known to be large") {
  TransferSpec spec = spec_for({"{t}"});
  spec.batch_keys = 8;
  spec.batch_bytes = 1000;
  Rig rig(spec);
  for (int i = 0; i < 30; ++i) rig.source["{t}" + std::to_string(i)] = {std::string(400, 'x')};
  CHECK(rig.until<Read>().keys.size() == 8);
  CHECK(rig.until<Read>().keys.size() == 2);
}

TEST_CASE("transfer: a fence that can't be had is tried again later, and people are told why") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  unsigned refusals = 0;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Fence>(action) || refusals == 6) return std::nullopt;
    ++refusals;
    return NotFenced{"worker 2 is busy"};
  };
  while (refusals < 4) rig.step();
  CHECK(rig.progress().waits_for == "");
  const std::uint64_t since = rig.now_ms;
  while (refusals < 6) rig.step();
  CHECK(rig.now_ms - since > 1000);
  rig.step();
  CHECK(rig.progress().waits_for == "worker 2 is busy");
  rig.until<Commit>();
  rig.step();
  CHECK(rig.progress().waits_for == "");
}

TEST_CASE("transfer: a last copy that takes too long lifts the fence, and the group is split") {
  TransferSpec spec = spec_for({"k1", "k2", "k3", "k4"});
  spec.group_slots = 4;
  Rig rig(spec);
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}, {"k3", {stream_payload("v3")}}, {"k4", {"v4"}}};
  // Under the fence of several slots the node is slow.
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (is<Write>(action) && rig.fenced.size() > 1) rig.now_ms += 60;
    return std::nullopt;
  };
  CHECK(rig.until<Fence>().slots.size() == 4);
  rig.until<LiftFence>();
  CHECK(rig.fenced.empty());
  CHECK(rig.committed.empty());
  CHECK(rig.until<Fence>().slots.size() == 2);
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target.size() == 4);
}

TEST_CASE("transfer: without room on the target its copies go, and the source stays as it is") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {stream_payload("v2")}}};
  const Node before = rig.source;
  bool is_full = false;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Write>(action) || !is_full) return std::nullopt;
    return WriteDone{{{0, WriteFate::OutOfMemory, "OOM command not allowed"}}};
  };
  SUBCASE("while copying") { is_full = true; }
  SUBCASE("under the fence") {
    rig.until<Fence>();
    is_full = true;
    rig.until<LiftFence>();
  }
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Failed);
  CHECK(end.reason.find("no room") != std::string::npos);
  CHECK(rig.source == before);
  CHECK(rig.target.empty());
  CHECK(rig.fenced.empty());
}

TEST_CASE("transfer: writes that the target refuses for now are made later") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Write>(action) || rig.now_ms > 3000) return std::nullopt;
    return WriteDone{{{0, WriteFate::NotNow, "MISCONF can't save"}}};
  };
  rig.until<Write>();
  rig.step();
  CHECK(rig.progress().waits_for == "b takes no writes now: MISCONF can't save");
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target == Node{{"k1", {"v1"}}});
}

TEST_CASE("transfer: values that the target refuses end it with advice") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Write>(action)) return std::nullopt;
    return WriteDone{{{0, WriteFate::Failed, "ERR no"}}};
  };
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Failed);
  CHECK(end.reason == "b refused a copy: ERR no");
  CHECK(rig.source.contains("k1"));
}

TEST_CASE("transfer: a large key goes in pieces, and takes its name when it is whole") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.large_payload = 5;
  rig.source = {{"k1", {"v1"}}, {"k2", {"large", 4'000}}};
  const Node before = rig.source;
  CHECK(rig.until<WritePiece>().is_first);
  CHECK(rig.progress().waits_for ==
        "\"k2\" (hash, 5.2 MB in memory) goes in pieces: 0.0 MB so far");
  CHECK_FALSE(rig.until<WritePiece>().is_first);
  rig.until<Publish>();
  CHECK(rig.count<WritePiece>() == 5);
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target == before);
  CHECK(rig.progress().keys_copied == 2);
}

TEST_CASE("transfer: a large key that changes is copied from its beginning, ever later") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 5;
  rig.source = {{"k1", {"large"}}};
  rig.until<WritePiece>();
  rig.client_writes("k1", "larger");
  CHECK(rig.until<Remove>().keys == std::vector{piece_key(7, "a")});
  const auto began_ms = rig.now_ms;
  CHECK(rig.until<WritePiece>().is_first);
  CHECK(rig.now_ms >= began_ms + 1000);
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target["k1"].payload == "larger");
}

TEST_CASE("transfer: half of a large key that the target lost is not gone on with") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 5;
  rig.source = {{"k1", {"large"}}};
  rig.until<WritePiece>();
  rig.target.clear();
  rig.target_says(piece_key(7, "a"));
  CHECK(rig.until<WritePiece>().is_first);
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target["k1"].payload == "large");
}

TEST_CASE("transfer: other slots go on while a large key is copied, its own waits") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.large_payload = 50;
  rig.source = {{"k1", {"v1"}}, {"k2", {std::string(50, 'x')}}};
  CHECK(rig.until<Commit>().slots == slots_of({"k1"}));
  CHECK(rig.count<Publish>() == 0);
  CHECK(rig.until<Commit>().slots == slots_of({"k2"}));
  CHECK(rig.count<Publish>() == 1);
}

TEST_CASE("transfer: a large key that is never still is left where it is, the others move") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.large_payload = 50;
  rig.source = {{"k1", {"v1"}}, {"k2", {std::string(50, 'x')}}};
  const auto began_ms = rig.now_ms;
  std::vector<std::string> told;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (is<WritePiece>(action)) rig.client_writes("k2", rig.source["k2"].payload);
    if (rig.progress().waits_for.starts_with("key")) told.push_back(rig.progress().waits_for);
    return std::nullopt;
  };
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Failed);
  CHECK(
      end.reason ==
      "key \"k2\" (hash, 52.4 MB) of slot 449 could not be moved: it changed while it was copied, "
      "in each of 6 copies; nothing is lost, a still serves it. Retry the plan when it is "
      "quieter, or propose it with --pause 2650ms");
  CHECK(rig.committed == slots_of({"k1"}));
  CHECK(rig.now_ms >= began_ms + 31'000);
  CHECK(rig.source.size() == 1);
  CHECK(rig.target == Node{{"k1", {"v1"}}});
  REQUIRE_FALSE(told.empty());
  CHECK(told.front() ==
        "key \"k2\" (hash, 52.4 MB) of slot 449: it changed while it was copied, 2 times; other "
        "slots go on");
}

TEST_CASE("transfer: a restless key that fits a pause is copied in one, piece by piece") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 1;
  rig.source = {{"k1", {"x"}}};
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (is<CatchFeeds>(action) && rig.fenced.empty()) rig.client_writes("k1", "y");
    if (is<ReadPiece>(action) && rig.fenced.empty()) rig.client_writes("k1", "z");
    return std::nullopt;
  };
  rig.source["k1"].payload = "x";
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.source.empty());
  CHECK(rig.target.size() == 1);
}

TEST_CASE("transfer: of a large stream the groups alone are renewed under the fence") {
  Rig rig(spec_for({"s"}));
  rig.large_payload = 5;
  rig.source = {{"s", {stream_payload("tream")}}};
  rig.until<Fence>();
  const RenewGroups renew = rig.until<RenewGroups>();
  CHECK(renew.key == "s");
  CHECK(renew.unchanged_since_ms == 77);
  CHECK(renew.pending_max == 2500);
  const std::size_t reads = rig.count<Read>() + rig.count<ReadPiece>();
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.count<Read>() + rig.count<ReadPiece>() == reads);
}

TEST_CASE("transfer: groups with too much that changed are renewed before the next fence") {
  Rig rig(spec_for({"s"}));
  rig.large_payload = 5;
  rig.source = {{"s", {stream_payload("tream")}}};
  bool is_refused = false;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<RenewGroups>(action) || std::exchange(is_refused, true)) return std::nullopt;
    return GroupsRenewed{WriteFate::Incomplete, "too many", 100'000};
  };
  rig.until<LiftFence>();
  const RenewGroups early = rig.until<RenewGroups>();
  CHECK(rig.fenced.empty());
  CHECK(early.pending_max > 1'000'000);
  rig.until<Fence>();
  CHECK(rig.until<RenewGroups>().unchanged_since_ms == 99);
  CHECK(rig.until_end().how == Finish::How::Done);
}

TEST_CASE("transfer: a value that can't be read in pieces goes whole") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 5;
  rig.source = {{"k1", {"large"}}};
  rig.unsplittable["k1"] = "it is of a module's type";
  SUBCASE("where the target can read it") {
    CHECK(rig.until_end().how == Finish::How::Done);
    CHECK(rig.target["k1"].payload == "large");
  }
  SUBCASE("else the end names it") {
    rig.is_target_older = true;
    const Finish end = rig.until_end();
    CHECK(end.how == Finish::How::Failed);
    CHECK(end.reason.find("\"k1\"") != std::string::npos);
    CHECK(end.reason.find("must not be older") != std::string::npos);
  }
}

TEST_CASE("transfer: to an older target everything goes in pieces, under the fence too") {
  Rig rig(spec_for({"k1", "k2", "s"}));
  rig.is_target_older = true;
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2", 4'000}}, {"s", {stream_payload("x")}}};
  Node before = rig.source;
  bool is_written = false;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Fence>(action) || std::exchange(is_written, true)) return std::nullopt;
    rig.client_writes("k1", "v3");
    return std::nullopt;
  };
  CHECK(rig.until_end().how == Finish::How::Done);
  before["k1"].payload = "v3";
  CHECK(rig.target == before);
  CHECK(rig.count<Write>() == 1);
}

TEST_CASE("transfer: what earlier tries and other plans left of large keys is removed") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  const std::string others = piece_key(7, "c");  // Of the same plan: it is at work.
  rig.target = {{piece_key(7, "a"), {"half"}}, {piece_key(6, "c"), {"half"}}, {others, {"half"}}};
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target == Node{{"k1", {"v1"}}, {others, {"half"}}});
}

TEST_CASE("transfer: a pause stops between two pieces, and goes on if nothing has changed") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 5;
  rig.source = {{"k1", {"large"}}};
  rig.until<WritePiece>();
  rig.wish = Wish::Pause;
  rig.step();
  const std::size_t before = rig.count<ReadPiece>();
  for (int i = 0; i < 10; ++i) rig.step();
  CHECK(rig.count<ReadPiece>() == before);
  rig.wish = Wish::Run;
  CHECK_FALSE(rig.until<WritePiece>().is_first);
  CHECK(rig.until_end().how == Finish::How::Done);
}

TEST_CASE("transfer: a lost node or feed means to copy anew, for nobody knows what was missed") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<CatchFeeds>();
  rig.lose_next(Side::Source);
  rig.step();
  rig.source.erase("k1");  // Unheard.
  rig.until<Connect>();
  const Action next = rig.step();
  REQUIRE(is<Scan>(next));
  CHECK(std::get<Scan>(next).side == Side::Target);
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
  CHECK(rig.progress().restarts == 1);
}

TEST_CASE("transfer: connecting is tried again ever more slowly, and people are told why") {
  Rig rig(spec_for({"k1"}));
  unsigned tries = 0;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Connect>(action) || ++tries > 8) return std::nullopt;
    return NodeLost{Side::Target, "connection refused"};
  };
  while (tries < 8) rig.step();
  CHECK(rig.progress().waits_for == "b: connection refused");
  CHECK(rig.now_ms > 4000);
  CHECK(rig.until_end().how == Finish::How::Done);
}

TEST_CASE("transfer: a node lost under the fence lifts it at once") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.until<Fence>();
  rig.lose_next(Side::Target);
  rig.step();
  CHECK(is<LiftFence>(rig.step()));
  CHECK(is<Connect>(rig.step()));
}

TEST_CASE("transfer: a pause copies nothing, and what changes meanwhile is not forgotten") {
  TransferSpec spec = spec_for({"k1", "k2"});
  bool is_flood = false;
  SUBCASE("a few names") {}
  SUBCASE("more than it may keep") {
    is_flood = true;
    spec.dirty_bytes = 10;
  }
  Rig rig(spec);
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<CatchFeeds>();
  rig.wish = Wish::Pause;
  rig.client_writes("k1", "newer");
  rig.client_deletes("k2");
  for (int i = 0; i < 20; ++i) CHECK(is<Wait>(rig.step()));
  CHECK(rig.progress().is_paused);
  rig.wish = Wish::Run;
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
  CHECK(rig.progress().restarts == (is_flood ? 1 : 0));
}

TEST_CASE("transfer: an abort leaves the source alone and the target clean") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  const Node before = rig.source;
  SUBCASE("before anything was copied") {}
  SUBCASE("while copying") { rig.until<Write>(); }
  SUBCASE("while paused") {
    rig.until<Write>();
    rig.wish = Wish::Pause;
    for (int i = 0; i < 3; ++i) rig.step();
  }
  SUBCASE("under the fence") { rig.until<Fence>(); }
  rig.wish = Wish::Abort;
  CHECK(rig.until_end().how == Finish::How::Aborted);
  CHECK(rig.source == before);
  CHECK(rig.target.empty());
  CHECK(rig.fenced.empty());
}

TEST_CASE("transfer: what was committed before an abort stays, and is collected") {
  TransferSpec spec = spec_for({"k1", "k2"});
  spec.group_slots = 1;
  Rig rig(spec);
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<Commit>();
  rig.wish = Wish::Abort;
  CHECK(rig.until_end().how == Finish::How::Aborted);
  CHECK(rig.source.size() == 1);
  CHECK(rig.target.size() == 1);
  CHECK(rig.source.begin()->first != rig.target.begin()->first);
}

TEST_CASE("transfer: an abort after everything was committed is too late") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.until<Commit>();
  rig.wish = Wish::Abort;
  CHECK(rig.until_end().how == Finish::How::Done);
}

TEST_CASE("transfer: an abort does not wait for a target that is gone for good") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.until<Write>();
  rig.instead = [](const Action& action) -> std::optional<Outcome> {
    if (is<Wait>(action) || is<LiftFence>(action)) return std::nullopt;
    return NodeLost{Side::Target, "connection refused"};
  };
  rig.wish = Wish::Abort;
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Aborted);
  CHECK(end.reason.find("copies may be left on b") != std::string::npos);
}

TEST_CASE("transfer: nothing is collected before the target would keep it") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.is_durable = false;
  rig.until<Commit>();
  for (int i = 0; i < 50; ++i) rig.step();
  CHECK(rig.source.contains("k1"));
  CHECK(rig.progress().phase == Phase::Keeping);
  CHECK(rig.progress().waits_for == "the next save");
  rig.is_durable = true;
  rig.until<Collected>();
  CHECK(rig.source.empty());
  CHECK(rig.progress().keys_collected == 1);
}

TEST_CASE("transfer: what earlier processes committed is vouched for, then collected") {
  TransferSpec spec = spec_for({});
  spec.kept = {{slots_of({"k1"}), 4}};
  Rig rig(spec);
  rig.source = {{"k1", {"the copy"}}};
  rig.target = {{"k1", {"newer"}}};
  rig.marker = 4;
  CHECK(is<Connect>(rig.step()));
  CHECK(is<Vouch>(rig.step()));
  CHECK(is<AskDurability>(rig.step()));
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.source.empty());
  CHECK(rig.target == Node{{"k1", {"newer"}}});
}

TEST_CASE("transfer: without the marker, a target that nobody watched is left to a human") {
  TransferSpec spec = spec_for({"k2"});
  spec.kept = {{slots_of({"k1"}), 4}};
  Rig rig(spec);
  rig.source = {{"k1", {"the copy"}}};
  rig.marker = 3;
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Failed);
  CHECK(end.reason.find("does not hold the marker") != std::string::npos);
  CHECK(rig.source.contains("k1"));
  CHECK(rig.count<Vouch>() == 0);
}

TEST_CASE("transfer: slots that a restarted target has lost go back to the source") {
  TransferSpec spec = spec_for({"k1", "k2"});
  spec.group_slots = 1;
  Rig rig(spec);
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  const Commit first = rig.until<Commit>();
  const Commit second = rig.until<Commit>();
  CHECK(second.marker > first.marker);
  rig.is_durable = false;
  rig.lose_next(Side::Target);
  rig.step();
  rig.target_run_id = "t2";
  SUBCASE("all of them") {
    rig.marker = 0;
    slots::SlotSet both = first.slots;
    both.add(second.slots);
    CHECK(rig.until<GiveBack>().slots == both);
    CHECK(rig.count<Vouch>() == 0);
  }
  SUBCASE("but not those of a commit that it still holds") {
    rig.marker = first.marker;
    CHECK(rig.until<GiveBack>().slots == second.slots);
    CHECK(rig.until<Vouch>().slots == first.slots);
  }
  CHECK(rig.source.size() == 2);
  rig.target.clear();  // And are moved again.
  rig.is_durable = true;
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.progress().slots_committed == 2);
}

TEST_CASE("transfer: a restarted target that has the marker has everything") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.is_durable = false;
  rig.until<Commit>();
  rig.lose_next(Side::Target);
  rig.step();
  rig.target_run_id = "t2";
  CHECK(rig.until<Vouch>().target_run_id == "t2");
  rig.is_durable = true;
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.count<GiveBack>() == 0);
}

TEST_CASE("transfer: a marker that got lost while the target ran proves nothing any more") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.is_durable = false;
  rig.until<Commit>();
  SUBCASE("evicted: it is put again at once") {
    rig.target_says(marker_key(7, "a"));
    const std::uint64_t number = rig.marker;
    CHECK(rig.until<PutMarker>().number == number);
  }
  SUBCASE("missing after a connection broke, the server being the same") {
    rig.marker = 0;
    rig.lose_next(Side::Target);
    rig.until<PutMarker>();
  }
  SUBCASE("it may be evicted") {
    rig.may_evict_marker = true;
    rig.lose_next(Side::Target);
    rig.until<Vouch>();
  }
  rig.lose_next(Side::Target);
  rig.step();
  rig.target_run_id = "t2";
  rig.marker = 0;
  CHECK(rig.until_end().how == Finish::How::Failed);
  CHECK(rig.count<GiveBack>() == 0);
  CHECK(rig.source.contains("k1"));
}

TEST_CASE("transfer: slots that can't be given back are left to a human") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.is_durable = false;
  rig.until<Commit>();
  rig.lose_next(Side::Target);
  rig.step();
  rig.target_run_id = "t2";
  rig.marker = 0;
  rig.instead = [](const Action& action) -> std::optional<Outcome> {
    if (!is<GiveBack>(action)) return std::nullopt;
    return NotGivenBack{"it was flushed"};
  };
  const Finish end = rig.until_end();
  CHECK(end.how == Finish::How::Failed);
  CHECK(end.reason.find("it was flushed") != std::string::npos);
  CHECK(rig.source.contains("k1"));
}

TEST_CASE("transfer: after a flush of the target nothing that the source keeps comes back") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.is_durable = false;
  rig.until<Commit>();
  rig.target_flushed();
  rig.until<Collected>();
  CHECK(rig.source.empty());
  CHECK(rig.until_end().how == Finish::How::Done);
}

TEST_CASE("transfer: a commit that may be in a broken journal ends everything as it is") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.instead = [](const Action& action) -> std::optional<Outcome> {
    if (!is<Commit>(action)) return std::nullopt;
    return NotCommitted{"the journal can't be written", true};
  };
  CHECK(rig.until_end().how == Finish::How::Failed);
  CHECK(rig.source == rig.target);
}

TEST_CASE("transfer: every try to commit has a marker of its own, newer than any the target has") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v1"}}};
  rig.marker = 12;
  bool is_refused = false;
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    if (!is<Commit>(action) || std::exchange(is_refused, true)) return std::nullopt;
    rig.fenced = {};
    return NotCommitted{"the map is being changed"};
  };
  CHECK(rig.until<PutMarker>().number == 13);
  CHECK(rig.until<PutMarker>().number == 14);
  CHECK(rig.until_end().how == Finish::How::Done);
}

}  // namespace proxy::mover
