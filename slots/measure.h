// Measure: what a plan balances.
#pragma once

#include <cstdint>

namespace slots {

enum class Measure : std::uint8_t { Slots, Keys, Bytes, Operations };

}  // namespace slots
