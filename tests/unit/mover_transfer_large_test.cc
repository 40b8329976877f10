// Transfer and values that are too large for one payload, or that the target can't read whole.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/transfer_rig.h"

namespace proxy::mover {

using namespace transfer_rig;

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

}  // namespace proxy::mover
