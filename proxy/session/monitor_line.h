// MONITOR's lines. Pure.
// Format: https://redis.io/commands/monitor/
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/resp/command_spec.h"

namespace proxy::session {

// Whether Redis shows the command: neither what administers nor what should not be seen.
[[nodiscard]] bool is_shown(const resp::CommandSpec& spec);

// "+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"", with its line end. Passwords are hidden.
[[nodiscard]] std::string monitor_line(std::uint64_t now_us, unsigned database,
                                       std::string_view address, const resp::CommandSpec& spec,
                                       resp::Args args);

}  // namespace proxy::session
