// Redis 7.0's texts for commands that can't be executed, byte for byte (commandCheckExistence() and
// commandCheckArity() in its server.c). Without the leading '-' and CRLF, and of one line whatever
// the arguments hold.
#pragma once

#include <string>
#include <string_view>

#include "proxy/resp/command_spec.h"

namespace proxy::resp {

std::string wrong_arity(std::string_view command);  // "client|setname" for subcommands.
std::string unknown_command(Args args);             // args[0] and what fits of the others.
std::string unknown_subcommand(std::string_view container, std::string_view sub);

}  // namespace proxy::resp
