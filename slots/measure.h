// Measure: what a plan balances.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slots {

enum class Measure : std::uint8_t { Slots, Keys, Bytes, Operations };
// As people write them, by Measure.
inline constexpr std::array<std::string_view, 4> kMeasureNames{"slots", "keys", "bytes", "ops"};

}  // namespace slots
