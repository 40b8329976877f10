#include "conf/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace conf {
namespace {

constexpr std::size_t kQuotedBytesMax = 80;
constexpr std::size_t kWordBytesMax = 40;  // No option is longer; bounds the work on hostile input.

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Damerau-Levenshtein distance (optimal string alignment), three rows at a time.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

// "pass" is a beginning of "password", and "warn" of "warning".
bool is_beginning(std::string_view part, std::string_view word) {
  constexpr std::size_t kBeginningMin = 4;
  return part.size() >= kBeginningMin && word.starts_with(part);
}

}  // namespace

std::string one_line(std::string_view text, std::size_t bytes_max) {
  std::string out;
  std::size_t shown = std::min(text.size(), bytes_max);
  // Never half a character: the message must stay valid UTF-8.
  while (shown > 0 && shown < text.size() && is_continuation(text[shown])) --shown;
  for (const char c : text.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (shown < text.size()) out += "…";
  return out;
}

std::string in_quotes(std::string_view text) { return '"' + one_line(text, kQuotedBytesMax) + '"'; }

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > kWordBytesMax) return {};
  std::string_view best;
  // A third of the word may be wrong: "prot" is "port", "foo" is nothing.
  std::size_t best_edits = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view candidate : candidates) {
    const bool is_cut_short = is_beginning(word, candidate) || is_beginning(candidate, word);
    const std::size_t edits = is_cut_short ? 1 : edits_between(word, candidate);
    if (edits < best_edits) {
      best_edits = edits;
      best = candidate;
    }
  }
  return best;
}

}  // namespace conf
