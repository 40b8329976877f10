#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "proxy/mover/pacer.h"

namespace proxy::mover {
namespace {

constexpr std::uint64_t kMillisecond = 1000;
constexpr std::uint64_t kSecond = 1000 * kMillisecond;
constexpr std::uint64_t kMegabyte = 1'000'000;

// Moves bytes as fast as the Pacer lets it, on a clock of its own, and watches the windows.
struct Run {
  explicit Run(Pacer& pacer_of_node, std::uint64_t begin_us = 0)
      : now_us(begin_us), pacer_(pacer_of_node) {}

  std::uint64_t now_us;
  std::uint64_t moved = 0;
  std::uint64_t largest_window = 0;  // Bytes in any one second.

  void move(std::uint64_t estimate, std::uint64_t actual) {
    while (const std::uint64_t wait_us = pacer_.ask(estimate, now_us)) now_us += wait_us;
    note(actual);
    pacer_.settle(static_cast<std::int64_t>(actual) - static_cast<std::int64_t>(estimate), now_us);
  }
  // As a poll() that sleeps longer than it was told to.
  void move_sleepily(std::uint64_t bytes, std::uint64_t oversleep_us) {
    while (const std::uint64_t wait_us = pacer_.ask(bytes, now_us))
      now_us += wait_us + oversleep_us;
    note(bytes);
  }
  void note(std::uint64_t bytes) {
    moved += bytes;
    window_ += bytes;
    steps_.emplace_back(now_us, bytes);
    while (steps_.front().first + kSecond < now_us) {
      window_ -= steps_.front().second;
      steps_.pop_front();
    }
    largest_window = std::max(largest_window, window_);
  }

 private:
  Pacer& pacer_;
  std::uint64_t window_ = 0;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> steps_;
};

void check_rate(std::uint64_t bytes, std::uint64_t limit, std::uint64_t elapsed_us) {
  const double expected = static_cast<double>(limit) * static_cast<double>(elapsed_us) / 1e6;
  CHECK(static_cast<double>(bytes) == doctest::Approx(expected).epsilon(0.02));
}

TEST_CASE("without a limit nothing waits, and a step may have any size") {
  Pacer pacer;
  for (int i = 0; i < 100; ++i) CHECK(pacer.ask(100 * kMegabyte, 0) == 0);
  CHECK(pacer.chunk() > 1000 * kMegabyte);
}

TEST_CASE("a burst is 50 ms of the limit, and never less than 64 KiB") {
  CHECK(Pacer(Pacer::Limits{20 * kMegabyte}).burst() == kMegabyte);
  CHECK(Pacer(Pacer::Limits{kMegabyte}).burst() == 64U << 10);
  CHECK(Pacer(Pacer::Limits{kMegabyte}).chunk() * 2 == 64U << 10);
}

TEST_CASE("over a run the limit is reached and kept, at any rate and size of step") {
  for (const std::uint64_t limit : {100'000ULL, 1'000'000ULL, 20'000'000ULL, 1'000'000'000ULL}) {
    for (const std::uint64_t part : {1, 7, 100}) {
      CAPTURE(limit);
      CAPTURE(part);
      Pacer pacer(Pacer::Limits{limit});
      Run run(pacer);
      const std::uint64_t step = pacer.chunk() / part;
      while (run.now_us < 100 * kSecond) run.move(step, step);
      check_rate(run.moved, limit, run.now_us);
      CHECK(run.largest_window <= limit + pacer.burst());
    }
  }
}

TEST_CASE("estimates that are wrong are settled with the true length") {
  std::mt19937_64 random(7);
  Pacer pacer(Pacer::Limits{5 * kMegabyte});
  Run run(pacer);
  while (run.now_us < 30 * kSecond) {
    const std::uint64_t actual = 1 + random() % (pacer.chunk() / 2);
    run.move(actual * 2 * (random() % 2), actual);  // Twice as much, or nothing.
  }
  check_rate(run.moved, 5 * kMegabyte, run.now_us);
  CHECK(run.largest_window <= 5 * kMegabyte + pacer.burst());
}

TEST_CASE("oversleeping by a few milliseconds costs no rate") {
  Pacer pacer(Pacer::Limits{20 * kMegabyte});
  Run run(pacer);
  while (run.now_us < 10 * kSecond) run.move_sleepily(100'000, 4 * kMillisecond);
  check_rate(run.moved, 20 * kMegabyte, run.now_us);
}

TEST_CASE("what was moved without asking is owed") {
  Pacer pacer(Pacer::Limits{kMegabyte});
  pacer.settle(500'000, 0);
  CHECK(pacer.ask(1, 0) == 500 * kMillisecond);
  CHECK(pacer.ask(1, 499 * kMillisecond) > 0);
  CHECK(pacer.ask(1, 500 * kMillisecond) == 0);
}

TEST_CASE("a pause saves up no more than a burst") {
  Pacer pacer(Pacer::Limits{kMegabyte});
  Run run(pacer, 3600 * kSecond);
  const std::uint64_t begin_us = run.now_us;
  while (run.now_us < begin_us + kSecond) run.move(1000, 1000);
  CHECK(run.moved <= kMegabyte + pacer.burst());
}

TEST_CASE("a new limit counts at once, and debts stay") {
  Pacer pacer(Pacer::Limits{kMegabyte});
  pacer.settle(100'000, 0);
  pacer.set_limits({10 * kMegabyte}, 0);
  CHECK(pacer.ask(1, 0) == 10 * kMillisecond);
  pacer.set_limits({Pacer::kUnlimited}, 0);
  CHECK(pacer.ask(kMegabyte, 0) == 0);
  pacer.set_limits({kMegabyte}, kSecond);
  Run run(pacer, kSecond);
  while (run.now_us < 11 * kSecond) run.move(10'000, 10'000);
  check_rate(run.moved, kMegabyte, 10 * kSecond);
}

TEST_CASE("movers that share a node share its limit, the one with large steps too") {
  Pacers pacers;
  const auto one = pacers.of("a");
  CHECK(one == pacers.of("a"));
  CHECK(one != pacers.of("b"));
  one->set_limits({2 * kMegabyte}, 0);
  std::mt19937_64 random(7);
  std::uint64_t small = 0;
  std::uint64_t large = 0;
  for (std::uint64_t now_us = 0; now_us < 10 * kSecond; now_us += 100) {
    const bool is_small = random() % 2 == 0;
    const std::uint64_t bytes = is_small ? 1000 : 50'000;
    if (one->ask(bytes, now_us) == 0) (is_small ? small : large) += bytes;
  }
  check_rate(small + large, 2 * kMegabyte, 10 * kSecond);
  CHECK(large > kMegabyte);
  CHECK(small > 100'000);
}

// Steps one after the other, each of which takes so much of the node's time.
std::uint64_t busy_within(Pacer& pacer, std::uint64_t step_us, std::uint64_t until_us) {
  std::uint64_t busy_us = 0;
  for (std::uint64_t now_us = 0; now_us < until_us;) {
    if (const std::uint64_t wait_us = pacer.ask(0, now_us)) {
      CHECK(pacer.is_resting(now_us));
      now_us += wait_us;
      continue;
    }
    now_us += step_us;
    busy_us += step_us;
    pacer.note_busy(step_us, now_us);
  }
  return busy_us;
}

TEST_CASE("steps take no more than their share of a node's time, whatever each of them takes") {
  for (const unsigned percent : {1U, 10U, 50U}) {
    for (const std::uint64_t step_us : {50ULL, 1000ULL, 5000ULL}) {
      CAPTURE(percent);
      CAPTURE(step_us);
      Pacer pacer(Pacer::Limits{kMegabyte, percent});
      CHECK(pacer.is_gentle());
      const double share = static_cast<double>(busy_within(pacer, step_us, 20 * kSecond)) / 20e6;
      CHECK(share * 100 == doctest::Approx(percent).epsilon(0.03));
    }
  }
}

TEST_CASE("a whole share, or no limit, leaves no rest") {
  for (const Pacer::Limits limits :
       {Pacer::Limits{kMegabyte, Pacer::kWhole}, Pacer::Limits{Pacer::kUnlimited, 10}}) {
    Pacer pacer(limits);
    CHECK_FALSE(pacer.is_gentle());
    pacer.note_busy(kSecond, kSecond);
    CHECK(pacer.ask(1000, kSecond) == 0);
    CHECK_FALSE(pacer.is_resting(kSecond));
  }
}

TEST_CASE("after a node stood still, it rests a second and no longer") {
  Pacer pacer(Pacer::Limits{kMegabyte, 10});
  pacer.note_busy(30 * kSecond, 30 * kSecond);
  CHECK(pacer.ask(0, 30 * kSecond) == kSecond);
  pacer.set_limits({Pacer::kUnlimited, 10}, 30 * kSecond);
  CHECK(pacer.ask(0, 30 * kSecond) == 0);
}

TEST_CASE("what waits for bytes does not wait for rest") {
  Pacer pacer(Pacer::Limits{kMegabyte, 10});
  pacer.settle(500'000, 0);
  pacer.note_busy(kMillisecond, 0);
  CHECK(pacer.ask(0, 0) == 500 * kMillisecond);
  CHECK_FALSE(pacer.is_resting(0));
}

}  // namespace
}  // namespace proxy::mover
