// CLIENT PAUSE: what it asks for, which requests wait for its end, and the pause that is in force.
//
// A pause holds this proxy's clients, never the nodes'. Rules and texts are Redis 7.0's.
//
// Thread:  ClientPause is shared by all workers; the rest is pure.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "proxy/resp/command_spec.h"
#include "slots/result.h"

namespace proxy::session {

enum class PauseMode : std::uint8_t {
  None,
  Write,  // Requests that may write wait.
  All,    // All requests wait, CLIENT UNPAUSE among them: only time ends such a pause.
};

class ClientPause {
 public:
  // Whether there may be one; for the way of every command.
  [[nodiscard]] bool is_set() const { return word_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] PauseMode mode(std::uint64_t now_ms) const;
  // One in force only grows: the stricter mode, the later end.
  void begin(PauseMode mode, std::uint64_t now_ms, std::uint64_t duration_ms);
  void end() { word_.store(0); }
  // Commands pass more cheaply then.
  void forget_if_over(std::uint64_t now_ms);
  // How many pauses have begun: what was learned in an earlier one may not be true any more.
  [[nodiscard]] std::uint64_t count() const { return count_.load(); }

 private:
  // On a cache line of its own, since every worker reads it: the end in ms, times 4, and the mode.
  alignas(64) std::atomic<std::uint64_t> word_{0};
  std::atomic<std::uint64_t> count_{0};
};

struct PauseRequest {
  PauseMode mode = PauseMode::All;
  std::uint64_t duration_ms = 0;
};

// CLIENT PAUSE's arguments. Errors: InvalidArgument with Redis's text.
[[nodiscard]] slots::Result<PauseRequest> parse_pause(resp::Args args);

enum class MayWrite : std::uint8_t {
  No,
  Yes,
  SaysScript,    // EVALSHA: the source of the script that args[1] names says so.
  SaysFunction,  // FCALL: the node knows of the function that args[1] names.
};

// Whether a request counts as a write for a pause: it writes, or it may send something to replicas
// (PUBLISH, PFCOUNT). Required: its arity is right.
[[nodiscard]] MayWrite may_write(const resp::CommandSpec& spec, resp::Args args);

// Whether the script's first line says flags=no-writes.
[[nodiscard]] bool declares_no_writes(std::string_view script);

}  // namespace proxy::session
