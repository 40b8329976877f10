// ask_durability(): asks the target whether it would keep all it has, and to save it where that is
// wanted.
#pragma once

#include <cstdint>

#include "proxy/mover/durability.h"
#include "proxy/mover/node_link.h"
#include "slots/result.h"

namespace proxy::mover {

// Errors: those of the link, and the node's words when it does not answer INFO.
[[nodiscard]] slots::Result<Durability> ask_durability(NodeLink& target, DurabilityWatch& watch,
                                                       std::uint64_t now_ms);

}  // namespace proxy::mover
