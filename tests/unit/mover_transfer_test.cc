// Transfer, step by step: what it does in which order, and what it makes of a target that refuses.
// The simulation (tests/sim) has the interleavings; here are the rules.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/transfer_rig.h"

namespace proxy::mover {

using namespace transfer_rig;

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

}  // namespace proxy::mover
