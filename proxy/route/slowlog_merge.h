// The slow logs of several nodes as one, newest entry first.
//
// Pure. Replies of a server that is no Redis give nothing.
// Protocol: https://redis.io/commands/slowlog-get/
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy::route {

// `replies`: what each node said to SLOWLOG GET, whole RESP replies. At most `count` entries of all
// nodes, RESP. An entry's id becomes one that no other node's entry has.
[[nodiscard]] std::optional<std::string> merge_slowlogs(std::span<const std::string_view> replies,
                                                        std::uint64_t count);

}  // namespace proxy::route
