// Figures and keys as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace admin {

[[nodiscard]] std::string with_thousands(std::uint64_t number);  // "16,384"
// Up to four digits as they are, then three: "1,204", "41.2 k", "1.21 M", "403 k".
[[nodiscard]] std::string short_number(double number);
[[nodiscard]] std::string byte_size(
    std::uint64_t bytes);  // Powers of 10: "512 B", "1.1 MB", "61 GB"
// "1.1 of 4.0 GB", or "1.1 GB" without a limit (0).
[[nodiscard]] std::string memory(std::uint64_t used, std::uint64_t limit);
[[nodiscard]] std::string percent(std::uint64_t part, std::uint64_t whole);  // "25.0 %"
[[nodiscard]] std::string duration(std::uint64_t seconds);  // "12 s", "5m 3s", "3h 12m", "3d 4h"
[[nodiscard]] std::string weight(double value);             // "2", "0.5"
// "1 key", "2 keys", "1,204 keys"
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view thing);

// As it is when a terminal can show it and nobody can misread it; else in double quotes, with
// backslash escapes for quotes, control characters and bytes that are no UTF-8.
[[nodiscard]] std::string printable(std::string_view bytes);
[[nodiscard]] std::string in_quotes(std::string_view bytes);  // The same, always in quotes.

// Columns on a terminal: one for each code point.
[[nodiscard]] std::size_t width_of(std::string_view text);
// Without what would not fit, for which a "…" stands.
[[nodiscard]] std::string clipped(std::string_view line, std::size_t columns);

}  // namespace admin
