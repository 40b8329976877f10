#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/net/dialer.h"
#include "tests/support/test_loop.h"

namespace {

using proxy::net::Dialer;
using proxy::net::SocketAddress;
using tests::TestLoop;

// A listening socket, or one that is bound and refuses.
class Port {
 public:
  explicit Port(int backlog) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    if (backlog >= 0) REQUIRE(::listen(descriptor_, backlog) == 0);
    address_.length = sizeof(sockaddr_in);
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address_.storage), &address_.length);
  }
  ~Port() { ::close(descriptor_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] const SocketAddress& address() const { return address_; }

 private:
  int descriptor_;
  SocketAddress address_;
};

// What a dialer said, once.
struct Dialled {
  std::optional<slots::Result<int>> result;
  int calls = 0;

  Dialer::Done done() {
    return [this](slots::Result<int> got) {
      result = std::move(got);
      ++calls;
    };
  }
  // The port that the descriptor is connected to.
  [[nodiscard]] int port() const {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(**result, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return 0;
    return ntohs(peer.sin_port);
  }
  ~Dialled() {
    if (result && *result) ::close(**result);
  }
};

// Long enough for what would come at once.
void wait_a_moment(TestLoop& loop) {
  bool is_over = false;
  proxy::net::LoopTimer timer(loop.get());
  timer.start(std::chrono::milliseconds(20), [&] { is_over = true; });
  REQUIRE(loop.run_until([&] { return is_over; }));
}

int port_of(const Port& port) {
  sockaddr_in address{};
  std::memcpy(&address, &port.address().storage, sizeof address);
  return ntohs(address.sin_port);
}

}  // namespace

TEST_CASE("a name whose first address refuses is reached at the next one") {
  TestLoop loop;
  Port refusing(-1);
  Port listening(8);
  Dialled dialled;
  Dialer dialer(loop.get());
  dialer.dial({refusing.address(), refusing.address(), listening.address()},
              std::chrono::seconds(5), dialled.done());
  CHECK(dialled.calls == 0);
  REQUIRE(loop.run_until([&] { return dialled.calls > 0; }));
  REQUIRE(dialled.result->has_value());
  CHECK(dialled.port() == port_of(listening));
  CHECK((::fcntl(**dialled.result, F_GETFL) & O_NONBLOCK) != 0);
}

TEST_CASE("the error is the last address's, and comes once") {
  TestLoop loop;
  Port refusing(-1);
  Dialled dialled;
  Dialer dialer(loop.get());
  dialer.dial({refusing.address(), refusing.address()}, std::chrono::seconds(5), dialled.done());
  CHECK(dialled.calls == 0);
  REQUIRE(loop.run_until([&] { return dialled.calls > 0; }));
  REQUIRE_FALSE(dialled.result->has_value());
  CHECK(dialled.result->error().message == "Connection refused");
  wait_a_moment(loop);
  CHECK(dialled.calls == 1);
}

TEST_CASE("an address that swallows packets costs its share of the time") {
  TestLoop loop;
  Port full(0);  // Once its queue is full, more are neither accepted nor refused.
  std::vector<int> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    [[maybe_unused]] int begun =
        ::connect(waiting.back(), full.address().get(), full.address().length);
  }
  Port listening(8);
  Dialled dialled;
  Dialer dialer(loop.get());
  dialer.dial({full.address(), listening.address()}, std::chrono::seconds(1), dialled.done());
  REQUIRE(loop.run_until([&] { return dialled.calls > 0; }));
  REQUIRE(dialled.result->has_value());
  CHECK(dialled.port() == port_of(listening));
  for (int descriptor : waiting) ::close(descriptor);
}

TEST_CASE("a call that is cancelled, or whose dialer is gone, is never answered") {
  TestLoop loop;
  Port listening(8);
  Dialled dialled;
  Dialer dialer(loop.get());
  dialer.dial({listening.address()}, std::chrono::seconds(5), dialled.done());
  dialer.cancel();
  auto other = std::make_unique<Dialer>(loop.get());
  other->dial({listening.address()}, std::chrono::seconds(5), dialled.done());
  other.reset();
  wait_a_moment(loop);
  CHECK(dialled.calls == 0);
}
