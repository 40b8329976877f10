// may_read(): whether a script may call commands that only read. Pure.
#pragma once

#include <string_view>

#include "proxy/resp/command_table.h"

namespace proxy::session {

// False only if every call of the script names its command in so many letters, as in
// redis.call('set', ...), and none of them is of a command that only reads. Whatever is written in
// another way may read.
[[nodiscard]] bool may_read(const resp::CommandTable& commands, std::string_view source);

}  // namespace proxy::session
