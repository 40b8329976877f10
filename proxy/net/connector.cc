#include "proxy/net/connector.h"

#include <utility>

namespace proxy::net {

void Connector::connect(const conf::Address& address, conf::Milliseconds timeout, Done done) {
  if (auto literal = literal_address(address)) return dial({*literal}, timeout, std::move(done));
  resolver_.resolve(address, [this, timeout, done = std::move(done)](
                                 slots::Result<std::vector<SocketAddress>> found) {
    if (!found) return done(std::unexpected(std::move(found).error()));
    dial(std::move(*found), timeout, done);
  });
}

void Connector::dial(std::vector<SocketAddress> addresses, conf::Milliseconds timeout, Done done) {
  const auto share = timeout / static_cast<int>(addresses.size());
  dialer_.dial(std::move(addresses), share, std::move(done));
}

void Connector::cancel() {
  resolver_.cancel();
  dialer_.cancel();
}

}  // namespace proxy::net
