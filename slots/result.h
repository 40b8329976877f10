// Result<T>, Status and Error: how anything in this project fails.
//
// Bad input (a client, a node, a file, an operator) becomes an Error; a broken invariant is an
// SP_ASSERT.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace slots {

enum class Errc : std::uint8_t {
  InvalidArgument,  // Text or a value that breaks a rule; the message says which and what would be
                    // right.
  NotFound,
  AlreadyExists,
  Conflict,     // True once, not any more: a stale epoch, a lock held by another process.
  Corrupt,      // Stored bytes that fail their own checks.
  Unavailable,  // A node, a file or a peer can't be reached now.
  Timeout,
  LimitExceeded,
  Io,
};

struct [[nodiscard]] Error {
  Errc code = Errc::InvalidArgument;
  std::string message;

  // The same error with what was being done in front: error.in("loading shop.yaml").
  [[nodiscard]] Error in(const std::string& doing) && { return {code, doing + ": " + message}; }
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace slots
