// What the mover reads out of nodes' replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/mover/transfer.h"

namespace proxy::mover {

[[nodiscard]] std::uint64_t number_of(std::string_view digits);  // 0 when it is none.
[[nodiscard]] std::string_view bulk_of(std::string_view reply);  // Empty when it is none.
[[nodiscard]] std::int64_t integer_of(std::string_view reply);   // -1 when it is none.
[[nodiscard]] bool is_null(std::string_view reply);
// Milliseconds since 1970, out of TIME's reply.
[[nodiscard]] std::optional<std::int64_t> time_of(std::string_view reply);

// Whether EXEC's reply says that the transaction ran: null when a watched key was touched.
[[nodiscard]] bool is_executed(std::string_view exec);

// What an error reply to a write means.
[[nodiscard]] WriteFate fate_of(std::string_view error_text);
// A node answers a command with what nobody can go on with.
[[nodiscard]] NodeLost refused(Side side, std::string_view command, std::string_view reply);

}  // namespace proxy::mover
