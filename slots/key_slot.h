// slot_of_key(): which of the 16,384 slots a key belongs to.
//
// CRC16 XMODEM of the hashed part, modulo 16384, as in Redis Cluster's specification ("Key
// distribution model").
#pragma once

#include <string_view>

#include "slots/slot.h"

namespace slots {

inline constexpr SlotId kNoSlot = kSlotCount;  // Of what has no key.

// The part of the key that is hashed: what lies between the first '{' and the next '}' when that is
// not empty, else the whole key.
[[nodiscard]] std::string_view hashed_part(std::string_view key);
[[nodiscard]] SlotId slot_of_key(std::string_view key);

}  // namespace slots
