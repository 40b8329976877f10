#include <doctest/doctest.h>

#include "proxy/mover/throttle.h"

using proxy::mover::Throttle;

namespace {

constexpr std::uint64_t kSpeed = 20'000'000;

struct Plan {
  explicit Plan(std::uint64_t limit) { throttle.approve(limit); }

  // So many seconds in which the p99 of inv-bcn is so many microseconds, its target 5 ms.
  void run(int seconds, std::uint64_t p99_us, std::uint64_t speed = kSpeed) {
    for (int i = 0; i < seconds; ++i) {
      now_ms += 1000;
      throttle.step({{"inv-gir", 100, 5000}, {"inv-bcn", p99_us, 5000}}, speed, now_ms);
    }
  }

  Throttle throttle;
  std::uint64_t now_ms = 1'000'000;
};

}  // namespace

TEST_CASE("a plan whose nodes answer in time moves at what was approved") {
  Plan plan(kSpeed);
  plan.run(60, 5000);
  CHECK(plan.throttle.limit() == kSpeed);
  CHECK(plan.throttle.reason().empty());
}

TEST_CASE("it halves once answers are late for two seconds, and again each two seconds") {
  Plan plan(kSpeed);
  plan.run(2, 9000);
  CHECK(plan.throttle.limit() == kSpeed);
  plan.run(1, 9000);
  CHECK(plan.throttle.limit() == kSpeed / 2);
  CHECK(plan.throttle.reason() == "slowed: p99 of inv-bcn 9 ms, target 5 ms");
  plan.run(2, 9000, kSpeed / 2);
  CHECK(plan.throttle.limit() == kSpeed / 4);
  plan.run(60, 9000, 0);
  CHECK(plan.throttle.limit() == Throttle::kFloor);
}

TEST_CASE("one late second changes nothing") {
  Plan plan(kSpeed);
  for (int i = 0; i < 20; ++i) {
    plan.run(1, 9000);
    plan.run(1, 1000);
  }
  CHECK(plan.throttle.limit() == kSpeed);
}

TEST_CASE("it creeps up by five percent a second, and never above what was approved") {
  Plan plan(kSpeed);
  plan.run(3, 9000);
  plan.run(1, 4600);
  CHECK(plan.throttle.limit() == kSpeed / 2 * 105 / 100);
  CHECK(plan.throttle.reason() == "slowed: p99 of inv-bcn 4.6 ms, target 5 ms");
  plan.run(13, 4600);
  CHECK(plan.throttle.is_slowed());
  CHECK(plan.throttle.limit() < kSpeed);
  plan.run(2, 4600);
  CHECK(!plan.throttle.is_slowed());
  CHECK(plan.throttle.limit() == kSpeed);
}

TEST_CASE("another approved limit counts at once, and leaves what slows the plan in force") {
  Plan plan(kSpeed);
  plan.run(3, 9000);
  plan.throttle.approve(1'000'000);
  CHECK(plan.throttle.limit() == 1'000'000);
  plan.throttle.approve(4 * kSpeed);
  CHECK(plan.throttle.limit() == kSpeed / 2);
  CHECK(plan.throttle.is_slowed());
}

TEST_CASE("a plan without a limit gets half of what it moved, and is free again in the end") {
  Plan plan(0);
  CHECK(plan.throttle.limit() == 0);
  plan.run(3, 9000, 80'000'000);
  CHECK(plan.throttle.limit() == 40'000'000);
  // The nodes can't do more than this.
  plan.run(60, 1000, 90'000'000);
  CHECK(plan.throttle.limit() == 0);
}

TEST_CASE("a limit that the plan does not reach is halved from what it does reach") {
  Plan plan(kSpeed);
  plan.run(3, 9000, 8'000'000);
  CHECK(plan.throttle.limit() == 4'000'000);
}

TEST_CASE("what was approved below the floor stays what it is") {
  Plan plan(20'000);
  plan.run(10, 9000, 20'000);
  CHECK(plan.throttle.limit() == 20'000);
}

TEST_CASE("without measurements nothing is slowed") {
  Throttle throttle;
  throttle.approve(kSpeed);
  for (std::uint64_t ms = 0; ms < 20'000; ms += 1000) throttle.step({}, kSpeed, ms);
  CHECK(throttle.limit() == kSpeed);
}
