// The mover from end to end: real redis-servers, and writers that keep the rules which a proxy's
// workers keep.
#include "proxy/mover/mover.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "slots/key_slot.h"
#include "tests/support/local_servers.h"

namespace proxy::mover {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr std::size_t kSource = 0;
constexpr std::size_t kTarget = 1;
constexpr std::size_t kReference = 2;  // Gets every write too, and is never moved.

Words split(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// A proxy in small: who owns what, writers that wait at a fence, and what the mover asks for.
class World final : public MoveHost {
 public:
  tests::LocalServers servers{3};
  MoverCommons commons;
  TransferSpec spec;
  std::atomic<Wish> wished = Wish::Run;
  std::function<void()> on_fence = [] {};
  std::vector<std::uint64_t> lost_client_ids;  // To be told by the next fence.

  World() {
    spec.plan = 7;
    spec.source = "a";
    spec.target = "b";
    spec.slots.add(slots::SlotRange{0, 8191});
  }

  // --- clients

  // A command of one key, as a worker would send it: it waits at a fence.
  void write(const Words& words, std::size_t key_at = 1) {
    const slots::SlotId slot = slots::slot_of_key(words[key_at]);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !fenced_.contains(slot); });
    ask(owner_of(slot), words);
    ask(kReference, words);
  }
  std::string ask(std::size_t server, const Words& words) {
    return servers.ask(server, std::vector<std::string_view>(words.begin(), words.end()));
  }
  [[nodiscard]] std::size_t owner_of(slots::SlotId slot) const {
    return moved_.contains(slot) ? kTarget : kSource;
  }

  // --- the mover

  // Starts it; finish() waits until it has ended.
  void start(conf::Milliseconds grace = 100ms) {
    CarrierOptions options;
    options.spec = spec;
    options.link.name_prefix = "slotproxy:test:";
    options.link.incarnation = "now";
    // A busy machine is no silent server.
    options.link.connect_timeout = options.link.silence = 60s;
    options.grace = grace;
    mover_ = std::make_unique<Mover>(options, *this, commons, [this](std::optional<Finish> finish) {
      const std::lock_guard lock(mutex_);
      finish_ = std::move(finish);
      has_ended_ = true;
      changed_.notify_all();
    });
    mover_->start();
  }
  bool wait_for(const std::function<bool()>& condition, Clock::duration patience = 120s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, condition);
  }
  std::optional<Finish> finish() {
    REQUIRE(wait_for([this] { return has_ended_; }));
    mover_->join();
    return finish_;
  }
  std::optional<Finish> stop() {
    mover_->stop();
    return finish();
  }
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  [[nodiscard]] const Progress& progress() const { return progress_; }
  [[nodiscard]] const std::vector<std::uint32_t>& pauses_us() const { return pauses_us_; }
  [[nodiscard]] std::size_t lifted() const { return lifted_; }
  [[nodiscard]] bool is_fenced() const { return !fenced_.empty(); }
  [[nodiscard]] const slots::SlotSet& collected() const { return collected_; }

 private:
  slots::Result<FenceGrant> fence(const slots::SlotSet& slots, const std::string&,
                                  conf::Milliseconds) override {
    {
      const std::lock_guard lock(mutex_);  // No write is under way.
      fenced_ = slots;
    }
    on_fence();
    return FenceGrant{.lost_client_ids = std::exchange(lost_client_ids, {})};
  }
  void lift_fence() override {
    ++lifted_;
    let_go();
  }
  slots::Result<slots::Epoch> commit(std::uint64_t, const slots::SlotSet& slots, const std::string&,
                                     const std::string&, std::uint64_t,
                                     const std::string&) override {
    const std::lock_guard lock(mutex_);
    CHECK(fenced_ == slots);
    moved_.add(slots);
    fenced_ = {};
    changed_.notify_all();
    return 2;
  }
  slots::Status vouch(std::uint64_t, const slots::SlotSet&, const std::string&,
                      const std::string&) override {
    return {};
  }
  slots::Result<slots::Epoch> give_back(std::uint64_t, const slots::SlotSet&, const std::string&,
                                        const std::string&) override {
    return slots::fail(slots::Errc::Conflict, "nothing is lost here");
  }
  slots::Status note_collected(std::uint64_t, const slots::SlotSet& slots,
                               const std::string&) override {
    const std::lock_guard lock(mutex_);
    collected_.add(slots);
    return {};
  }
  Wish wish(std::uint64_t) override { return wished; }
  slots::Result<NodeAccess> access(const std::string& node) override {
    return servers.access(node == "a" ? kSource : kTarget);
  }
  void report(std::uint64_t, const std::string&, const std::string&,
              const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    pauses_us_.insert(pauses_us_.end(), progress.pauses_us.begin(), progress.pauses_us.end());
    changed_.notify_all();
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    fenced_ = {};
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  slots::SlotSet fenced_;
  slots::SlotSet moved_;
  slots::SlotSet collected_;
  std::size_t lifted_ = 0;
  Progress progress_;
  std::vector<std::uint32_t> pauses_us_;
  bool has_ended_ = false;
  std::optional<Finish> finish_;
  std::unique_ptr<Mover> mover_;
};

std::string in_one_second() {
  const auto now = std::chrono::system_clock::now() + 1s;
  return std::to_string(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
}

// Writes of all types that have the same effect wherever and a little later.
class Writer {
 public:
  explicit Writer(World& world) : world_(world) {}

  void write_once() {
    const std::string n = std::to_string(random_() % 400);
    const std::string v = std::to_string(random_() % 50);
    const std::string id = std::to_string(++last_id_);
    const std::string later = "4102444800" + std::to_string(100 + random_() % 900);
    switch (random_() % 22) {
      case 0:
        return world_.write({"SET", "string" + n, std::string(random_() % 3000, 'x')});
      case 1:
        return world_.write({"APPEND", "string" + n, v});
      case 2:
        return world_.write({"SETRANGE", "string" + n, "10", v});
      case 3:
        return world_.write({"DEL", "string" + n});
      case 4:
        return world_.write({"INCR", "counter" + n});
      case 5:
        return world_.write({"PEXPIREAT", "counter" + n, later});
      case 6:
        return world_.write({"PERSIST", "counter" + n});
      case 7:
        return world_.write({"HSET", "hash" + n, v, id});
      case 8:
        return world_.write({"HDEL", "hash" + n, v});
      case 9:
        return world_.write({"PEXPIREAT", "hash" + n, later});
      case 10:
        return world_.write({"RPUSH", "list" + n, id});
      case 11:
        return world_.write({"LPOP", "list" + n});
      case 12:
        return world_.write({"SADD", "set" + n, v});
      case 13:
        return world_.write({"SREM", "set" + n, v});
      case 14:
        return world_.write({"ZADD", "zset" + n, id, v});
      case 15:
        return world_.write({"ZREM", "zset" + n, v});
      case 16:
        return world_.write({"XADD", "stream" + n, id, "f", v});
      // What follows changes a stream without any notice of it.
      case 17:
        return world_.write({"XGROUP", "CREATE", "stream" + n, "g", "0", "MKSTREAM"}, 2);
      case 18:
        return world_.write(
            {"XREADGROUP", "GROUP", "g", "c" + v, "COUNT", "3", "STREAMS", "stream" + n, ">"}, 7);
      case 19:
        return world_.write({"XACK", "stream" + n, "g", std::to_string(random_() % last_id_)});
      case 20:
        return world_.write({"SET", "short" + n, v, "PXAT", in_one_second()});
      default:
        return world_.write({"DEL", "short" + n});
    }
  }

 private:
  World& world_;
  std::mt19937_64 random_{7};
  std::uint64_t last_id_ = 0;
};

// Writes until it goes.
class WritingThread {
 public:
  explicit WritingThread(World& world)
      : thread_([this, &world] {
          Writer writer(world);
          for (int i = 0; i < 5000; ++i) writer.write_once();
          has_begun_ = true;
          has_begun_.notify_all();
          while (!is_over_) {
            writer.write_once();
            ++written_;
          }
        }) {
    has_begun_.wait(false);
  }
  ~WritingThread() {
    is_over_ = true;
    thread_.join();
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  std::atomic<bool> has_begun_ = false;
  std::atomic<bool> is_over_ = false;
  std::atomic<std::uint64_t> written_ = 0;
  std::thread thread_;
};

// All that a client could find out about each key, in short.
std::map<std::string, std::string> describe(World& world, std::size_t server) {
  const Words words = split(world.ask(server, {"EVAL", R"(
    local all = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      local type = redis.call('TYPE', key).ok
      local content
      if type == 'string' then content = {redis.sha1hex(redis.call('GET', key))} end
      if type == 'list' then content = redis.call('LRANGE', key, 0, -1) end
      if type == 'hash' then content = redis.call('HGETALL', key) table.sort(content) end
      if type == 'set' then content = redis.call('SMEMBERS', key) table.sort(content) end
      if type == 'zset' then content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
      if type == 'stream' then
        local groups = redis.call('XINFO', 'GROUPS', key)
        content = {redis.call('XRANGE', key, '-', '+'), groups}
        if #groups > 0 then content[3] = redis.call('XPENDING', key, 'g') end
      end
      table.insert(all, key)
      table.insert(all, type .. ':' .. redis.call('PEXPIRETIME', key) .. ':' ..
                        redis.sha1hex(cjson.encode(content)))
    end
    return all)",
                                               "0"}));
  std::map<std::string, std::string> keys;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) keys[words[i]] = words[i + 1];
  keys.erase("__slotproxy:identity");
  return keys;
}

// Each node holds what it owns, as the reference does, and nothing else.
void check_equal(World& world) {
  // Two servers need not expire a key in the same instant.
  while (!world.ask(kReference, {"KEYS", "short*"}).empty()) std::this_thread::yield();
  const auto expected = describe(world, kReference);
  std::size_t count = 0;
  for (const std::size_t server : {kSource, kTarget}) {
    for (const auto& [key, found] : describe(world, server)) {
      CAPTURE(key);
      CAPTURE(server);
      CHECK(world.owner_of(slots::slot_of_key(key)) == server);
      const auto right = expected.find(key);
      CHECK(found == (right == expected.end() ? "nothing" : right->second));
      ++count;
    }
  }
  CHECK(count == expected.size());
}

// Values that do not compress, so that a byte of them is a byte on the wire.
void fill(World& world, int keys, std::size_t bytes) {
  const std::string script =
      "for i = 1, ARGV[1] do local at = (i * 7919) % (#ARGV[3] - ARGV[2]) "
      "redis.call('SET', 'key' .. i, string.sub(ARGV[3], at + 1, at + ARGV[2])) end";
  std::mt19937_64 random(7);
  std::string noise(100'000, ' ');
  for (char& c : noise) c = static_cast<char>(random());
  for (const std::size_t server : {kSource, kReference}) {
    world.ask(server, {"EVAL", script, "0", std::to_string(keys), std::to_string(bytes), noise});
  }
}

TEST_CASE("slots move with all types, expiry and groups while clients write, and nobody notices") {
  World world;
  fill(world, 5000, 100);
  {
    const WritingThread writer(world);
    world.start();
    REQUIRE(world.finish().has_value());
    CHECK(world.finish()->how == Finish::How::Done);
    CHECK(writer.written() > 100);
  }
  CHECK(world.progress().phase == Phase::Ended);
  CHECK(world.progress().slots_committed == 8192);
  CHECK(world.progress().keys_copied > 2500);
  CHECK(world.progress().wire_bytes > 2500 * 100);
  CHECK(world.progress().restarts == 0);
  CHECK(world.pauses_us().size() >= 8192 / world.spec.group_slots);
  CHECK(world.collected() == world.spec.slots);
  check_equal(world);
}

TEST_CASE("slots move in all databases, one that comes into use meanwhile too") {
  const std::string set =
      "redis.call('SELECT', ARGV[1]) return redis.call('SET', KEYS[1], ARGV[2])";
  const std::string get = "redis.call('SELECT', ARGV[1]) return redis.call('GET', KEYS[1])";
  constexpr int kKeys = 600;
  const auto key = [](int i) { return "key" + std::to_string(i); };
  World world;
  for (int i = 0; i < kKeys; ++i) {
    world.write({"SET", key(i), std::string(100, 'x')});
    world.write({"EVAL", set, "1", key(i), "3", "of 3"}, 3);
  }
  world.commons.pacers.of("a")->set_limits({1'000'000}, 0);
  world.start();
  int value = 0;
  const auto has_ended = [&] { return world.has_ended(); };
  for (; !world.wait_for(has_ended, 0s) && value < 100'000; ++value) {
    const char* databases[] = {"0", "3", "11"};
    world.write({"EVAL", set, "1", key(value % kKeys), databases[value % 3], std::to_string(value)},
                3);
    if (value == 1000) world.commons.pacers.of("a")->set_limits({Pacer::kUnlimited}, 0);
  }
  CHECK(world.finish()->how == Finish::How::Done);
  CHECK(value > 300);
  for (int i = 0; i < kKeys; ++i) {
    const std::size_t owner = world.owner_of(slots::slot_of_key(key(i)));
    for (const char* database : {"0", "3", "11"}) {
      CAPTURE(key(i));
      CAPTURE(database);
      const Words asked = {"EVAL", get, "1", key(i), database};
      CHECK(world.ask(owner, asked) == world.ask(kReference, asked));
      if (owner == kTarget) CHECK(world.ask(kSource, asked) == "(nil)");
    }
  }
}

TEST_CASE("a feed that breaks is noticed, and copying begins anew") {
  World world;
  fill(world, 8000, 100);
  world.commons.pacers.of("a")->set_limits({1'500'000}, 0);  // The writer's notices count, too.
  {
    const WritingThread writer(world);
    world.start();
    REQUIRE(world.wait_for([&] { return world.progress().keys_copied > 500; }));
    world.servers.end_clients(kSource, "slotproxy:test:now");
    world.commons.pacers.of("a")->set_limits({Pacer::kUnlimited}, 0);
    CHECK(world.finish()->how == Finish::How::Done);
  }
  CHECK(world.progress().restarts == 1);
  check_equal(world);
}

TEST_CASE("a target that hangs under a fence: clients go on at the pause limit") {
  World world;
  fill(world, 1000, 100);
  std::thread later;
  std::atomic<bool> is_first = true;
  world.on_fence = [&] {
    if (!is_first.exchange(false)) return;
    world.servers.pause(kTarget);
    later = std::thread([&world] {
      // These wait at the fence. Were it not lifted, the target would hang for good.
      for (int i = 1; i <= 1000; ++i) world.write({"APPEND", "key" + std::to_string(i), "more"});
      world.servers.go_on(kTarget);
    });
  };
  world.start();
  CHECK(world.finish()->how == Finish::How::Done);
  later.join();
  CHECK(world.lifted() >= 1);
  CHECK(world.progress().restarts == 0);
  REQUIRE_FALSE(world.pauses_us().empty());
  CHECK(world.pauses_us().front() >= 49'000);
  check_equal(world);
}

TEST_CASE("a fence that left connections behind ends them at the source") {
  World world;
  fill(world, 100, 100);
  const std::string id = world.ask(kSource, {"CLIENT", "ID"});
  tests::LocalServers::Connection stale = world.servers.connect(kSource);
  const std::string stale_id = tests::LocalServers::ask(*stale, {"CLIENT", "ID"});
  world.lost_client_ids = {std::stoull(stale_id), 1'000'000};
  world.start();
  CHECK(world.finish()->how == Finish::How::Done);
  CHECK(world.ask(kSource, {"CLIENT", "LIST"}).find("id=" + stale_id + " ") == std::string::npos);
  CHECK(world.ask(kSource, {"CLIENT", "ID"}) == id);
}

TEST_CASE("while paused no byte moves, and an abort leaves the source as it was") {
  World world;
  fill(world, 4000, 100);
  world.commons.pacers.of("a")->set_limits({300'000}, 0);
  world.start();
  REQUIRE(world.wait_for([&] { return world.progress().keys_copied > 500; }));
  world.wished = Wish::Pause;
  REQUIRE(world.wait_for([&] { return world.progress().is_paused; }));
  const std::uint64_t bytes = world.progress().wire_bytes;
  const std::uint64_t keys = world.progress().keys_copied;
  std::size_t reports = 0;
  REQUIRE(world.wait_for([&] { return ++reports > 3; }));
  CHECK(world.progress().wire_bytes == bytes);
  CHECK(world.progress().keys_copied == keys);
  world.commons.pacers.of("a")->set_limits({Pacer::kUnlimited}, 0);
  world.wished = Wish::Abort;
  CHECK(world.finish()->how == Finish::How::Aborted);
  check_equal(world);
  CHECK(world.ask(kTarget, {"DBSIZE"}) == "1");
}

TEST_CASE("a stop ends a mover at once, even one that waits for a node that hangs") {
  World world;
  fill(world, 4000, 100);
  world.commons.pacers.of("b")->set_limits({300'000}, 0);
  world.start();
  REQUIRE(world.wait_for([&] { return world.progress().keys_copied > 100; }));
  world.servers.pause(kTarget);
  const auto begin = Clock::now();
  CHECK_FALSE(world.stop().has_value());
  CHECK(Clock::now() - begin < 30s);  // Far less than any silence is long.
  world.servers.go_on(kTarget);
}

TEST_CASE(
    "with a share of a node's time steps are small, and it is for its rest that things wait") {
  World world;
  world.spec.group_slots = 2048;
  fill(world, 2000, 100);
  for (const char* node : {"a", "b"})
    world.commons.pacers.of(node)->set_limits({100'000'000, 5}, 0);
  const auto calls_of = [&world](const std::string& command) {
    const std::string info = world.ask(kSource, {"INFO", "commandstats"});
    const std::string before = "cmdstat_" + command + ":calls=";
    const std::size_t at = info.find(before);
    return at == std::string::npos ? 0 : std::stoull(info.substr(at + before.size()));
  };
  world.start(0ms);
  CHECK(world.wait_for([&] { return world.progress().is_resting; }));
  CHECK(world.finish()->how == Finish::How::Done);
  CHECK(calls_of("scan") >= 2000 / 50);
  check_equal(world);
}

TEST_CASE("the limit holds on the wire") {
  World world;
  fill(world, 15'000, 1000);
  constexpr std::uint64_t kLimit = 4'000'000;
  for (const char* node : {"a", "b"}) world.commons.pacers.of(node)->set_limits({kLimit}, 0);
  const auto bytes_of = [&world](std::size_t server) {
    const std::string info = world.ask(server, {"INFO", "stats"});
    const auto field = [&info](const std::string& name) {
      return std::stoull(info.substr(info.find(name) + name.size()));
    };
    return field("total_net_input_bytes:") + field("total_net_output_bytes:");
  };
  const std::uint64_t before = bytes_of(kTarget);
  const auto begin = Clock::now();
  world.start(0ms);
  REQUIRE(world.wait_for([&] {
    return world.progress().phase != Phase::Connecting &&
           world.progress().phase != Phase::Purging && world.progress().phase != Phase::Copying;
  }));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double rate = static_cast<double>(bytes_of(kTarget) - before) / seconds;
  CHECK(rate < 1.05 * kLimit);  // That a limit is reached is the Pacer's own test.
  CHECK(world.finish()->how == Finish::How::Done);
}

}  // namespace
}  // namespace proxy::mover
