#include <doctest/doctest.h>

#include "slots/slot_heat.h"

using namespace slots;

namespace {

using Over = SlotRates::Over;

// So many operations of 10 bytes each.
SlotTotals totals(SlotId slot, std::uint64_t operations) {
  SlotTotals made(kSlotCount);
  made[slot] = {operations, operations * 10};
  return made;
}

// `per_second` from second 0 to `end`, marked whenever that is due, as each second's tick would.
SlotHistory steady(std::uint64_t per_second, int end) {
  SlotHistory history(0);
  for (int second = 1; second <= end; ++second) {
    if (history.is_due(second))
      history.mark(totals(7, per_second * static_cast<std::uint64_t>(second)), second);
  }
  return history;
}

}  // namespace

TEST_CASE("a steady rate is told as it is from the first second on") {
  for (const int second : {1, 9, 10, 11, 59, 61, 75, 600}) {
    CAPTURE(second);
    const SlotRates rates =
        steady(100, second - 1).rates(totals(7, 100 * static_cast<std::uint64_t>(second)), second);
    CHECK(rates.of(7, Over::TenSeconds).operations == doctest::Approx(100));
    CHECK(rates.of(7, Over::Minute).bytes == doctest::Approx(1000));
    CHECK(rates.of(8, Over::Minute).operations == 0);
  }
}

TEST_CASE("at the very beginning there is nothing, and no rate without end") {
  CHECK(SlotHistory(5).rates(SlotTotals(kSlotCount), 5).of(7, Over::Minute).operations == 0);
}

TEST_CASE("what is over is forgotten after twenty seconds, and after little more than a minute") {
  SlotHistory history = steady(100, 300);
  const auto idle_until = [&](int end) {
    for (int second = 301; second <= end; ++second) {
      if (history.is_due(second)) history.mark(totals(7, 30'000), second);
    }
    return history.rates(totals(7, 30'000), end);
  };
  CHECK(idle_until(305).of(7, Over::TenSeconds).operations > 50);
  const SlotRates later = idle_until(321);
  CHECK(later.of(7, Over::TenSeconds).operations == 0);
  CHECK(later.of(7, Over::Minute).operations > 50);
  CHECK(idle_until(371).of(7, Over::Minute).operations == 0);
}

TEST_CASE("the hottest slots are named in their order, and idle ones never") {
  SlotTotals mixed(kSlotCount);
  mixed[5] = {1, 1000};
  mixed[9] = {2, 20};
  mixed[3] = {1, 10};
  const SlotRates rates = SlotHistory(0).rates(mixed, 1);
  using Slots = std::vector<SlotId>;
  CHECK(rates.hottest(&SlotRate::operations, Over::Minute, 10) == Slots{9, 3, 5});
  CHECK(rates.hottest(&SlotRate::operations, Over::Minute, 1) == Slots{9});
  CHECK(rates.hottest(&SlotRate::bytes, Over::TenSeconds, 2) == Slots{5, 9});
  const SlotLoads loads = rates.operations(Over::Minute);
  CHECK(loads[9] == doctest::Approx(2));
  CHECK(loads[0] == 0);
}
