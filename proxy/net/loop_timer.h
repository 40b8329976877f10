// LoopTimer: a one-shot timer on a libuv loop that ends with its owner.
//
// Thread:  the loop's own. After destruction nothing is called; libuv frees the handle on a later
//          turn of the loop.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>

namespace proxy::net {

class LoopTimer {
 public:
  explicit LoopTimer(uv_loop_t* loop);
  ~LoopTimer();
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  // Calls `fire` once, after `delay` from now (0: on the next turn of the loop), instead of what
  // was set before. `fire` may start the timer again and may destroy it.
  void start(std::chrono::milliseconds delay, std::function<void()> fire);
  void stop();
  [[nodiscard]] bool is_running() const;

 private:
  struct Handle;
  Handle* handle_;  // Outlives the LoopTimer until libuv has closed it.
};

}  // namespace proxy::net
