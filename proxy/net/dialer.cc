#include "proxy/net/dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "slots/assert.h"

namespace proxy::net {

namespace {

int open_socket(int family) {
  int descriptor = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 && family != AF_UNIX) {
    int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  return descriptor;
}

}  // namespace

class Dialer::Attempt final : public Socket {
 public:
  Attempt(Dialer& dialer, uv_loop_t* loop, int descriptor) : dialer_(dialer) {
    open(loop, descriptor);
    watch(false, true);
  }
  void drop() { close(std::unique_ptr<Socket>(this)); }
  int hand_over() { return release(std::unique_ptr<Socket>(this)); }

 private:
  void on_ready(bool, bool, bool broken) override {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    dialer_.on_result(error == 0 && broken ? EIO : error);
  }

  Dialer& dialer_;
};

void Dialer::dial(std::vector<SocketAddress> addresses, std::chrono::milliseconds share,
                  Done done) {
  SP_ASSERT(!addresses.empty());
  cancel();
  addresses_ = std::move(addresses);
  next_ = 0;
  share_ = share;
  done_ = std::move(done);
  try_next();
}

void Dialer::cancel() {
  timer_.stop();
  drop_attempt();
  done_ = nullptr;
}

void Dialer::drop_attempt() {
  if (attempt_ != nullptr) std::exchange(attempt_, nullptr)->drop();
}

void Dialer::try_next() {
  drop_attempt();
  int error = 0;
  do {
    error = begin(addresses_[next_++]);
  } while (error != 0 && next_ < addresses_.size());
  if (error != 0) {
    // Known at once, but not told from inside dial().
    timer_.start(std::chrono::milliseconds(0), [this, error] { on_result(error); });
  } else if (next_ < addresses_.size()) {
    timer_.start(share_, [this] { try_next(); });
  }
}

// 0, or why it can't even begin.
int Dialer::begin(const SocketAddress& address) {
  int descriptor = open_socket(address.family());
  if (descriptor < 0) return errno;
  if (::connect(descriptor, address.get(), address.length) != 0 && errno != EINPROGRESS &&
      errno != EAGAIN) {
    int error = errno;
    ::close(descriptor);
    return error;
  }
  attempt_ = new Attempt(*this, loop_, descriptor);
  return 0;
}

void Dialer::on_result(int error) {
  timer_.stop();
  if (error != 0 && next_ < addresses_.size()) return try_next();
  Done done = std::exchange(done_, nullptr);
  if (error == 0) return done(std::exchange(attempt_, nullptr)->hand_over());
  drop_attempt();
  done(slots::fail(slots::Errc::Unavailable, std::strerror(error)));
}

}  // namespace proxy::net
