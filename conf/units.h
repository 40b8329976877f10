// Values with units, from text and back: "64MB", "3s", counts, weights. Messages name the text and
// what would be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "conf/config.h"
#include "slots/result.h"

namespace conf {

// Decimal digits only; `min` and `max` are inclusive.
[[nodiscard]] slots::Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t min,
                                                       std::uint64_t max);

// A number, whole or with decimals, and B, KB, MB, GB (powers of 10) or KiB, MiB, GiB (powers of
// 2), a blank between them allowed. Without a unit: bytes.
[[nodiscard]] slots::Result<ByteCount> parse_size(std::string_view text);
// The shortest exact text, powers of 10 first: 64000000 is "64MB", 65536 is "64KiB".
[[nodiscard]] std::string print_size(ByteCount bytes);

// A size per second, "20MB/s", or "unlimited", which is 0.
[[nodiscard]] slots::Result<ByteCount> parse_rate(std::string_view text);
[[nodiscard]] std::string print_rate(ByteCount bytes_per_second);

// A number and ms, s, m or h; "0" alone needs no unit. Whole milliseconds, at most a year.
[[nodiscard]] slots::Result<Milliseconds> parse_duration(std::string_view text);
[[nodiscard]] std::string print_duration(Milliseconds duration);

// A finite number, zero or more.
[[nodiscard]] slots::Result<double> parse_weight(std::string_view text);
[[nodiscard]] std::string print_weight(
    double weight);  // As few digits as read back to the same value.

}  // namespace conf
