#include "proxy/pubsub/glob.h"

#include <algorithm>

namespace proxy::pubsub {

namespace {

// A set, from behind its bracket; `at` ends up behind it. A set that does not end ends with the
// pattern.
bool set_matches(std::string_view pattern, std::size_t& at, char c) {
  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  bool is_in = false;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      is_in |= pattern[at + 1] == c;
      at += 2;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      auto [low, high] = std::minmax(pattern[at], pattern[at + 2]);
      is_in |= c >= low && c <= high;
      at += 3;
    } else {
      is_in |= pattern[at] == c;
      ++at;
    }
  }
  if (at < pattern.size()) ++at;
  return is_in != is_negated;
}

// What stands at `at`, which is no star and ends up behind it, against one character.
bool element_matches(std::string_view pattern, std::size_t& at, char c) {
  const char element = pattern[at++];
  if (element == '?') return true;
  if (element == '[') return set_matches(pattern, at, c);
  if (element == '\\' && at < pattern.size()) return pattern[at++] == c;
  return element == c;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (name.empty()) return pattern.empty();
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t at = 0;
  std::size_t next = 0;             // In the name.
  std::size_t behind_star = kNone;  // The last star takes what lies between.
  std::size_t star_ends = 0;
  while (next < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      behind_star = ++at;
      star_ends = next;
      continue;
    }
    if (at < pattern.size() && element_matches(pattern, at, name[next])) {
      ++next;
      continue;
    }
    if (behind_star == kNone) return false;
    at = behind_star;
    next = ++star_ends;
  }
  return pattern.find_first_not_of('*', at) == kNone;
}

}  // namespace proxy::pubsub
