// RequestStream: a request above limits.stream_request on its way through, without being kept.
//
// Its keys are known from its first arguments; the rest goes to the node as it arrives, on a
// connection of its own.
//
// Thread:  one worker's. Owned by its session; the connection is NodeBackend's and may end first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/backend/backend_connection.h"

namespace proxy::session {

// Finds the end of a frame whose beginning was parsed already. Pure.
class FrameSkipper {
 public:
  // `args_left` arguments are to come, `bytes_left` bytes of the first of them (its header was
  // read; CRLF included).
  FrameSkipper(std::int64_t args_left, std::uint64_t bytes_left)
      : args_left_(args_left), bytes_left_(bytes_left) {}

  // How many of the bytes belong to the frame, up to one that breaks it; check is_done() and
  // failed() then.
  std::size_t take(const char* bytes, std::size_t size);
  [[nodiscard]] bool is_done() const { return args_left_ == 0; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  bool take_header_byte(char c);
  bool take_end_byte(char c);

  std::int64_t args_left_;
  std::uint64_t bytes_left_;
  std::uint64_t length_ = 0;
  std::uint8_t header_bytes_ = 0;
  bool after_return_ = false;  // Behind the header's CR.
  bool failed_ = false;
};

struct RequestStream {
  RequestStream(FrameSkipper frame, backend::BackendConnection* to, slots::SlotId of)
      : skipper(frame), connection(to), slot(of) {}

  FrameSkipper skipper;
  backend::BackendConnection*
      connection;  // Null: lost or answered early; the rest of the request is dropped.
  slots::SlotId slot;
  bool answered = false;
};

}  // namespace proxy::session
