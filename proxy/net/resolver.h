// Resolver: a node's address becomes socket addresses without blocking the loop.
//
// Thread:  the loop's own; one Resolver per user and loop.
// Owns:    at most one lookup under way. Destroying or cancelling it means that `done` is never
//          called; the lookup itself may run on in libuv's pool until it ends, so the loop has to
//          be run until it is empty at its end.
// Errors:  InvalidArgument for a Unix path that does not fit, Unavailable for a name that does not
//          resolve.
// Why:     a name is resolved anew for each connection, since a restarted node may come back
//          elsewhere. Literal addresses and paths never enter the pool, where slow lookups of other
//          names could hold them up.
#pragma once

#include <sys/socket.h>
#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/result.h"

namespace proxy::net {

// An IPv4, IPv6 or Unix socket address, ready for connect().
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] int family() const { return storage.ss_family; }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] std::string path() const;  // Unix only, else empty.
  [[nodiscard]] std::string text() const;  // "127.0.0.1:7001", "[::1]:7001" or the path.
};

// The address itself when nothing needs to be looked up (a literal IP or a Unix path that fits),
// else nothing.
[[nodiscard]] std::optional<SocketAddress> literal_address(const conf::Address& address);

class Resolver {
 public:
  using Done = std::function<void(slots::Result<std::vector<SocketAddress>>)>;

  explicit Resolver(uv_loop_t* loop) : loop_(loop) {}
  ~Resolver() { cancel(); }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Calls `done` once, never from inside this call, with at least one address in the order to try
  // them. Cancels a lookup that is still under way. `done` may destroy the Resolver.
  void resolve(const conf::Address& address, Done done);
  void cancel();
  [[nodiscard]] bool is_resolving() const { return lookup_ != nullptr; }

 private:
  struct Lookup;

  uv_loop_t* loop_;
  Lookup* lookup_ = nullptr;  // Frees itself once libuv is through with it.
};

}  // namespace proxy::net
