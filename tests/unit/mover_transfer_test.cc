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
        done.values.push_back({key, false, "", -1});
      } else {
        done.values.push_back({key, true, found->second.payload, found->second.expire_at_ms});
      }
    }
    return done;
  }
  Outcome carry_out(const Write& write) {
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
  CHECK(rig.progress().keys_copied == 2);
  CHECK(rig.progress().phase == Phase::Ended);
}

TEST_CASE("transfer: what changes after it was copied is copied again, until the commit") {
  Rig rig(spec_for({"k1", "k2", "k3"}));
  rig.source = {{"k1", {"v1"}}, {"k2", {"v2"}}};
  rig.until<Write>();
  rig.client_writes("k1", "newer");
  rig.client_deletes("k2");
  rig.until<Fence>();
  rig.client_writes("k3", "the last one before the fence held");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

}  // namespace proxy::mover
