#include "proxy/session/client_address.h"

#include <sys/socket.h>

#include "proxy/net/resolver.h"
#include "proxy/session/client_session.h"

namespace proxy::session {

namespace {

std::string address_text(const ClientSession& session, int (*ask)(int, sockaddr*, socklen_t*)) {
  if (!session.listener().is_tcp) return session.listener().address + ":0";
  net::SocketAddress address;
  address.length = sizeof address.storage;
  auto* raw = reinterpret_cast<sockaddr*>(&address.storage);
  return ask(session.descriptor(), raw, &address.length) == 0 ? address.text() : "?:0";
}

}  // namespace

std::string client_address(const ClientSession& session) {
  return address_text(session, ::getpeername);
}

std::string local_address(const ClientSession& session) {
  return address_text(session, ::getsockname);
}

}  // namespace proxy::session
