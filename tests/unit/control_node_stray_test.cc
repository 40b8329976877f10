#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/control/stray_counter.h"
#include "slots/key_slot.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

using conf::Milliseconds;
using proxy::control::Command;
using proxy::control::NodeClient;
using proxy::control::Reply;
using proxy::control::StrayCounter;
using proxy::control::StrayReport;
using slots::Result;
using tests::FakeNode;
using tests::TestLoop;

namespace {

constexpr Milliseconds kLong{5000};

// A node with keys k:0 .. k:<count - 1>, shown in pages; the last key of a page is shown again on
// the next one.
struct Scanned {
  explicit Scanned(TestLoop& on, int count, int page = 10)
      : loop(on), node(on.get()), client(on.get()) {
    node.on_command = [count, page](const Command& command) -> std::optional<std::string> {
      if (command[0] != "SCAN") return std::nullopt;
      const int from = std::stoi(command[1]);
      std::vector<Reply> keys;
      if (from == 0) keys.push_back(Reply::string("__slotproxy:identity"));
      for (int i = std::max(0, from - 1); i < std::min(count, from + page); ++i)
        keys.push_back(Reply::string(key(i)));
      const int next = from + page < count ? from + page : 0;
      return encode_resp2(
          Reply::array({Reply::string(std::to_string(next)), Reply::array(std::move(keys))}));
    };
    bool connected = false;
    client.connect(node.address(), kLong,
                   [&](const slots::Status& status) { connected = status.has_value(); });
    REQUIRE(loop.run_until([&] { return connected; }));
  }

  static std::string key(int i) { return "k:" + std::to_string(i); }

  StrayReport wait() {
    REQUIRE(loop.run_until([&] { return result.has_value(); }));
    REQUIRE(result->has_value());
    return **result;
  }
  StrayCounter::Done done() {
    return [this](Result<StrayReport> report) { result = std::move(report); };
  }

  TestLoop& loop;
  FakeNode node;
  NodeClient client;
  std::optional<Result<StrayReport>> result;
};

slots::SlotSet all_but_slots_of(int keys) {
  slots::SlotSet owned(slots::SlotRange{0, slots::kSlotCount - 1});
  for (int i = 0; i < keys; ++i) owned.remove(slots::slot_of_key(Scanned::key(i)));
  return owned;
}

}  // namespace

TEST_CASE(
    "a node that owns the slots of all its keys has no strays, and the proxy's own keys are none") {
  TestLoop loop;
  Scanned scanned(loop, 95);
  slots::SlotSet owned(slots::SlotRange{0, slots::kSlotCount - 1});
  owned.remove(slots::slot_of_key("__slotproxy:identity"));
  StrayCounter counter(loop.get(), scanned.client, owned, kLong);
  counter.count(100, scanned.done());
  CHECK_FALSE(scanned.result.has_value());
  const StrayReport report = scanned.wait();
  CHECK(report.strays == 0);
  CHECK(report.names.empty());
  CHECK(report.is_whole);
}

TEST_CASE("strays are counted once each although SCAN repeats some, and named up to the limit") {
  TestLoop loop;
  Scanned scanned(loop, 95);
  StrayCounter counter(loop.get(), scanned.client, all_but_slots_of(30), kLong);
  SUBCASE("all names") {
    counter.count(1000, scanned.done());
    StrayReport report = scanned.wait();
    CHECK(report.strays == 30);
    CHECK(report.is_exact);
    CHECK(report.is_whole);
    CHECK(report.slots.contains(slots::slot_of_key("k:0")));
    std::ranges::sort(report.names);
    CHECK(std::ranges::adjacent_find(report.names) == report.names.end());
    CHECK(report.names.size() == 30);
  }
  SUBCASE("some names") {
    counter.count(7, scanned.done());
    const StrayReport report = scanned.wait();
    CHECK(report.strays == 30);
    CHECK(report.names.size() == 7);
  }
}

TEST_CASE("a sample looks at no more than a hundred pages, and says so") {
  TestLoop loop;
  SUBCASE("more than that") {
    Scanned scanned(loop, 5000);
    StrayCounter counter(loop.get(), scanned.client, slots::SlotSet(), kLong);
    counter.sample(scanned.done());
    const StrayReport report = scanned.wait();
    CHECK(scanned.node.count_of("SCAN") == 100);
    CHECK_FALSE(report.is_whole);
    CHECK(report.strays == 1000);
  }
  SUBCASE("less") {
    Scanned scanned(loop, 50);
    StrayCounter counter(loop.get(), scanned.client, slots::SlotSet(), kLong);
    counter.sample(scanned.done());
    const StrayReport report = scanned.wait();
    CHECK(report.is_whole);
    CHECK(report.strays == 50);
  }
}

TEST_CASE("a count that can't go on ends in an error") {
  TestLoop loop;
  Scanned scanned(loop, 5000);
  StrayCounter counter(loop.get(), scanned.client, slots::SlotSet(), Milliseconds{50});
  SUBCASE("the node has fallen silent") { scanned.node.silent = true; }
  SUBCASE("the node is busy") {
    scanned.node.on_command = nullptr;
    scanned.node.busy = true;
  }
  SUBCASE("its answer is none") {
    scanned.node.on_command = [](const Command&) {
      return std::optional(std::string("*1\r\n:0\r\n"));
    };
  }
  counter.count(0, scanned.done());
  REQUIRE(loop.run_until([&] { return scanned.result.has_value(); }));
  CHECK_FALSE(scanned.result->has_value());
}

TEST_CASE("a cancelled count says nothing more, and another one can begin") {
  TestLoop loop;
  Scanned scanned(loop, 5000);
  bool called = false;
  auto counter =
      std::make_unique<StrayCounter>(loop.get(), scanned.client, slots::SlotSet(), kLong);
  counter->count(0, [&](const Result<StrayReport>&) { called = true; });
  REQUIRE(loop.run_until([&] { return scanned.node.count_of("SCAN") >= 3; }));
  SUBCASE("cancelled") {
    counter->cancel();
    counter->sample(scanned.done());
    CHECK(scanned.wait().strays == 1000);
  }
  SUBCASE("destroyed") {
    counter.reset();
    bool answered = false;
    scanned.client.call({"PING"}, kLong, [&](const Result<Reply>&) { answered = true; });
    REQUIRE(loop.run_until([&] { return answered; }));
  }
  CHECK_FALSE(called);
}
