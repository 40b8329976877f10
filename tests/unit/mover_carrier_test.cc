// Carrier: single actions against real redis-servers.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "proxy/mover/carrier.h"
#include "tests/support/carrier_rig.h"

namespace proxy::mover {
namespace {

using namespace std::chrono_literals;

using tests::kSource;
using tests::kTarget;
using Rig = tests::CarrierRig;

TEST_CASE("what is read on one node and written to the other is the same, expiry too") {
  Rig rig;
  rig.ask(kSource, {"SET", "plain", "1"});
  rig.ask(kSource, {"SET", "timed", "2", "PXAT", "4102444800123"});
  rig.ask(kTarget, {"SET", "gone", "old"});
  const ReadDone read = rig.act<ReadDone>(Read{{"plain", "gone", "timed"}});
  REQUIRE(read.values.size() == 3);
  CHECK(read.values[0].exists);
  CHECK(read.values[0].expire_at_ms == -1);
  CHECK_FALSE(read.values[1].exists);
  CHECK(read.values[2].expire_at_ms == 4102444800123);
  CHECK(rig.act<WriteDone>(Write{read.values}).failures.empty());
  CHECK(rig.ask(kTarget, {"MGET", "plain", "gone", "timed"}) == "1 (nil) 2 ");
  CHECK(rig.ask(kTarget, {"PEXPIRETIME", "timed"}) == "4102444800123");
  CHECK(rig.ask(kTarget, {"PEXPIRETIME", "plain"}) == "-1");
  CHECK(rig.event.target.keys == std::vector<std::string>{"gone"});  // Not what the mover wrote.
}

TEST_CASE("a value that expired on its way removes the older copy") {
  Rig rig;
  rig.ask(kTarget, {"SET", "k", "old"});
  rig.ask(kSource, {"SET", "k", "new"});
  std::vector<KeyValue> values = rig.act<ReadDone>(Read{{"k"}}).values;
  values[0].expire_at_ms = 1;
  CHECK(rig.act<WriteDone>(Write{values}).failures.empty());
  CHECK(rig.ask(kTarget, {"EXISTS", "k"}) == "0");
}

TEST_CASE("a large copy over a large one, and a removed one, leave what the source has") {
  Rig rig;
  rig.ask(kSource, {"SET", "k", std::string(100'000, 'n')});
  rig.ask(kTarget, {"RPUSH", "k", "old"});
  CHECK(rig.act<WriteDone>(Write{rig.act<ReadDone>(Read{{"k"}}).values}).failures.empty());
  CHECK(rig.ask(kTarget, {"STRLEN", "k"}) == "100000");
}

TEST_CASE("a step holds as many keys as fit into it, and at least one") {
  Rig rig;
  for (const char* key : {"1", "2", "3"}) rig.ask(kSource, {"SET", key, std::string(150'000, 'x')});
  CHECK(rig.act<ReadDone>(Read{{"1", "2", "3"}}).values.size() == 1);
  rig.ask(kSource, {"SET", "2", "small"});
  CHECK(rig.act<ReadDone>(Read{{"1", "2", "3"}}).values.size() == 2);
}

TEST_CASE("why a write fails is told for each value") {
  Rig rig;
  rig.ask(kSource, {"SET", "k", "1"});
  std::vector<KeyValue> values = rig.act<ReadDone>(Read{{"k", "nothing", "k"}}).values;
  values[2].payload.back() = static_cast<char>(values[2].payload.back() + 1);
  WriteDone done = rig.act<WriteDone>(Write{values});
  REQUIRE(done.failures.size() == 1);
  CHECK(done.failures[0].index == 2);
  CHECK(done.failures[0].fate == WriteFate::TooNew);
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory", "1"});
  done = rig.act<WriteDone>(Write{values});
  REQUIRE(done.failures.size() == 2);
  CHECK(done.failures[0].fate == WriteFate::OutOfMemory);
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory", "0"});
  rig.ask(kTarget, {"CONFIG", "SET", "min-replicas-to-write", "1"});
  done = rig.act<WriteDone>(Write{{values[0]}});
  REQUIRE(done.failures.size() == 1);
  CHECK(done.failures[0].fate == WriteFate::NotNow);
  CHECK(done.failures[0].text.starts_with("NOREPLICAS"));
}

TEST_CASE("CatchFeeds tells all that was acknowledged before, of both nodes") {
  Rig rig;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(i);
    rig.ask(kSource, {"SET", key, "1"});
    rig.ask(kTarget, {"SET", key, "1"});
    rig.act<Caught>(CatchFeeds{});
    CHECK(rig.event.source.keys == std::vector{key});
    CHECK(rig.event.target.keys == std::vector{key});
  }
  rig.ask(kTarget, {"FLUSHALL"});
  rig.act<Caught>(CatchFeeds{});
  CHECK(rig.event.target.all);
}

TEST_CASE("a scan names every key, a removal removes them") {
  Rig rig;
  rig.ask(kSource, {"EVAL", "for i = 1, 2000 do redis.call('SET', i, i) end", "0"});
  std::uint64_t cursor = 0;
  std::vector<std::string> keys;
  do {
    Scanned scanned = rig.act<Scanned>(Scan{Side::Source, cursor, 100});
    cursor = scanned.cursor;
    std::ranges::move(scanned.keys, std::back_inserter(keys));
  } while (cursor != 0);
  std::erase(keys, "__slotproxy:identity");
  CHECK(keys.size() >= 2000);
  rig.act<Removed>(Remove{Side::Source, keys});
  CHECK(rig.ask(kSource, {"DBSIZE"}) == "1");
  CHECK(rig.event.source.keys.empty());
}

TEST_CASE("a marker is found again, with its number") {
  Rig rig;
  rig.act<MarkerPut>(PutMarker{3});
  CHECK(rig.act<Connected>(Connect{}).marker == 3);
  rig.ask(kTarget, {"DEL", marker_key(7, "a")});
  rig.act<Caught>(CatchFeeds{});
  CHECK(rig.event.target.keys == std::vector{marker_key(7, "a")});
  CHECK_FALSE(rig.act<Connected>(Connect{}).may_evict_marker);
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory", "1gb"});
  CHECK(rig.act<Connected>(Connect{}).may_evict_marker);
}

TEST_CASE("a commit that comes after the pause limit is refused, and the fence is lifted") {
  Rig rig;
  const slots::SlotSet slots(slots::SlotRange{0, 63});
  rig.act<Fenced>(Fence{.slots = slots, .limit_ms = 1000});
  rig.act<Committed>(Commit{.slots = slots, .marker = 1, .target_run_id = {}});
  CHECK(rig.host.lifted == 0);
  rig.act<Fenced>(Fence{.slots = slots, .limit_ms = 0});
  CHECK_FALSE(
      rig.act<NotCommitted>(Commit{.slots = slots, .marker = 1, .target_run_id = {}}).is_fatal);
  CHECK(rig.host.lifted == 1);
  rig.act<Lifted>(LiftFence{});
  CHECK(rig.host.lifted == 1);
  CHECK(rig.host.commits == 1);
  CHECK(rig.carrier.take_pauses().size() == 2);
}

TEST_CASE(
    "a feed that ends is told by a wait, with what it said before, and the fence goes with it") {
  Rig rig;
  rig.act<Fenced>(Fence{.slots = slots::SlotSet(slots::SlotRange{0, 63}), .limit_ms = 10'000});
  rig.ask(kSource, {"SET", "last words", "1"});
  rig.servers.end_clients(kSource, "slotproxy:test:now");
  CHECK(rig.act<NodeLost>(Wait{1000}).side == Side::Source);
  CHECK(rig.event.source.keys == std::vector<std::string>{"last words"});
  CHECK(rig.host.lifted == 1);
  rig.act<Waited>(Wait{1});
  rig.act<Connected>(Connect{});
  rig.act<Caught>(CatchFeeds{});
}

TEST_CASE("a wait ends early when a feed speaks") {
  Rig rig;
  rig.ask(kTarget, {"SET", "k", "1"});
  const auto begin = NodeLink::Clock::now();
  rig.act<Waited>(Wait{60'000});
  CHECK(NodeLink::Clock::now() - begin < 10s);
  CHECK(rig.event.target.keys == std::vector<std::string>{"k"});
}

TEST_CASE(
    "durability of a node that keeps nothing is the grace time's affair, of one with AOF its") {
  Rig rig;
  rig.act<MarkerPut>(PutMarker{1});
  CHECK(rig.act<Durability>(AskDurability{}).is_durable);
  rig.ask(kTarget, {"CONFIG", "SET", "save", "3600 1"});
  Durability durability = rig.act<Durability>(AskDurability{});
  CHECK(durability.waits_for == "b: its RDB file to be saved");
  while (!rig.act<Durability>(AskDurability{}).is_durable) rig.act<Waited>(Wait{5});
  CHECK(rig.ask(kTarget, {"INFO", "persistence"}).find("rdb_changes_since_last_save:0\r") !=
        std::string::npos);
  rig.ask(kTarget, {"CONFIG", "SET", "appendonly", "yes"});
  CHECK(rig.act<Durability>(AskDurability{}).waits_for.find("AOF") != std::string::npos);
}

}  // namespace
}  // namespace proxy::mover
