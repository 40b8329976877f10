#include "proxy/fence_keeper.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

using namespace proxy;
using namespace std::chrono_literals;

namespace {

// Two workers and a clock, which are the test's.
class Keeper final : private FencePort {
 public:
  void begin(FenceKeeper::Owner owner, const std::string& slots, conf::Milliseconds limit = 10s) {
    fences.begin(owner, slots::parse_slot_set(slots).value(), "a", "b", limit,
                 [this](slots::Result<mover::FenceGrant> result) { answer = std::move(result); });
  }
  void acknowledge(unsigned worker, std::vector<std::uint64_t> lost = {}) {
    REQUIRE(fence != nullptr);
    fences.on_ack({fence->id, worker, std::move(lost)});
  }
  // The slots that are fenced; "" without a fence.
  [[nodiscard]] std::string fenced() const { return fence ? slots::to_string(fence->slots) : ""; }

  FenceKeeper fences{*this, 2};
  std::shared_ptr<const Fence> fence;
  std::optional<conf::Milliseconds> deadline;
  std::optional<slots::Result<mover::FenceGrant>> answer;
  std::chrono::steady_clock::time_point time;

 private:
  void publish(std::shared_ptr<const Fence> next) override { fence = std::move(next); }
  void set_deadline(std::optional<conf::Milliseconds> from_now) override { deadline = from_now; }
  std::chrono::steady_clock::time_point now() const override { return time; }
};

}  // namespace

TEST_CASE("a fence is granted once every worker has acknowledged it") {
  Keeper k;
  k.begin(1, "0-63");
  CHECK(k.fenced() == "0-63");
  CHECK(k.fence->source == "a");
  k.acknowledge(0, {41});
  k.acknowledge(0);
  CHECK_FALSE(k.answer.has_value());
  CHECK_FALSE(k.fences.holds(1, slots::parse_slot_set("0-63").value()));
  k.acknowledge(1, {42});
  REQUIRE(k.answer.has_value());
  REQUIRE(k.answer->has_value());
  CHECK((*k.answer)->lost_client_ids == std::vector<std::uint64_t>{41, 42});
  CHECK(k.fences.holds(1, slots::parse_slot_set("0-63").value()));
  CHECK_FALSE(k.deadline.has_value());
  k.fences.lift(2);
  CHECK(k.fenced() == "0-63");
  k.fences.lift(1);
  CHECK(k.fenced().empty());
}

TEST_CASE("a worker that does not answer in time costs the fence, and nothing else") {
  Keeper k;
  k.begin(1, "0-63", 20ms);
  CHECK(k.deadline == 20ms);
  k.acknowledge(1);
  k.fences.on_deadline();
  REQUIRE(k.answer.has_value());
  REQUIRE_FALSE(k.answer->has_value());
  CHECK(k.answer->error().code == slots::Errc::Timeout);
  CHECK(k.answer->error().message.starts_with("1 of 2 threads were not ready after 20 ms"));
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
  const std::uint64_t first = k.fence->id;
  CHECK(k.fenced() == "0-63");
  k.fences.lift(2);
  k.fences.lift(1);
  CHECK(k.fenced() == "200-263");
  k.fences.on_ack({first, 0, {}});
  k.fences.on_ack({first, 1, {}});
  CHECK_FALSE(k.answer.has_value());
}

TEST_CASE("a fence begins when the one before it has ended, not when it was asked for") {
  Keeper k;
  k.begin(1, "0-63");
  k.begin(2, "100-163");
  k.time += 30ms;
  k.fences.lift(1);
  k.time += 2ms;
  k.acknowledge(0);
  k.acknowledge(1);
  REQUIRE(k.answer.has_value());
  REQUIRE(k.answer->has_value());
  CHECK((*k.answer)->begun == std::chrono::steady_clock::time_point(30ms));
}

TEST_CASE("a frozen fence is never lifted") {
  Keeper k;
  k.begin(1, "0-63");
  k.fences.freeze();
  k.fences.lift(1);
  k.begin(2, "100-163");
  CHECK(k.fenced() == "0-63");
}
