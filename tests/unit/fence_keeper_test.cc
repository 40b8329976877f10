#include "proxy/fence_keeper.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/support/temp_folder.h"
#include "tests/support/test_loop.h"

using namespace proxy;
using namespace std::chrono_literals;

namespace {

// Two nodes, and two workers that are the test's.
class Keeper {
 public:
  Keeper() : cluster(config()), fences(loop.get(), cluster, 2) {
    REQUIRE(cluster.open().has_value());
  }

  void begin(FenceKeeper::Owner owner, const std::string& slots, conf::Milliseconds limit = 10s) {
    fences.begin(owner, slots::parse_slot_set(slots).value(), "a", limit,
                 [this](slots::Result<mover::FenceGrant> result) { answer = std::move(result); });
  }
  void acknowledge(unsigned worker, std::vector<std::uint64_t> lost = {}) {
    REQUIRE(cluster.table()->fence != nullptr);
    fences.on_ack({cluster.table()->fence->id, worker, std::move(lost)});
  }
  // The slots that the table fences; "" without a fence.
  [[nodiscard]] std::string fenced() const {
    const auto& fence = cluster.table()->fence;
    return fence ? slots::to_string(fence->slots) : "";
  }

  tests::TempFolder folder;
  tests::TestLoop loop;
  Cluster cluster;
  std::optional<slots::Result<mover::FenceGrant>> answer;
  FenceKeeper fences;

 private:
  std::shared_ptr<conf::Config> config() {
    auto made = std::make_shared<conf::Config>();
    made->cluster = "shop";
    made->state_dir = folder.file("state");
    made->nodes.resize(2);
    made->nodes[0].name = "a";
    made->nodes[1].name = "b";
    return made;
  }
};

}  // namespace

TEST_CASE("a fence is granted once every worker has acknowledged it") {
  Keeper k;
  k.begin(1, "0-63");
  CHECK(k.fenced() == "0-63");
  CHECK(k.cluster.table()->fence->source == "a");
  k.acknowledge(0, {41});
  k.acknowledge(0);
  CHECK_FALSE(k.answer.has_value());
  CHECK_FALSE(k.fences.holds(1, slots::parse_slot_set("0-63").value()));
  k.acknowledge(1, {42});
  REQUIRE(k.answer.has_value());
  REQUIRE(k.answer->has_value());
  CHECK((*k.answer)->lost_client_ids == std::vector<std::uint64_t>{41, 42});
  CHECK(k.fences.holds(1, slots::parse_slot_set("0-63").value()));
  k.fences.lift(2);
  CHECK(k.fenced() == "0-63");
  k.fences.lift(1);
  CHECK(k.fenced().empty());
}

TEST_CASE("a worker that does not answer in time costs the fence, and nothing else") {
  Keeper k;
  k.begin(1, "0-63", 20ms);
  k.acknowledge(1);
  REQUIRE(k.loop.run_until([&] { return k.answer.has_value(); }));
  REQUIRE_FALSE(k.answer->has_value());
  CHECK(k.answer->error().code == slots::Errc::Timeout);
  CHECK(k.answer->error().message == "1 of 2 workers had unanswered requests after 20 ms");
  CHECK(k.fenced().empty());
}

TEST_CASE("a connection that can't be ended at the server costs the fence") {
  Keeper k;
  k.begin(1, "0-63");
  k.acknowledge(0, {0});
  REQUIRE(k.answer.has_value());
  CHECK(k.answer->error().code == slots::Errc::Unavailable);
  CHECK(k.fenced().empty());
}

TEST_CASE("movers take turns, and a late acknowledgement is nobody's") {
  Keeper k;
  k.begin(1, "0-63");
  k.begin(2, "100-163");
  k.begin(3, "200-263");
  const std::uint64_t first = k.cluster.table()->fence->id;
  CHECK(k.fenced() == "0-63");
  k.fences.lift(2);
  k.fences.lift(1);
  CHECK(k.fenced() == "200-263");
  k.fences.on_ack({first, 0, {}});
  k.fences.on_ack({first, 1, {}});
  CHECK_FALSE(k.answer.has_value());
}

TEST_CASE("a frozen fence is never lifted") {
  Keeper k;
  k.begin(1, "0-63");
  k.fences.freeze();
  k.fences.lift(1);
  k.begin(2, "100-163");
  CHECK(k.fenced() == "0-63");
}
