// TestLoop: a libuv loop for one test. Waits for a condition instead of sleeping, and checks that
// nothing is left on the loop at the end.
#pragma once

#include <doctest/doctest.h>
#include <uv.h>

#include <chrono>
#include <functional>

namespace tests {

class TestLoop {
 public:
  TestLoop() { REQUIRE(uv_loop_init(&loop_) == 0); }
  // Requires that everything on the loop has been destroyed before.
  ~TestLoop() {
    run_until([this] { return uv_loop_alive(&loop_) == 0; });
    CHECK(uv_loop_close(&loop_) == 0);
  }
  TestLoop(const TestLoop&) = delete;
  TestLoop& operator=(const TestLoop&) = delete;

  uv_loop_t* get() { return &loop_; }

  // Runs the loop until the condition holds; false when it does not within the deadline.
  bool run_until(const std::function<bool()>& holds,
                 std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
    uv_timer_t timer;
    uv_timer_init(&loop_, &timer);
    bool is_late = false;
    timer.data = &is_late;
    uv_update_time(&loop_);
    uv_timer_start(
        &timer, [](uv_timer_t* t) { *static_cast<bool*>(t->data) = true; },
        static_cast<std::uint64_t>(deadline.count()), 0);
    uv_unref(reinterpret_cast<uv_handle_t*>(&timer));
    while (!holds() && !is_late) uv_run(&loop_, UV_RUN_ONCE);
    bool closed = false;
    timer.data = &closed;
    uv_close(reinterpret_cast<uv_handle_t*>(&timer),
             [](uv_handle_t* t) { *static_cast<bool*>(t->data) = true; });
    while (!closed) uv_run(&loop_, UV_RUN_NOWAIT);
    return holds();
  }

 private:
  uv_loop_t loop_{};
};

}  // namespace tests
