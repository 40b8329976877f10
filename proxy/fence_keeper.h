// FenceKeeper: one fence at a time over all workers, for movers that take turns.
//
// Pure: workers and time are behind the FencePort.
//
// Thread:  the control thread.
// Owns:    nothing; the port must outlive it. Destroying it calls nobody.
// Errors:  Timeout when not every worker has acknowledged in time, Unavailable when a connection
//          was lost that can't be ended at the server; the fence is lifted then.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/move_host.h"
#include "proxy/routing_table.h"
#include "slots/result.h"
#include "slots/slot.h"

namespace proxy {

// Whoever hands tables to the workers, and knows the time.
class FencePort {
 public:
  virtual ~FencePort() = default;
  // With the next table, to every worker; null: none.
  virtual void publish(std::shared_ptr<const Fence> fence) = 0;
  // FenceKeeper::on_deadline() is due so long from now, and at no time that was set before;
  // nothing: not at all.
  virtual void set_deadline(std::optional<conf::Milliseconds> from_now) = 0;
  [[nodiscard]] virtual std::chrono::steady_clock::time_point now() const = 0;
};

class FenceKeeper {
 public:
  using Owner = std::uint64_t;  // Whoever asked for a fence.
  using Done = std::function<void(slots::Result<mover::FenceGrant>)>;

  // `workers`: as many as acknowledge, the pub/sub hub among them.
  FenceKeeper(FencePort& port, std::size_t workers) : port_(port), workers_(workers) {}

  // `done` is called once, unless the owner lifts its fence before. The limit begins when the fence
  // does, which waits for the one before it.
  void begin(Owner owner, const slots::SlotSet& slots, const std::string& source,
             const std::string& target, conf::Milliseconds limit, Done done);
  void on_ack(const FenceAck& ack);
  void on_deadline();
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
    std::string target;
    conf::Milliseconds limit{0};
    Done done;
  };

  void end(slots::Error error);
  [[nodiscard]] bool forget(Owner owner);  // Its fence, if it has one.

  FencePort& port_;
  std::size_t workers_;
  std::uint64_t last_id_ = 0;
  std::optional<Wanted> current_;
  std::set<unsigned> waiting_for_;  // Workers.
  mover::FenceGrant grant_;
  std::deque<Wanted> queue_;
  bool is_frozen_ = false;
};

}  // namespace proxy
