// How long a request may block, and how it is said again for the rest of that time. Pure.
//
// Facts: getTimeoutFromObjectOrReply() of Redis 7.0 (timeout.c).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/command_spec.h"

namespace proxy::session {

// Milliseconds; 0: for ever. Nothing: it does not say, or not so that it could be understood, and
// the node answers at once.
[[nodiscard]] std::optional<std::uint64_t> blocking_time(const resp::CommandSpec& spec,
                                                         resp::Args args);

// A stream of which XREAD wants what comes after it was asked: the places of its name and of "$".
struct IdOfNow {
  std::size_t stream = 0;
  std::size_t id = 0;
};
[[nodiscard]] std::vector<IdOfNow> ids_of_now(const resp::CommandSpec& spec, resp::Args args);
// What "$" means at a node, by the beginning of its reply to XINFO STREAM, RESP2.
[[nodiscard]] std::optional<std::string> last_id_in(std::string_view xinfo_reply);

// The same request in RESP, with this id instead of each of `ids_of_now`.
[[nodiscard]] std::string with_ids(resp::Args args, const std::vector<IdOfNow>& ids_of_now,
                                   const std::vector<std::string>& ids);
// The same request in RESP, to block for so long (0: for ever). Requires blocking_time().
[[nodiscard]] std::string with_time(const resp::CommandSpec& spec, resp::Args args,
                                    std::uint64_t time_ms);

}  // namespace proxy::session
