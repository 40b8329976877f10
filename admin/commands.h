// slotctl's command line: options in, text or JSON out, an exit code.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "admin/render.h"

namespace admin {

// Documented in --help; scripts rely on them.
enum class Exit : int {
  Ok = 0,
  Refused = 1,      // The daemon's answer is an error, or the health is not ok.
  Usage = 2,        // The command line or a configuration file has mistakes.
  Unreachable = 4,  // No daemon, or no answer in time.
};

// What the program gets from around it.
struct Surroundings {
  std::string admin_address = {};   // $SLOTPROXY_ADMIN
  std::string admin_password = {};  // $SLOTPROXY_ADMIN_PASSWORD
  RenderStyle style = {};
};

// Runs one command line, without the program's name. `simulate` writes to the standard output
// whatever the streams are.
[[nodiscard]] int run_command_line(const std::vector<std::string>& arguments,
                                   const Surroundings& surroundings, std::ostream& out,
                                   std::ostream& err);

}  // namespace admin
