// MoverDesk: how a mover's thread asks the control thread for something and waits for the answer.
//
// Thread:  ask() and post() from any; close() on the control thread. After it every question is
//          answered with Unavailable, those that wait too, and nothing is posted any more.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "slots/result.h"

namespace proxy {

class MoverDesk {
 public:
  using Work = std::function<void()>;
  template <class T>
  using Answer = std::function<void(slots::Result<T>)>;

  // `post` hands work to the control thread, from any thread.
  explicit MoverDesk(std::function<void(Work)> post) : post_(std::move(post)) {}

  // `work` runs on the control thread and calls the answer once, then or later, on that thread.
  template <class T>
  [[nodiscard]] slots::Result<T> ask(std::function<void(Answer<T>)> work) {
    auto place = std::make_shared<std::optional<slots::Result<T>>>();
    const Answer<T> answer = [this, life = life_, place](slots::Result<T> result) {
      if (!*life) return;
      const std::lock_guard guard(mutex_);
      *place = std::move(result);
      answered_.notify_all();
    };
    post([work = std::move(work), answer] { work(answer); });
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return is_closed_ || place->has_value(); });
    if (place->has_value()) return **std::move(place);
    return slots::fail(slots::Errc::Unavailable, "the proxy ends");
  }

  void post(Work work) {
    const std::lock_guard guard(mutex_);
    if (is_closed_) return;
    post_([life = life_, work = std::move(work)] {
      if (*life) work();
    });
  }

  void close() {
    const std::lock_guard guard(mutex_);
    is_closed_ = true;
    *life_ = false;
    answered_.notify_all();
  }

 private:
  std::function<void(Work)> post_;
  std::mutex mutex_;
  std::condition_variable answered_;
  bool is_closed_ = false;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);  // The control thread's.
};

}  // namespace proxy
