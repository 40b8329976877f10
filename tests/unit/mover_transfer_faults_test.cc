// Transfer: lost nodes, pauses and aborts, what earlier processes left, and the marker.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/transfer_rig.h"

namespace proxy::mover {

using namespace transfer_rig;

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
