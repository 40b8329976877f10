#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "tests/support/worker_rig.h"

using namespace tests;

namespace {

std::optional<std::string> answer(const Command& command) {
  const bool is_ours = command.front() == "GET" && command[1].starts_with("__slotproxy:");
  if (is_ours) return std::nullopt;
  if (command.front() == "MGET") {
    std::string reply = "*" + std::to_string(command.size() - 1) + "\r\n";
    for (std::size_t i = 1; i < command.size(); ++i) reply += "$5\r\nvalue\r\n";
    return reply;
  }
  const bool is_known =
      command.front() == "GET" || command.front() == "SET" || command.front() == "EVAL";
  return is_known ? std::optional<std::string>("$5\r\nvalue\r\n") : std::nullopt;
}

constexpr std::size_t kReplyBytes = 11;

struct Rig {
  Rig() {
    rig.install({{"a", "0-8191"}, {"b", "8192-16383"}});
    rig.node("a").on_command = rig.node("b").on_command = answer;
  }
  slots::SlotTotals traffic() {
    slots::SlotTotals totals(slots::kSlotCount);
    rig.worker().traffic().add_to(totals);
    return totals;
  }
  std::map<std::string, proxy::LatencyHistogram> latencies(std::uint32_t every_ms) {
    std::map<std::string, proxy::LatencyHistogram> found;
    std::atomic<bool> is_there = false;
    rig.worker().take_latencies(every_ms, [&](auto latencies) {
      found = std::move(latencies);
      is_there = true;
    });
    REQUIRE(rig.run_until([&] { return is_there.load(); }));
    return found;
  }

  TestLoop loop;
  WorkerRig rig{loop};
};

}  // namespace

TEST_CASE("each answered request counts for its slot, with the bytes of both ways") {
  Rig r;
  auto client = r.rig.client();
  client->ask({"GET", "k"});
  client->ask({"GET", "k"});
  const slots::SlotTotal total = r.traffic()[slots::slot_of_key("k")];
  CHECK(total.operations == 2);
  CHECK(total.bytes == 2 * (request_of({"GET", "k"}).size() + kReplyBytes));
}

TEST_CASE("what names no key counts for no slot") {
  Rig r;
  auto client = r.rig.client();
  client->ask({"EVAL", "return 1", "0"});
  client->ask({"PING"});
  CHECK(std::ranges::all_of(r.traffic(),
                            [](const slots::SlotTotal& total) { return total.operations == 0; }));
}

TEST_CASE("of a streamed request all bytes count") {
  Rig r;
  r.rig.limits.stream_request = 1000;
  r.rig.install({{"a", "0-8191"}, {"b", "8192-16383"}});
  auto client = r.rig.client();
  const std::string value(200'000, 'x');
  client->ask({"SET", "k", value});
  const slots::SlotTotal total = r.traffic()[slots::slot_of_key("k")];
  CHECK(total.operations == 1);
  CHECK(total.bytes == request_of({"SET", "k", value}).size() + kReplyBytes);
}

TEST_CASE("of a request with keys on several nodes each slot has its part") {
  Rig r;
  auto client = r.rig.client();
  client->ask({"MGET", "k", "a"});
  const slots::SlotTotals totals = r.traffic();
  for (const slots::SlotId slot : {slots::SlotId{7629}, slots::SlotId{15495}}) {
    CHECK(totals[slot].operations == 1);
    CHECK(totals[slot].bytes == std::string_view("$1\r\nk\r\n").size() + kReplyBytes);
  }
}

TEST_CASE("how long a node's answers take is measured") {
  Rig r;
  (void)r.latencies(0);
  auto client = r.rig.client();
  client->ask({"GET", "k"});
  const auto latencies = r.latencies(0);
  REQUIRE(latencies.contains("a"));
  CHECK(latencies.at("a").total() == 1);
  CHECK(latencies.at("a").quantile(0.99) > 0);
  CHECK(latencies.size() == 1);
}

TEST_CASE("the keys that come most often are named while somebody asks, and not before") {
  Rig r;
  auto client = r.rig.client();
  client->ask({"GET", "before"});
  r.rig.worker().begin_hot_keys();
  for (int i = 0; i < 5; ++i) client->ask({"GET", "hot"});
  client->ask({"SET", "cold", "GET"});
  client->send("GET inline\r\n");
  client->read();
  std::shared_ptr<const slots::TopKeys> keys;
  std::atomic<bool> is_there = false;
  r.rig.worker().take_hot_keys([&](std::shared_ptr<const slots::TopKeys> found) {
    keys = std::move(found);
    is_there = true;
  });
  REQUIRE(r.rig.run_until([&] { return is_there.load(); }));
  const auto top = keys->top(10);
  REQUIRE(top.size() == 3);
  CHECK(top[0].name == "hot");
  CHECK(top[0].count == 5);
  CHECK(top[0].slot == slots::slot_of_key("hot"));
  CHECK(keys->total() == 7);
}
