// slotctl's command line: options in, text or JSON out, an exit code.
#pragma once

#include <iosfwd>

#include "admin/session.h"

namespace admin {

// Runs one command line, without the program's name. `simulate` writes to the standard output
// whatever the streams are.
[[nodiscard]] int run_command_line(const Words& arguments, const Surroundings& surroundings,
                                   std::ostream& out, std::ostream& err);

}  // namespace admin
