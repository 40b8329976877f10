#include "proxy/session/script_reads.h"

#include <algorithm>
#include <cctype>

namespace proxy::session {

namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

void skip_blanks(std::string_view& text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.remove_prefix(1);
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// `text` stands behind "redis". Whether it goes on with a call that names its command; then that
// is put into `command`.
bool take_call(std::string_view text, std::string_view& command) {
  skip_blanks(text);
  if (!take(text, ".")) return false;
  skip_blanks(text);
  if (!take(text, "pcall") && !take(text, "call")) return false;
  skip_blanks(text);
  if (!take(text, "(")) return false;
  skip_blanks(text);
  if (text.empty() || (text.front() != '\'' && text.front() != '"')) return false;
  const char quote = text.front();
  text.remove_prefix(1);
  const std::size_t end = text.find(quote);
  if (end == std::string_view::npos) return false;
  command = text.substr(0, end);
  text.remove_prefix(end + 1);
  skip_blanks(text);
  // Nothing that makes another word of it: 'ge' .. 't'.
  return !text.empty() && (text.front() == ',' || text.front() == ')') &&
         std::ranges::all_of(command, is_word_char);
}

}  // namespace

bool may_read(const resp::CommandTable& commands, std::string_view source) {
  // Ways to the functions that do without the word that is looked for.
  for (std::string_view way :
       {"_G", "loadstring", "load", "getfenv", "setfenv", "getmetatable", "rawget", "#!"}) {
    for (std::size_t at = source.find(way); at != std::string_view::npos;
         at = source.find(way, at + 1)) {
      const bool begins = at == 0 || !is_word_char(source[at - 1]);
      const std::size_t end = at + way.size();
      const bool ends = way == "#!" || end == source.size() || !is_word_char(source[end]);
      if (begins && ends) return true;
    }
  }
  constexpr std::string_view kName = "redis";
  for (std::size_t at = source.find(kName); at != std::string_view::npos;
       at = source.find(kName, at + 1)) {
    std::string_view command;
    const std::string_view rest = source.substr(at + kName.size());
    if ((at > 0 && is_word_char(source[at - 1])) || (!rest.empty() && is_word_char(rest.front())))
      return true;
    if (!take_call(rest, command)) return true;
    const resp::CommandSpec* spec = commands.find(command);
    if (spec == nullptr || spec->has(resp::CommandFlag::ReadOnly)) return true;
  }
  return false;
}

}  // namespace proxy::session
