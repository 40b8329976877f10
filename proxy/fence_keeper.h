// FenceKeeper: one fence at a time over all workers, for movers that take turns.
//
// Thread:  the control thread.
// Owns:    nothing; the cluster must outlive it. Destroying it calls nobody.
// Errors:  Timeout when not every worker has acknowledged in time, Unavailable when a connection
//          was lost that can't be ended at the server; the fence is lifted then.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/cluster.h"
#include "proxy/mover/move_host.h"
#include "proxy/net/loop_timer.h"
#include "proxy/worker.h"
#include "slots/result.h"
#include "slots/slot.h"

namespace proxy {

class FenceKeeper {
 public:
  using Owner = std::uint64_t;  // Whoever asked for a fence.
  using Done = std::function<void(slots::Result<mover::FenceGrant>)>;

  FenceKeeper(uv_loop_t* loop, Cluster& cluster, std::size_t workers)
      : cluster_(cluster), workers_(workers), timer_(loop) {}

  // `done` is called once, unless the owner lifts its fence before. The limit begins when the fence
  // does, which waits for the one before it.
  void begin(Owner owner, const slots::SlotSet& slots, const std::string& source,
             conf::Milliseconds limit, Done done);
  void on_ack(const FenceAck& ack);
  // The owner's fence, if it has one, ends with the next table.
  void lift(Owner owner);
  // The same within a table that is being made; begin_next() is the caller's, once it is out.
  void lift(Owner owner, RoutingTable& table);
  void begin_next();
  [[nodiscard]] bool holds(Owner owner, const slots::SlotSet& slots) const;
  // For good: the slots are answered by nobody until the proxy has been restarted.
  void freeze() { is_frozen_ = true; }

 private:
  struct Wanted {
    Owner owner = 0;
    slots::SlotSet slots;
    std::string source;
    conf::Milliseconds limit{0};
    Done done;
  };

  void end(std::optional<slots::Error> error);

  Cluster& cluster_;
  std::size_t workers_;
  std::uint64_t last_id_ = 0;
  std::optional<Wanted> current_;
  std::set<unsigned> waiting_for_;  // Workers.
  mover::FenceGrant grant_;
  std::deque<Wanted> queue_;
  bool is_frozen_ = false;
  net::LoopTimer timer_;
};

}  // namespace proxy
