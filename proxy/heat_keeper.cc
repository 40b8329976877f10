#include "proxy/heat_keeper.h"

namespace proxy {

double HeatKeeper::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

slots::SlotTotals HeatKeeper::totals() const {
  slots::SlotTotals totals(slots::kSlotCount);
  for (const auto& worker : workers_) worker->traffic().add_to(totals);
  return totals;
}

void HeatKeeper::tick() {
  if (const double at = now(); history_.is_due(at)) history_.mark(totals(), at);
}

slots::SlotRates HeatKeeper::rates() const { return history_.rates(totals(), now()); }

}  // namespace proxy
