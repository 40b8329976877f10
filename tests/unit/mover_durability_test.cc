#include <doctest/doctest.h>

#include <string>

#include "proxy/mover/durability.h"

namespace proxy::mover {
namespace {

using namespace std::chrono_literals;

PersistenceFacts facts_of(const std::string& persistence, const std::string& replication = "",
                          const std::string& save = "",
                          const std::string& appendfsync = "everysec") {
  return parse_persistence(persistence, replication, save, appendfsync);
}

const std::string kSettled = "rdb_bgsave_in_progress:0\r\nrdb_last_bgsave_status:ok\r\n";
const std::string kSaving = "rdb_bgsave_in_progress:1\r\nrdb_last_bgsave_status:ok\r\n";
const std::string kSaveFailed = "rdb_bgsave_in_progress:0\r\nrdb_last_bgsave_status:err\r\n";
const std::string kAof = "aof_enabled:1\r\naof_last_write_status:ok\r\naof_pending_bio_fsync:0\r\n";

bool is_durable(DurabilityWatch& watch, const PersistenceFacts& facts, std::uint64_t now_ms) {
  return watch.judge(facts, now_ms).durability.is_durable;
}

TEST_CASE("an AOF is enough once it is synced and two seconds have gone since the marker") {
  DurabilityWatch watch(10s);
  watch.on_marker(1000);
  CHECK_FALSE(is_durable(watch, facts_of(kAof), 2999));
  CHECK(is_durable(watch, facts_of(kAof), 3000));
  CHECK_FALSE(is_durable(watch,
                         facts_of("aof_enabled:1\r\naof_last_write_status:ok\r\n"
                                  "aof_pending_bio_fsync:1\r\n"),
                         99'000));
  const auto verdict = watch.judge(facts_of("aof_enabled:1\r\naof_last_write_status:err\r\n"
                                            "aof_pending_bio_fsync:0\r\n"),
                                   99'000);
  CHECK_FALSE(verdict.durability.is_durable);
  CHECK(verdict.durability.waits_for == "its AOF can't be written");
}

TEST_CASE("a marker that is written again starts the wait anew") {
  DurabilityWatch watch(10s);
  watch.on_marker(1000);
  watch.on_marker(2500);
  CHECK_FALSE(is_durable(watch, facts_of(kAof), 4000));
  CHECK(is_durable(watch, facts_of(kAof), 4500));
}

TEST_CASE("an AOF that is never synced on purpose counts as none") {
  DurabilityWatch watch(10s);
  watch.on_marker(0);
  CHECK_FALSE(is_durable(watch, facts_of(kAof, "", "", "no"), 9'999));
  CHECK(is_durable(watch, facts_of(kAof, "", "", "no"), 10'000));
}

TEST_CASE("a replica is enough once it has what was there when it was first asked") {
  const auto replicas = [](const std::string& offset, const std::string& state, int master) {
    return facts_of(kSettled, "connected_slaves:1\r\nslave0:ip=::1,port=1,state=" + state +
                                  ",offset=" + offset + ",lag=0\r\nmaster_repl_offset:" +
                                  std::to_string(master) + "\r\n");
  };
  DurabilityWatch watch(60s);
  watch.on_marker(0);
  CHECK_FALSE(is_durable(watch, replicas("99", "online", 100), 10));
  CHECK_FALSE(is_durable(watch, replicas("99", "online", 500), 20));
  CHECK_FALSE(is_durable(watch, replicas("600", "send_bulk", 600), 30));
  CHECK(is_durable(watch, replicas("100", "online", 600), 40));
}

TEST_CASE("with save points a save is asked for once, and its end awaited") {
  DurabilityWatch watch(10s);
  watch.on_marker(0);
  auto verdict = watch.judge(facts_of(kSettled, "", "3600 1"), 10);
  CHECK(verdict.wants_save);
  CHECK_FALSE(verdict.durability.is_durable);
  watch.on_save("+Background saving started\r\n", 10);
  verdict = watch.judge(facts_of(kSaving, "", "3600 1"), 20);
  CHECK_FALSE(verdict.wants_save);
  CHECK_FALSE(verdict.durability.is_durable);
  CHECK(is_durable(watch, facts_of(kSettled, "", "3600 1"), 30));
}

TEST_CASE("a save that was under way before the marker does not count, nor one that fails") {
  DurabilityWatch watch(10s);
  watch.on_marker(0);
  CHECK(watch.judge(facts_of(kSaving, "", "3600 1"), 10).wants_save);
  watch.on_save("-ERR Background save already in progress\r\n", 10);
  CHECK_FALSE(watch.judge(facts_of(kSettled, "", "3600 1"), 20).wants_save);
  CHECK(watch.judge(facts_of(kSettled, "", "3600 1"), 1010).wants_save);
  watch.on_save("+Background saving started\r\n", 1010);
  auto verdict = watch.judge(facts_of(kSaveFailed, "", "3600 1"), 1500);
  CHECK_FALSE(verdict.durability.is_durable);
  CHECK(verdict.durability.waits_for.find("failed") != std::string::npos);
  CHECK(watch.judge(facts_of(kSaveFailed, "", "3600 1"), 2500).wants_save);
  watch.on_save("+Background saving started\r\n", 2500);
  watch.on_marker(2600);  // Written again, behind the save's snapshot.
  CHECK_FALSE(is_durable(watch, facts_of(kSettled, "", "3600 1"), 2700));
}

TEST_CASE("where nothing is configured, or nobody may ask, the grace time stands for it") {
  DurabilityWatch watch(2s);
  watch.on_marker(1000);
  const auto verdict = watch.judge(facts_of(kSettled), 1500);
  CHECK_FALSE(verdict.durability.is_durable);
  CHECK(verdict.durability.waits_for == "the grace time: 2 s more");
  CHECK(is_durable(watch, facts_of(kSettled), 3000));

  DurabilityWatch unasked(2s);
  unasked.on_marker(1000);
  CHECK(unasked.judge(facts_of(kSettled, "", "3600 1"), 1000).wants_save);
  unasked.on_save("-NOPERM this user has no permissions\r\n", 1000);
  CHECK_FALSE(is_durable(unasked, facts_of(kSettled, "", "3600 1"), 2999));
  CHECK(is_durable(unasked, facts_of(kSettled, "", "3600 1"), 3000));
}

}  // namespace
}  // namespace proxy::mover
