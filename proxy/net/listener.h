// Listener: a listening socket on a worker's loop.
//
// Each worker listens on its own socket of the same address (SO_REUSEPORT), so that the kernel
// spreads connections. A Unix socket exists once: one worker listens and hands accepted descriptors
// over.
//
// Thread:  one loop's. Owns the descriptor it is given.
// Limits:  out of descriptors: accepting pauses for kAcceptPauseMs, and `on_exhausted` is told.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <vector>

#include "conf/config.h"
#include "proxy/net/loop_timer.h"
#include "proxy/net/socket.h"
#include "slots/result.h"

namespace proxy::net {

inline constexpr std::uint64_t kAcceptPauseMs = 100;

// Opens `count` descriptors that listen on the address; a Unix socket can only have one.
//
// The first one is opened without SO_REUSEPORT, so that a second proxy on the same address is told
// instead of getting half the clients; only then it is shared with the others. It is never closed
// on the way: clients wait for a proxy that starts, and one whose connection the kernel has already
// taken must not lose it.
//
// Errors: Conflict "address in use", Unavailable for anything else; both name the address.
[[nodiscard]] slots::Result<std::vector<int>> open_listeners(const conf::Address& address,
                                                             std::size_t count);

class Listener final : public Socket {
 public:
  // `on_accept` takes the (non-blocking) descriptor over.
  Listener(uv_loop_t* loop, std::function<void(int)> on_accept, std::function<void()> on_exhausted)
      : loop_(loop),
        on_accept_(std::move(on_accept)),
        on_exhausted_(std::move(on_exhausted)),
        pause_(loop) {}

  void start(int descriptor) {
    open(loop_, descriptor);
    watch(true, false);
  }
  void stop(std::unique_ptr<Listener> self) {
    pause_.stop();
    close(std::move(self));
  }

 private:
  void on_ready(bool readable, bool writable, bool broken) override;

  uv_loop_t* loop_;
  std::function<void(int)> on_accept_;
  std::function<void()> on_exhausted_;
  LoopTimer pause_;
};

}  // namespace proxy::net
