// RequestParser: frames one request of a client: a RESP array of bulk strings, or an inline
// command.
//
// Resumable: a frame that is not complete keeps its FrameState, so that a frame that arrives byte
// by byte costs no more than one that arrives whole. Views point into the caller's bytes; rebase()
// moves them when those bytes move. Limits and texts are those of networking.c in Redis 7.0
// (processMultibulkBuffer, processInlineBuffer), with one difference: line ends must be CRLF
// everywhere, since the bytes are forwarded as received on a shared connection and must mean the
// same to any node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proxy::resp {

struct FrameState {
  std::size_t position = 0;     // Bytes of the frame parsed so far; the whole frame when complete.
  std::int64_t args_left = -1;  // -1: the array header is not read yet.
  std::int64_t bulk_length =
      -1;  // Length of the argument at `position`; -1: its header is not read yet.
  std::vector<std::string_view> args;
  std::string error;  // Set when the outcome is Invalid.

  void clear() {
    position = 0;
    args_left = bulk_length = -1;
    args.clear();
  }
  void rebase(const char* from, const char* to);
  // Whether one argument has more than `limit` bytes, or what was parsed before it.
  [[nodiscard]] bool is_larger_than(std::size_t limit) const {
    return position > limit || (bulk_length >= 0 && static_cast<std::size_t>(bulk_length) > limit);
  }
  // Bytes the frame needs at least, as far as its headers say.
  [[nodiscard]] std::size_t bytes_needed() const {
    return position + (bulk_length >= 0 ? static_cast<std::size_t>(bulk_length) + 2 : 1);
  }
};

struct RequestLimits {
  std::int64_t bulk_bytes_max = 512LL << 20;
  bool authenticated = true;  // Before AUTH, Redis takes 10 arguments of 16 KB at most.
};

enum class FrameOutcome : std::uint8_t { Complete, NeedMore, Invalid };

// Parses the frame that begins at `bytes`. Complete: frame.args are the arguments (none for an
// empty array) and frame.position the frame's length. Requires size > 0 and, on a resumed frame,
// the same leading bytes.
FrameOutcome parse_request(FrameState& frame, const char* bytes, std::size_t size,
                           const RequestLimits& limits);

// An inline command: one line, split as Redis splits it (quotes and escapes). Complete: `words` are
// its arguments, `consumed` the line's length.
FrameOutcome parse_inline(const char* bytes, std::size_t size, std::vector<std::string>& words,
                          std::size_t& consumed, std::string& error);

}  // namespace proxy::resp
