// Which requests a fence keeps back. Pure.
#pragma once

#include "proxy/resp/command_table.h"
#include "proxy/routing_table.h"

namespace proxy::session {

// Requests that name a key of the fence's slots, and requests without keys that may write any key:
// FLUSHALL, scripts and functions that are not read-only, commands that only the nodes know. A
// request that is wrong (its arity, its number of keys) goes on to its error.
[[nodiscard]] bool keeps_back(const Fence& fence, const resp::CommandTable& commands,
                              resp::Args args);

}  // namespace proxy::session
