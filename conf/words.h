// The small change of messages: text quoted so that it fits a line, and the word somebody meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace conf {

// The text as part of one line: control characters escaped, cut with "…" beyond bytes_max.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t bytes_max);

// The text in double quotes, control characters escaped, shortened when it is long.
[[nodiscard]] std::string in_quotes(std::string_view text);

// The candidate nearest to `word` by edits (a swap of neighbours is one edit); empty when none is
// near enough to be what was meant.
[[nodiscard]] std::string_view closest(std::string_view word,
                                       std::span<const std::string_view> candidates);

}  // namespace conf
