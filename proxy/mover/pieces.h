// Pieces: how a value is read piece by piece, as commands that make the same of another name on
// another server. A piece is bounded by bytes and by elements, so that neither server is held up.
//
// Between two pieces the value may change: whoever asks hears of that by the source's feed. What a
// value consists of when it does not change is all read, some elements perhaps twice (SCAN of a
// table that shrinks), which makes no difference for sets, hashes and sorted sets.
//
// Thread:  none; blocks in its Ask.
// Errors:  what the node says that nobody can go on with, and a lost node, become NodeLost.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/mover/node_link.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

// Commands to a node, and a reply to each, good until the next call. The exchange takes so many
// bytes, about.
using Ask = std::function<std::expected<NodeLink::Replies, NodeLost>(
    const std::vector<Words>& commands, std::uint64_t bytes)>;

struct PieceRules {
  std::string name;                     // piece_key().
  std::uint64_t bytes = 256U << 10;     // Of a piece.
  std::uint64_t large_bytes = 1 << 20;  // What takes less, is not large.
  bool target_has_counters = true;      // Of streams (entries added, read): from 7.0 on.
};

[[nodiscard]] std::expected<PieceRead, NodeLost> read_piece(const ReadPiece& read,
                                                            const PieceRules& rules,
                                                            const Ask& source);

// `chunk`: what one step may move.
[[nodiscard]] PieceRules piece_rules_within(std::uint64_t chunk, std::string name,
                                            bool target_has_counters);

// A value whose elements come all at once (SCAN of a compact one) is written in several steps.
[[nodiscard]] std::expected<PieceWritten, NodeLost> write_piece(const WritePiece& write,
                                                                const PieceRules& rules,
                                                                const Ask& target);

// The command that tells how many elements (bytes, of a string) a value of this type has.
[[nodiscard]] std::string_view length_command(std::string_view type);

// What a command takes on the wire, about.
[[nodiscard]] std::uint64_t bytes_of(const Words& command);

constexpr std::uint64_t kElementsMax = 500;  // Of a piece.

// Of the elements of a value: as many as a piece should have.
[[nodiscard]] std::uint64_t elements_of_piece(const PiecePlace& place, const PieceRules& rules);
// Learns from a piece.
void note_elements(PiecePlace& place, std::uint64_t elements, std::uint64_t bytes);

}  // namespace proxy::mover
