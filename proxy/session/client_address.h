// A client's ends of its connection, as Redis writes them: "127.0.0.1:51324".
#pragma once

#include <string>

namespace proxy::session {

class ClientSession;

// The client's own. Of a Unix socket, whose clients have no name: that of the socket.
[[nodiscard]] std::string client_address(const ClientSession& session);
// The one that it has connected to.
[[nodiscard]] std::string local_address(const ClientSession& session);

}  // namespace proxy::session
