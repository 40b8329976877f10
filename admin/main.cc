// slotctl: the operator's command line for a running slotproxy.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "admin/commands.h"

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of the terminal that the standard output is; 0: it is none, or one that can't move its cursor.
std::size_t terminal_columns() {
  winsize size{};
  if (environment("TERM") == "dumb" || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

int main(int count, char** arguments) {
  // A daemon that hangs up while a request is written is an error to report, not to die of.
  std::signal(SIGPIPE, SIG_IGN);
  const bool is_coloured = ::isatty(STDOUT_FILENO) == 1 && environment("NO_COLOR").empty() &&
                           environment("TERM") != "dumb";
  const admin::Surroundings surroundings{.admin_address = environment("SLOTPROXY_ADMIN"),
                                         .admin_password = environment("SLOTPROXY_ADMIN_PASSWORD"),
                                         .style = {.is_coloured = is_coloured},
                                         .columns = terminal_columns(),
                                         .keys = ::isatty(STDIN_FILENO) == 1 ? STDIN_FILENO : -1};
  return admin::run_command_line({arguments + 1, arguments + count}, surroundings, std::cout,
                                 std::cerr);
}
