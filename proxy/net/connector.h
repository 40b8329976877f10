// Connector: from a node's address to a connected descriptor: a name is looked up, and its
// addresses are tried in turn.
//
// Thread:  the loop's own; one Connector per user and loop.
// Owns:    the try under way. Destroying or cancelling it means that `done` is never called.
// Errors:  the Resolver's and the Dialer's. Whoever connects sets the limit of time for all of it.
#pragma once

#include <chrono>
#include <vector>

#include "conf/config.h"
#include "proxy/net/dialer.h"
#include "proxy/net/resolver.h"

namespace proxy::net {

class Connector {
 public:
  using Done = Dialer::Done;

  explicit Connector(uv_loop_t* loop) : resolver_(loop), dialer_(loop) {}

  // Calls `done` once, never from inside this call; the (non-blocking) descriptor is its own then.
  // Each address has its share of `timeout`, but for the last one, which is never given up.
  void connect(const conf::Address& address, conf::Milliseconds timeout, Done done);
  void cancel();

 private:
  void dial(std::vector<SocketAddress> addresses, conf::Milliseconds timeout, Done done);

  Resolver resolver_;
  Dialer dialer_;
};

}  // namespace proxy::net
