// HeatKeeper: what slots do, of all workers together.
//
// Workers count; they are never asked. A tick that is due reads their counters and remembers the
// sums, and rates are differences, made when somebody wants to know.
//
// Thread:  the control thread. The workers must outlive it.
#pragma once

#include <chrono>

#include "proxy/worker.h"
#include "slots/slot_heat.h"

namespace proxy {

class HeatKeeper {
 public:
  explicit HeatKeeper(const Worker::WorkersByIndex& workers) : workers_(workers) {}

  void tick();  // Every second or so.
  [[nodiscard]] slots::SlotRates rates() const;

 private:
  [[nodiscard]] static double now();
  [[nodiscard]] slots::SlotTotals totals() const;

  const Worker::WorkersByIndex& workers_;
  slots::SlotHistory history_{now()};
};

}  // namespace proxy
