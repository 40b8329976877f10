// Mover: a thread that carries one Transfer out: slots of one plan, from one node to another.
//
// Thread:  start(), stop() and join() are its owner's; everything of MoveHost is called by the
//          mover's own thread, `on_end` as the last thing.
// Owns:    the thread. The destructor stops it and waits: the MoveHost has to answer meanwhile, so
//          whoever answers by another thread's loop waits for `on_end` first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "conf/config.h"
#include "proxy/mover/carrier.h"
#include "proxy/mover/lost_clients.h"
#include "proxy/mover/move_host.h"
#include "proxy/mover/pacer.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

// What the movers of one process share. Must outlive them.
struct MoverCommons {
  Pacers pacers;  // Their limits are set by whoever starts movers.
  LostClients lost_clients;
};

class Mover {
 public:
  // How the transfer ended; nothing when it was stopped before.
  using OnEnd = std::function<void(std::optional<Finish>)>;

  // `options.link.interrupt` is the Mover's own affair.
  Mover(CarrierOptions options, MoveHost& host, MoverCommons& commons, OnEnd on_end);
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void start();
  // The thread ends at the next opportunity, within milliseconds unless it waits for its MoveHost;
  // a fence is lifted. What has been done stays: a Transfer of the same plan goes on from there.
  void stop();
  void join();

 private:
  void run();
  void report_now_and_then(const Progress& progress, Carrier& carrier);
  void report(Progress progress, Carrier& carrier);

  CarrierOptions options_;
  MoveHost& host_;
  MoverCommons& commons_;
  std::shared_ptr<Pacer> source_;
  std::shared_ptr<Pacer> target_;
  OnEnd on_end_;
  std::atomic<bool> is_stopped_ = false;
  int interrupt_;  // An eventfd; readable once stopped.
  std::thread thread_;

  std::chrono::steady_clock::time_point reported_at_;
  std::uint64_t reported_bytes_ = 0;
};

}  // namespace proxy::mover
