// Commands that may block. Each goes over a connection of its own, so that nobody else waits; their
// client does, and so do its later requests.
//
// In transactions and scripts they never block: the node sees to that.

#include "proxy/resp/key_finder.h"
#include "proxy/session/blocked_request.h"
#include "proxy/session/commands.h"
#include "proxy/session/replica_wait.h"

namespace proxy::session {

void command_blocking(ClientSession& session, const Request& request) {
  const std::optional<slots::SlotId> slot = slot_of_keys(session, request);
  if (!slot) return;
  // What was sent before goes over another connection, and must be executed before.
  if (!session.is_quiet()) return session.put_off();
  BlockedRequest::begin(session, request, *slot);
}

void command_xread(ClientSession& session, const Request& request) {
  if (resp::block_option(request.args) > 0) return command_blocking(session, request);
  forward_by_keys(session, request);
}

void command_wait(ClientSession& session, const Request& request) {
  if (!session.is_quiet()) return session.put_off();
  ReplicaWait::begin(session, request);
}

}  // namespace proxy::session
