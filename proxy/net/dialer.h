// Dialer: from the addresses of a name to a connected descriptor, at the first one that accepts.
//
// A name may have addresses that nobody listens on (::1 of localhost), or that swallow packets.
//
// Thread:  the loop's own; one Dialer per user and loop.
// Owns:    the attempt under way. Destroying or cancelling it means that `done` is never called.
// Errors:  Unavailable, in the words of the last address, once none is left. Whoever dials sets the
//          limit of time for all of them.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "proxy/net/loop_timer.h"
#include "proxy/net/resolver.h"
#include "proxy/net/socket.h"
#include "slots/result.h"

namespace proxy::net {

class Dialer {
 public:
  using Done = std::function<void(slots::Result<int>)>;

  explicit Dialer(uv_loop_t* loop) : loop_(loop), timer_(loop) {}
  ~Dialer() { cancel(); }
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // Calls `done` once, never from inside this call; the (non-blocking) descriptor is its own then.
  // An address that does not answer within `share` is given up for the next one; the last one never
  // is. Requires at least one address.
  void dial(std::vector<SocketAddress> addresses, std::chrono::milliseconds share, Done done);
  void cancel();

 private:
  class Attempt;

  void try_next();
  [[nodiscard]] int begin(const SocketAddress& address);
  void on_result(int error);
  void drop_attempt();

  uv_loop_t* loop_;
  LoopTimer timer_;
  std::vector<SocketAddress> addresses_;
  std::size_t next_ = 0;
  std::chrono::milliseconds share_{0};
  Done done_;
  Attempt* attempt_ = nullptr;  // Its own owner: libuv may hold it a little longer.
};

}  // namespace proxy::net
