// Streams in pieces: entries in their order, and with each stretch of them what is pending of it.
//
// Entries that were deleted while they are pending are put in as well, at their place, and deleted
// once they are pending: later they could not be put in any more.
#pragma once

#include <expected>

#include "proxy/mover/pieces.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

// As read_piece(), whose place is in a stream.
[[nodiscard]] std::expected<PieceRead, NodeLost> read_stream(const ReadPiece& read,
                                                             const PieceRules& rules,
                                                             const Ask& source);

}  // namespace proxy::mover
