#include "proxy/resp/error_text.h"

#include <cctype>

namespace proxy::resp {

namespace {

constexpr std::size_t kShownMax = 128;  // As "%.128s" in Redis's processCommand().

// At most `bytes_max` bytes of `text`, and none from a zero on: Redis prints C strings here.
std::string_view shown(std::string_view text, std::size_t bytes_max) {
  return text.substr(0, bytes_max).substr(0, text.find('\0'));
}

// Line breaks would end the error early.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

std::string wrong_arity(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

// Redis stops adding arguments once they have 128 bytes together, quotes and blanks included.
std::string unknown_command(Args args) {
  std::string list;
  for (std::size_t i = 1; i < args.size() && list.size() < kShownMax; ++i) {
    std::size_t room = kShownMax - list.size();
    list.append("'").append(shown(args[i], room)).append("' ");
  }
  return one_line("ERR unknown command '" + std::string(shown(args[0], kShownMax)) +
                  "', with args beginning with: " + list);
}

std::string unknown_subcommand(std::string_view container, std::string_view sub) {
  std::string upper;
  for (char c : container) {
    upper.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  }
  return one_line("ERR unknown subcommand '" + std::string(shown(sub, kShownMax)) + "'. Try " +
                  upper + " HELP.");
}

}  // namespace proxy::resp
