// Which requests a fence keeps back. Pure.
#pragma once

#include "proxy/resp/command_table.h"
#include "proxy/routing_table.h"

namespace proxy::session {

// Requests that name a key of the fence's slots, and requests without keys that may write any key:
// FLUSHALL, scripts and functions that are not read-only, commands that only the nodes know. A
// request that is wrong (its arity, its number of keys) goes on to its error.
// Of what is queued in a transaction, EXEC alone is kept back: see Transaction.
[[nodiscard]] bool keeps_back(const Fence& fence, const resp::CommandTable& commands,
                              resp::Args args);

// Whether a request without keys may write any key.
[[nodiscard]] bool may_write_any_key(const resp::CommandSpec& spec);

}  // namespace proxy::session
