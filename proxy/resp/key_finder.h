// find_command(), find_keys(): what a request's arguments are: the command, its keys.
//
// Facts: https://redis.io/docs/reference/key-specs/ and getKeysFromCommand() of Redis 7.0 (db.c).
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proxy/resp/command_spec.h"
#include "proxy/resp/command_table.h"
#include "slots/result.h"

namespace proxy::resp {

// The command that the arguments call, or the subcommand, where there are such. Null: unknown, or
// no arguments.
[[nodiscard]] const CommandSpec* find_command(const CommandTable& commands, Args args);

// Puts the keys' indexes into `positions`, in the order in which Redis names them; on an error it
// is empty. No keys is no error. Requires the command's arity to hold. Whatever is wrong besides
// the keys, a node says.
// Errors: InvalidArgument, with the error that the command itself would give, for arguments that no
// keys can be found in (a number of keys that is none or more than there are arguments, XREAD
// without as many ids as streams); and for a learned command whose keys nobody can tell.
[[nodiscard]] slots::Status find_keys(const CommandSpec& spec, Args args,
                                      std::vector<std::uint32_t>& positions);

// What the command does with the key that find_keys() has named at this place, from 0, as COMMAND
// GETKEYSANDFLAGS says it.
[[nodiscard]] KeyAccess key_access(const CommandSpec& spec, Args args, std::size_t place);

// The place of XREAD's or XREADGROUP's BLOCK, which lets it wait for entries: among the options,
// not as a group's or consumer's name. 0: there is none.
[[nodiscard]] std::size_t block_option(Args args);

// The option of SORT whose pattern names keys that may lie on any node: "BY", "GET", or empty.
[[nodiscard]] std::string_view option_with_foreign_keys(Args args);

// The database that COPY names; nothing: none.
[[nodiscard]] std::optional<std::string_view> database_of_copy(Args args);

}  // namespace proxy::resp
