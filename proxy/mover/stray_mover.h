// StrayMover: a thread that carries one StrayCollector out.
//
// Thread:  as with Mover: start(), stop() and join() are its owner's; everything of MoveHost is
//          called by its own thread, `on_end` as the last thing.
// Owns:    the thread. The destructor stops it and waits; the MoveHost has to answer meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "proxy/mover/mover.h"
#include "proxy/mover/stray_collector.h"

namespace proxy::mover {

class StrayMover final : public MoverThread {
 public:
  StrayMover(LinkOptions link, StraySpec spec, conf::Milliseconds grace, MoveHost& host,
             MoverCommons& commons, OnEnd on_end);
  ~StrayMover() override { end(); }

 private:
  void run() override;
  void report(const StrayCollector& collector);

  LinkOptions link_;
  StraySpec spec_;
  conf::Milliseconds grace_;
  MoveHost& host_;
  MoverCommons& commons_;
  OnEnd on_end_;
  std::chrono::steady_clock::time_point reported_at_;
  std::uint64_t reported_bytes_ = 0;
};

}  // namespace proxy::mover
