#include "slots/slot_heat.h"

#include <algorithm>
#include <utility>

namespace slots {

namespace {

constexpr std::array<double, 2> kSpans{10, 60};  // Seconds, by SlotRates::Over.
constexpr std::size_t kMarks = 7;                // The oldest is at least 60 s old.
constexpr double kSecondsMin = 0.001;

}  // namespace

SlotLoads SlotRates::operations(Over span) const {
  SlotLoads loads{};
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) loads[slot] = rates(span)[slot].operations;
  return loads;
}

std::vector<SlotId> SlotRates::hottest(double SlotRate::* measure, Over span,
                                       std::size_t count) const {
  const std::vector<SlotRate>& rates = this->rates(span);
  std::vector<SlotId> found;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    if (rates[slot].*measure > 0) found.push_back(static_cast<SlotId>(slot));
  }
  const auto is_hotter = [&](SlotId a, SlotId b) {
    return rates[a].*measure != rates[b].*measure ? rates[a].*measure > rates[b].*measure : a < b;
  };
  count = std::min(count, found.size());
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(found.begin(), middle, found.end(), is_hotter);
  found.erase(middle, found.end());
  return found;
}

void SlotHistory::mark(SlotTotals totals, double now) {
  marks_.push_back({now, std::move(totals)});
  if (marks_.size() > kMarks) marks_.pop_front();
}

const SlotHistory::Mark& SlotHistory::before(double seconds, double now) const {
  const auto found = std::find_if(marks_.rbegin(), marks_.rend(),
                                  [&](const Mark& mark) { return now - mark.at >= seconds; });
  return found == marks_.rend() ? marks_.front() : *found;
}

SlotRates SlotHistory::rates(const SlotTotals& totals, double now) const {
  SlotRates rates;
  for (std::size_t span = 0; span < kSpans.size(); ++span) {
    const Mark& mark = before(kSpans[span], now);
    const double seconds = std::max(now - mark.at, kSecondsMin);
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      const SlotTotal& was = mark.totals[slot];
      rates.rates_[span][slot] = {
          static_cast<double>(totals[slot].operations - was.operations) / seconds,
          static_cast<double>(totals[slot].bytes - was.bytes) / seconds};
    }
  }
  return rates;
}

}  // namespace slots
