#include "proxy/net/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proxy/net/resolver.h"

namespace proxy::net {

namespace {

constexpr int kBacklog = 4096;
constexpr int kAcceptsPerTurn = 64;  // So that a burst of connections does not starve the sessions.
// A client that has vanished without a word is noticed after ten minutes, as by Redis's defaults
// (tcp-keepalive 300): one that is blocked says nothing that could fail.
constexpr int kKeepaliveIdleSeconds = 300;
constexpr int kKeepaliveEverySeconds = 100;
constexpr int kKeepaliveTries = 3;

slots::Result<SocketAddress> address_to_bind(const conf::Address& address) {
  if (auto literal = literal_address(address)) return *literal;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return slots::fail(slots::Errc::Unavailable,
                       "can't listen on " + address.text() + ": " + ::gai_strerror(error));
  }
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return result;
}

// A socket file that nobody listens on is a leftover of a process that was killed.
void remove_stale_socket(const SocketAddress& address) {
  int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  if (::connect(probe, address.get(), address.length) != 0 && errno == ECONNREFUSED)
    ::unlink(address.path().c_str());
  ::close(probe);
}

void share(int descriptor) {
  int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
}

// What the listening socket says holds for those that it accepts.
void keep_alive(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  auto set = [&](int option, int value) {
    ::setsockopt(descriptor, IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set(TCP_KEEPINTVL, kKeepaliveEverySeconds);
  set(TCP_KEEPCNT, kKeepaliveTries);
}

// -1: errno says why.
int listen_on(const SocketAddress& address, bool shared) {
  int descriptor = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  int on = 1;
  if (address.family() != AF_UNIX)
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6)
    ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (shared) share(descriptor);
  if (address.family() != AF_UNIX) keep_alive(descriptor);
  if (::bind(descriptor, address.get(), address.length) == 0 && ::listen(descriptor, kBacklog) == 0)
    return descriptor;
  int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

}  // namespace

slots::Result<std::vector<int>> open_listeners(const conf::Address& address, std::size_t count) {
  auto bindable = address_to_bind(address);
  if (!bindable) return std::unexpected(bindable.error());
  if (bindable->family() == AF_UNIX) remove_stale_socket(*bindable);
  std::vector<int> listening;
  while (listening.size() < count) {
    int descriptor = listen_on(*bindable, !listening.empty());
    if (descriptor < 0) {
      int error = errno;
      for (int earlier : listening) ::close(earlier);
      bool in_use = error == EADDRINUSE;
      return slots::fail(in_use ? slots::Errc::Conflict : slots::Errc::Unavailable,
                         "can't listen on " + address.text() + ": " +
                             (in_use ? "address in use" : std::strerror(error)));
    }
    if (listening.empty() && count > 1) share(descriptor);
    listening.push_back(descriptor);
  }
  return listening;
}

void Listener::on_ready(bool, bool, bool) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    int accepted = ::accept4(descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        watch(false, false);
        pause_.start(std::chrono::milliseconds(kAcceptPauseMs), [this] { watch(true, false); });
        on_exhausted_();
      }
      return;
    }
    int on = 1;
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on,
                 sizeof on);  // Fails harmlessly on a Unix socket.
    on_accept_(accepted);
  }
}

}  // namespace proxy::net
