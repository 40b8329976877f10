#include "proxy/mover/dial.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proxy/net/resolver.h"

namespace proxy::mover {

namespace {

using Clock = std::chrono::steady_clock;
using net::SocketAddress;
using slots::Errc;
using slots::fail;
using slots::Result;

constexpr std::chrono::milliseconds kInterruptCheck{20};

bool is_interrupted(int interrupt) {
  pollfd polled{interrupt, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

// What the resolving thread and the one that waits for it share; the later of the two frees it.
struct Lookup {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<std::vector<SocketAddress>>> answer;
};

Result<std::vector<SocketAddress>> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    return fail(Errc::Unavailable,
                fmt::format("the name \"{}\" does not resolve: {}", host, ::gai_strerror(status)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return addresses;
}

Result<std::vector<SocketAddress>> resolve(const conf::Address& address, Clock::time_point deadline,
                                           int interrupt) {
  if (auto literal = net::literal_address(address)) return std::vector{*literal};
  if (address.is_unix()) {
    return fail(Errc::Unavailable, address.path + " is too long for the path of a socket");
  }
  auto lookup = std::make_shared<Lookup>();
  std::thread([lookup, host = address.host, port = address.port] {
    auto answer = look_up(host, port);
    const std::lock_guard lock(lookup->mutex);
    lookup->answer = std::move(answer);
    lookup->changed.notify_one();
  }).detach();
  std::unique_lock lock(lookup->mutex);
  while (!lookup->answer && Clock::now() < deadline) {
    lookup->changed.wait_until(lock, std::min(deadline, Clock::now() + kInterruptCheck));
    if (is_interrupted(interrupt)) return fail(Errc::Unavailable, "interrupted");
  }
  if (lookup->answer) return std::move(*lookup->answer);
  return fail(Errc::Timeout, fmt::format("the name \"{}\" does not resolve in time", address.host));
}

Result<int> connect_to(const SocketAddress& address, Clock::time_point deadline, int interrupt) {
  const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  const int socket = ::socket(address.family(), type, 0);
  if (socket < 0) return fail(Errc::Unavailable, std::strerror(errno));
  const auto give_up = [socket](Errc code, const char* why) {
    ::close(socket);
    return fail(code, why);
  };
  if (address.family() != AF_UNIX) {
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  if (::connect(socket, address.get(), address.length) == 0) return socket;
  if (errno != EINPROGRESS && errno != EINTR)
    return give_up(Errc::Unavailable, std::strerror(errno));
  std::array<pollfd, 2> polled = {pollfd{socket, POLLOUT, 0}, pollfd{interrupt, POLLIN, 0}};
  int ready = -1;
  do {
    ready = ::poll(polled.data(), polled.size(), milliseconds_until(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return give_up(Errc::Timeout, "no connection in time");
  if (polled[1].revents != 0) return give_up(Errc::Unavailable, "interrupted");
  int reason = 0;
  socklen_t length = sizeof reason;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &reason, &length);
  if (reason != 0) return give_up(Errc::Unavailable, std::strerror(reason));
  return socket;
}

}  // namespace

Result<int> dial(const conf::Address& address, Clock::time_point deadline, int interrupt) {
  auto addresses = resolve(address, deadline, interrupt);
  if (!addresses) return std::unexpected(std::move(addresses).error());
  slots::Error last{Errc::Unavailable, "no address"};
  for (const SocketAddress& candidate : *addresses) {
    auto socket = connect_to(candidate, deadline, interrupt);
    if (socket) return socket;
    last = std::move(socket).error().in(fmt::format("connecting to {}", candidate.text()));
    if (Clock::now() >= deadline || is_interrupted(interrupt)) break;
  }
  return std::unexpected(std::move(last));
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = deadline - Clock::now();
  if (left <= Clock::duration::zero()) return 0;
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, 60'000));
}

}  // namespace proxy::mover
