// MoverThread: the thread of a mover, and how it is stopped.
//
// Thread:  start(), stop() and join() are its owner's. The destructor of whoever derives from it
//          calls end(), before what run() uses is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "proxy/mover/transfer.h"

namespace proxy::mover {

class MoverThread {
 public:
  // How it ended; nothing when it was stopped before.
  using OnEnd = std::function<void(std::optional<Finish>)>;

  MoverThread();
  virtual ~MoverThread();
  MoverThread(const MoverThread&) = delete;
  MoverThread& operator=(const MoverThread&) = delete;

  void start();
  // The thread ends at the next opportunity, within milliseconds unless it waits for its MoveHost.
  void stop();
  void join();

 protected:
  static constexpr std::chrono::milliseconds kReportEvery{250};

  virtual void run() = 0;
  void end();
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }
  [[nodiscard]] int interrupt() const { return interrupt_; }  // Readable once stopped.

 private:
  std::atomic<bool> is_stopped_ = false;
  int interrupt_;  // An eventfd.
  std::thread thread_;
};

}  // namespace proxy::mover
