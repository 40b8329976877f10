#include "proxy/resp/error_text.h"

#include <cctype>

namespace proxy::resp {

std::string wrong_arity(std::string_view command) {
  return "ERR wrong number of arguments for '" + std::string(command) + "' command";
}

// Redis cuts the name at 128 bytes, and stops adding arguments once they have 128 bytes together.
std::string unknown_command(Args args) {
  std::string list;
  for (std::size_t i = 1; i < args.size() && list.size() < 128; ++i) {
    list.append("'").append(args[i].substr(0, 128 - list.size())).append("' ");
  }
  return "ERR unknown command '" + std::string(args[0].substr(0, 128)) + "', with args beginning with: " + list;
}

std::string unknown_subcommand(std::string_view container, std::string_view sub) {
  std::string upper;
  for (char c : container) upper.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return "ERR unknown subcommand '" + std::string(sub.substr(0, 128)) + "'. Try " + upper + " HELP.";
}

}  // namespace proxy::resp
