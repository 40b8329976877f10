#include "proxy/net/resolver.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "slots/assert.h"

namespace proxy::net {

namespace {

SocketAddress copy_of(const sockaddr* address, socklen_t length) {
  SocketAddress copy;
  std::memcpy(&copy.storage, address, length);
  copy.length = length;
  return copy;
}

bool path_fits(const std::string& path) { return path.size() < sizeof(sockaddr_un::sun_path); }

SocketAddress unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return copy_of(reinterpret_cast<const sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1));
}

}  // namespace

std::string SocketAddress::path() const {
  if (family() != AF_UNIX) return {};
  return reinterpret_cast<const sockaddr_un*>(&storage)->sun_path;
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const auto* in4 = reinterpret_cast<const sockaddr_in*>(&storage);
    uv_ip4_name(in4, host, sizeof host);
    return fmt::format("{}:{}", host, ntohs(in4->sin_port));
  }
  if (family() == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    uv_ip6_name(in6, host, sizeof host);
    return fmt::format("[{}]:{}", host, ntohs(in6->sin6_port));
  }
  return path();
}

std::optional<SocketAddress> literal_address(const conf::Address& address) {
  if (address.is_unix()) {
    if (!path_fits(address.path)) return std::nullopt;
    return unix_address(address.path);
  }
  sockaddr_in in4{};
  if (uv_ip4_addr(address.host.c_str(), address.port, &in4) == 0) {
    return copy_of(reinterpret_cast<const sockaddr*>(&in4), sizeof in4);
  }
  sockaddr_in6 in6{};
  if (uv_ip6_addr(address.host.c_str(), address.port, &in6) == 0) {
    return copy_of(reinterpret_cast<const sockaddr*>(&in6), sizeof in6);
  }
  return std::nullopt;
}

// One lookup: a request in libuv's pool, or a timer of 0 ms that hands over what was known at once.
struct Resolver::Lookup {
  Resolver* owner = nullptr;  // Null once nobody waits for it.
  Done done;
  std::string host;
  slots::Result<std::vector<SocketAddress>> known;
  union {
    uv_getaddrinfo_t request;
    uv_timer_t timer;
  };
  bool in_pool = false;

  Lookup(Resolver* resolver, Done when_done)
      : owner(resolver), done(std::move(when_done)), request{} {}

  void finish(slots::Result<std::vector<SocketAddress>> result) {
    if (owner == nullptr) return;
    owner->lookup_ = nullptr;
    owner = nullptr;
    std::exchange(done, nullptr)(std::move(result));
  }

  void hand_over(uv_loop_t* loop) {
    SP_ASSERT(uv_timer_init(loop, &timer) == 0);
    timer.data = this;
    uv_timer_start(
        &timer,
        [](uv_timer_t* handle) {
          auto* self = static_cast<Lookup*>(handle->data);
          self->end_timer();
          self->finish(std::move(self->known));
        },
        0, 0);
  }

  void end_timer() {
    uv_close(reinterpret_cast<uv_handle_t*>(&timer),
             [](uv_handle_t* handle) { delete static_cast<Lookup*>(handle->data); });
  }

  static void on_addresses(uv_getaddrinfo_t* request, int status, addrinfo* list) {
    auto* self = static_cast<Lookup*>(request->data);
    if (self->owner != nullptr) self->finish(addresses_of(self->host, status, list));
    uv_freeaddrinfo(list);
    delete self;
  }

  static slots::Result<std::vector<SocketAddress>> addresses_of(const std::string& host, int status,
                                                                const addrinfo* list) {
    std::vector<SocketAddress> addresses;
    for (const addrinfo* entry = status == 0 ? list : nullptr; entry != nullptr;
         entry = entry->ai_next) {
      if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
      addresses.push_back(copy_of(entry->ai_addr, entry->ai_addrlen));
    }
    if (!addresses.empty()) return addresses;
    return slots::fail(slots::Errc::Unavailable,
                       fmt::format("the name \"{}\" does not resolve: {}", host,
                                   status == 0 ? "it has no IP address" : uv_strerror(status)));
  }
};

void Resolver::resolve(const conf::Address& address, Done done) {
  cancel();
  lookup_ = new Lookup(this, std::move(done));
  if (auto literal = literal_address(address)) {
    lookup_->known = std::vector{*literal};
    lookup_->hand_over(loop_);
    return;
  }
  if (address.is_unix()) {
    lookup_->known = slots::fail(slots::Errc::InvalidArgument,
                                 fmt::format("the socket path \"{}\" is too long: {} bytes at most",
                                             address.path, sizeof(sockaddr_un::sun_path) - 1));
    lookup_->hand_over(loop_);
    return;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  lookup_->host = address.host;
  lookup_->request.data = lookup_;
  lookup_->in_pool = true;
  const std::string port = std::to_string(address.port);
  const int status = uv_getaddrinfo(loop_, &lookup_->request, Lookup::on_addresses,
                                    address.host.c_str(), port.c_str(), &hints);
  if (status == 0) return;
  lookup_->in_pool = false;  // A host name that is too long, for one.
  lookup_->known = Lookup::addresses_of(address.host, status, nullptr);
  lookup_->hand_over(loop_);
}

void Resolver::cancel() {
  if (lookup_ == nullptr) return;
  Lookup* lookup = std::exchange(lookup_, nullptr);
  lookup->owner = nullptr;
  lookup->done = nullptr;
  if (lookup->in_pool) {
    uv_cancel(reinterpret_cast<uv_req_t*>(
        &lookup->request));  // One that runs already ends in on_addresses too.
  } else {
    lookup->end_timer();
  }
}

}  // namespace proxy::net
