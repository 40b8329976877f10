// HeatKeeper: what slots do, how fast nodes answer, and which keys come most often, of all workers
// together.
//
// Of slots workers count; they are not asked. A tick that is due reads their counters and remembers
// the sums, and rates are differences, made when somebody wants to know. For latencies a round of
// messages goes to all workers: each second while somebody looks closely, else each ten.
//
// Limits:  one watch of keys at a time.
// Thread:  the control thread. The workers must outlive it.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "proxy/latency_histogram.h"
#include "proxy/net/loop_timer.h"
#include "proxy/worker.h"
#include "slots/result.h"
#include "slots/slot_heat.h"
#include "slots/top_keys.h"

namespace proxy {

class HeatKeeper {
 public:
  // `post` hands work to the control thread, from any thread.
  HeatKeeper(uv_loop_t* loop, const Worker::WorkersByIndex& workers,
             std::function<void(std::function<void()>)> post)
      : workers_(workers), post_(std::move(post)), watch_timer_(loop) {}
  ~HeatKeeper() { *life_ = false; }
  HeatKeeper(const HeatKeeper&) = delete;
  HeatKeeper& operator=(const HeatKeeper&) = delete;

  void tick();  // Every second, once the workers run.
  [[nodiscard]] slots::SlotRates rates() const;

  // How long a node takes to answer clients, p99 in microseconds.
  struct Latency {
    std::optional<std::uint64_t> now = {};    // In the last two rounds; none: too few answers.
    std::optional<std::uint64_t> usual = {};  // Over the last minutes without a close look.
  };
  [[nodiscard]] Latency latency(const std::string& node) const;
  // Nodes are measured more often, and what is seen is not taken for the usual.
  void look_closely(bool is_close) { is_close_ = is_close; }

  // See control::AdminPort.
  using KeysDone = std::function<void(slots::Result<std::shared_ptr<const slots::TopKeys>>)>;
  void watch_keys(std::chrono::seconds duration, KeysDone done);

 private:
  struct Measured {
    LatencyHistogram last;  // Of the last round, and the one before.
    LatencyHistogram before;
    LatencyHistogram usual;
  };

  [[nodiscard]] static double now();
  [[nodiscard]] slots::SlotTotals totals() const;
  void begin_round();
  void end_round();
  void take_keys();

  const Worker::WorkersByIndex& workers_;
  std::function<void(std::function<void()>)> post_;
  slots::SlotHistory history_{now()};
  bool is_close_ = false;
  std::uint64_t ticks_ = 0;
  std::uint64_t rounds_ = 0;                       // Without a close look.
  std::size_t waiting_ = 0;                        // Workers that have not answered in this round.
  std::map<std::string, LatencyHistogram> round_;  // What the others have said. By node.
  std::map<std::string, Measured> measured_;       // By node.
  net::LoopTimer watch_timer_;
  KeysDone keys_done_;  // Not null: keys are being watched.
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
};

}  // namespace proxy
