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

}  // namespace

slots::Result<int> open_listener(const conf::Address& address, bool shared) {
  auto bindable = address_to_bind(address);
  if (!bindable) return std::unexpected(bindable.error());
  auto failed = [&](int error) {
    bool in_use = error == EADDRINUSE;
    return slots::fail(in_use ? slots::Errc::Conflict : slots::Errc::Unavailable,
                       "can't listen on " + address.text() + ": " +
                           (in_use ? "address in use" : std::strerror(error)));
  };
  int descriptor = ::socket(bindable->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed(errno);
  int on = 1;
  if (bindable->family() == AF_UNIX) {
    remove_stale_socket(*bindable);
  } else {
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared) ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bindable->family() == AF_INET6)
      ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(descriptor, bindable->get(), bindable->length) != 0 ||
      ::listen(descriptor, kBacklog) != 0) {
    int error = errno;
    ::close(descriptor);
    return failed(error);
  }
  return descriptor;
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
