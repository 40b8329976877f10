// Transfer and numbered databases: feeds name keys without them, and new ones come into use.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "tests/support/transfer_rig.h"

namespace proxy::mover {

using namespace transfer_rig;

TEST_CASE("transfer: keys of the slots change sides in all databases") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v"}}, {"3>k1", {"of 3", 5000}}, {"9>k2", {"of 9"}}, {"9>other", {"o"}}};
  rig.target = {{"3>k2", {"left behind"}}, {"5>k1", {"left behind"}}, {"5>theirs", {"t"}}};
  CHECK(rig.until_end().how == Finish::How::Done);
  CHECK(rig.target ==
        Node{{"k1", {"v"}}, {"3>k1", {"of 3", 5000}}, {"9>k2", {"of 9"}}, {"5>theirs", {"t"}}});
  CHECK(rig.source == Node{{"9>other", {"o"}}});
}

TEST_CASE("transfer: a name that changes is copied again in every database in use") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v"}}, {"3>k1", {"of 3"}}, {"9>k1", {"of 9"}}, {"9>k2", {"v"}}};
  rig.until<CatchFeeds>();
  rig.client_writes("3>k1", "newer");
  rig.client_deletes("9>k1");
  SUBCASE("while catching up") {}
  SUBCASE("the last moment before the fence holds") { rig.until<Fence>(); }
  rig.client_writes("9>k2", "newer too");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a database that comes into use while slots move is found") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}};
  SUBCASE("before anything was copied, and its key was heard of too early") {
    rig.until<Connect>();
    rig.client_writes("5>k2", "v");
  }
  SUBCASE("in the pass, and its key is copied where it is not before the database is known") {
    rig.until<Read>();
    rig.client_writes("5>k2", "v");
  }
  SUBCASE("later") {
    rig.until<CatchFeeds>();
    rig.client_writes("5>k2", "v");
  }
  SUBCASE("the last moment before the fence holds") {
    rig.until<Fence>();
    rig.client_writes("5>k2", "v");
    rig.until<LiftFence>();
  }
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: what lies at the target in a database that comes into use is removed") {
  Rig rig(spec_for({"k1", "k2"}));
  rig.source = {{"k1", {"v1"}}};
  rig.until<CatchFeeds>();
  rig.target["5>k2"] = {"a stray"};
  rig.target_says("k2");
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: names whose copies are not all made in one step are not forgotten") {
  TransferSpec spec = spec_for({"{t}"});
  spec.batch_keys = 3;
  Rig rig(spec);
  for (Database database : {0U, 2U, 7U}) {
    for (int i = 0; i < 5; ++i) rig.source[in(database, "{t}" + std::to_string(i))] = {"old"};
  }
  rig.instead = [&](const Action& action) -> std::optional<Outcome> {
    const Read* read = std::get_if<Read>(&action);
    if (read == nullptr) return std::nullopt;
    const std::string& name = read->keys[0];
    const auto found = rig.source.find(in(read->database, name));
    if (found == rig.source.end()) return ReadDone{{{.name = name, .payload = {}}}};
    return ReadDone{{{name, true, found->second.payload, -1}}};
  };
  rig.until<CatchFeeds>();
  for (Database database : {0U, 2U, 7U}) {
    for (int i = 0; i < 5; ++i)
      rig.client_writes(in(database, "{t}" + std::to_string(i)), "new " + std::to_string(database));
  }
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: a name may be large in one database and small in another") {
  Rig rig(spec_for({"k1"}));
  rig.large_payload = 10;
  rig.source = {{"k1", {"small"}}, {"3>k1", {"a large value"}}};
  rig.until<CatchFeeds>();
  rig.client_writes("k1", "changed");
  SUBCASE("alone") {}
  SUBCASE("and the large one too") { rig.client_writes("3>k1", "another large value"); }
  rig.until<Commit>();
  CHECK(rig.target == rig.source);
}

TEST_CASE("transfer: with several databases a flush of the target does not cost the kept copies") {
  Rig rig(spec_for({"k1"}));
  rig.source = {{"k1", {"v"}}, {"3>k1", {"of 3"}}};
  rig.is_durable = false;
  rig.until<AskDurability>();
  rig.target.erase("3>k1");
  rig.target_says("k1");
  rig.target_flushed();
  rig.target = {{"k1", {"v"}}};
  for (int i = 0; i < 20; ++i) rig.step();
  CHECK(rig.source.size() == 2);
  SUBCASE("and they are collected once it is durable") {
    rig.is_durable = true;
    CHECK(rig.until_end().how == Finish::How::Done);
    CHECK(rig.source.empty());
  }
  SUBCASE("and a human judges when it loses its marker") {
    rig.lose_next(Side::Target);
    rig.target_run_id = "t2";
    rig.marker = 0;
    CHECK(rig.until_end().how == Finish::How::Failed);
    CHECK(rig.source.size() == 2);
  }
}

}  // namespace proxy::mover
