#include "proxy/net/loop_timer.h"

#include <algorithm>
#include <utility>

#include "slots/assert.h"

namespace proxy::net {

struct LoopTimer::Handle {
  uv_timer_t timer{};
  std::function<void()> fire;
};

LoopTimer::LoopTimer(uv_loop_t* loop) : handle_(new Handle) {
  SP_ASSERT(uv_timer_init(loop, &handle_->timer) == 0);
  handle_->timer.data = handle_;
}

LoopTimer::~LoopTimer() {
  handle_->fire = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
           [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
}

void LoopTimer::start(std::chrono::milliseconds delay, std::function<void()> fire) {
  handle_->fire = std::move(fire);
  // The loop's clock stands still during a turn: without this a long turn would make the timer
  // early.
  uv_update_time(handle_->timer.loop);
  uv_timer_start(
      &handle_->timer,
      [](uv_timer_t* timer) { std::exchange(static_cast<Handle*>(timer->data)->fire, nullptr)(); },
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, delay.count())), 0);
}

void LoopTimer::stop() {
  uv_timer_stop(&handle_->timer);
  handle_->fire = nullptr;
}

bool LoopTimer::is_running() const {
  return uv_is_active(reinterpret_cast<const uv_handle_t*>(&handle_->timer)) != 0;
}

}  // namespace proxy::net
