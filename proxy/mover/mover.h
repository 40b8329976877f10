// Mover: a thread that carries one Transfer out: slots of one plan, from one node to another.
//
// Thread:  start(), stop() and join() are its owner's; everything of MoveHost is called by the
//          mover's own thread, `on_end` as the last thing.
// Owns:    the thread. The destructor stops it and waits: the MoveHost has to answer meanwhile, so
//          whoever answers by another thread's loop waits for `on_end` first.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "conf/config.h"
#include "proxy/mover/carrier.h"
#include "proxy/mover/lost_clients.h"
#include "proxy/mover/move_host.h"
#include "proxy/mover/mover_thread.h"
#include "proxy/mover/pacer.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

// What the movers of one process share. Must outlive them.
struct MoverCommons {
  Pacers pacers;  // Their limits are set by whoever starts movers.
  LostClients lost_clients;
};

// When it is stopped a fence is lifted. What has been done stays: a Transfer of the same plan goes
// on from there.
class Mover final : public MoverThread {
 public:
  // `options.link.interrupt` is the Mover's own affair.
  Mover(CarrierOptions options, MoveHost& host, MoverCommons& commons, OnEnd on_end);
  ~Mover() override { end(); }

 private:
  void run() override;
  void report_now_and_then(const Progress& progress, Carrier& carrier);
  void report(Progress progress, Carrier& carrier);

  CarrierOptions options_;
  MoveHost& host_;
  MoverCommons& commons_;
  std::shared_ptr<Pacer> source_;
  std::shared_ptr<Pacer> target_;
  OnEnd on_end_;
  std::chrono::steady_clock::time_point reported_at_;
  std::uint64_t reported_bytes_ = 0;
};

}  // namespace proxy::mover
