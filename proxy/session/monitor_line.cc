#include "proxy/session/monitor_line.h"

#include <fmt/format.h>

#include <iterator>

#include "proxy/resp/arguments.h"

namespace proxy::session {

namespace {

using resp::CommandId;

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '\\':
      case '"':
        out += '\\';
        out += c;
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\a':
        out += "\\a";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c >= ' ' && c <= '~') {
          out += c;
        } else {
          fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
  }
  out += '"';
}

// The place of HELLO's AUTH, behind which a name and a password stand; 0: there is none.
std::size_t login_of_hello(resp::Args args) {
  for (std::size_t i = 2; i + 2 < args.size(); ++i) {
    if (resp::is_word(args[i], "auth")) return i;
    if (resp::is_word(args[i], "setname")) ++i;
  }
  return 0;
}

}  // namespace

bool is_shown(const resp::CommandSpec& spec) {
  // Redis shows scripts itself, before what they call.
  return spec.calls_script() ||
         (!spec.has(resp::CommandFlag::Admin) && !spec.has(resp::CommandFlag::SkipMonitor));
}

std::string monitor_line(std::uint64_t now_us, unsigned database, std::string_view address,
                         const resp::CommandSpec& spec, resp::Args args) {
  std::string line =
      fmt::format("+{}.{:06} [{} {}]", now_us / 1'000'000, now_us % 1'000'000, database, address);
  const std::size_t login = spec.id == CommandId::Hello ? login_of_hello(args) : 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool is_secret =
        (spec.id == CommandId::Auth && i > 0) || (login != 0 && (i == login + 1 || i == login + 2));
    line += ' ';
    append_quoted(line, is_secret ? "(redacted)" : args[i]);
  }
  return line.append("\r\n");
}

}  // namespace proxy::session
