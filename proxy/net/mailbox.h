// Mailbox: work handed to a loop by other threads.
//
// Thread:  post() from any; the work runs on the loop's thread, in posting order. Never used per
// command. Lifetime: open() on the loop's thread before anybody posts; close() there too; what is
// posted later is dropped.
#pragma once

#include <uv.h>

#include <functional>
#include <mutex>
#include <vector>

namespace proxy::net {

class Mailbox {
 public:
  using Work = std::function<void()>;

  void open(uv_loop_t* loop) {
    uv_async_init(loop, &async_,
                  [](uv_async_t* handle) { static_cast<Mailbox*>(handle->data)->drain(); });
    async_.data = this;
    std::lock_guard guard(mutex_);
    is_open_ = true;
  }

  void close() {
    {
      std::lock_guard guard(mutex_);
      is_open_ = false;
      box_.clear();
    }
    uv_close(reinterpret_cast<uv_handle_t*>(&async_), nullptr);
  }

  void post(Work work) {
    std::lock_guard guard(mutex_);
    if (!is_open_) return;
    box_.push_back(std::move(work));
    uv_async_send(&async_);
  }

 private:
  // uv_async_send coalesces, so one wake-up empties the whole box.
  void drain() {
    std::vector<Work> works;
    {
      std::lock_guard guard(mutex_);
      works.swap(box_);
    }
    for (Work& work : works) work();
  }

  uv_async_t async_{};
  std::mutex mutex_;
  std::vector<Work> box_;
  bool is_open_ = false;
};

}  // namespace proxy::net
