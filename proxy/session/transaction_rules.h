// What becomes of a command between MULTI and EXEC. Pure.
//
// A transaction runs on one node. So commands about keys of one slot are the node's, commands about
// the client's own connection the proxy's, and what means all nodes or all clients has no place in
// one.
#pragma once

#include <cstdint>

#include "proxy/resp/command_spec.h"

namespace proxy::session {

enum class QueuedAs : std::uint8_t {
  NodeCommand,   // The node executes it with the others.
  OwnAnswer,     // The proxy answers it, in its place among the others.
  MeansAll,      // Refused: it means all nodes or all clients.
  ChangesReply,  // Refused: it changes how the transaction's own reply would be written.
  AsUsual,       // As outside of a transaction: a node's command, or refused by its handler.
  AtOnce,        // Not queued: MULTI, EXEC, DISCARD, WATCH, QUIT, RESET.
};

[[nodiscard]] QueuedAs queued_as(const resp::CommandSpec& spec, resp::Args args);

}  // namespace proxy::session
