// find_keys(): which arguments of a command are keys.
//
// Facts: https://redis.io/docs/reference/key-specs/ and getKeysFromCommand() of Redis 7.0 (db.c). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/resp/command_spec.h"
#include "slots/result.h"

namespace proxy::resp {

// Appends the keys' indexes to the emptied `positions`. No keys is no error. Errors: InvalidArgument with Redis's text
// for arguments that no keys can be found in (a number of keys that is none, or more than there are arguments).
// Requires the command's arity to hold.
[[nodiscard]] slots::Status find_keys(const CommandSpec& spec, Args args, std::vector<std::uint32_t>& positions);

}  // namespace proxy::resp
