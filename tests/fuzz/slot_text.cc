// Text of slots reads to a set whose own text reads to the same set.

#include <cstdint>
#include <string_view>

#include "slots/assert.h"
#include "slots/key_slot.h"
#include "slots/slot.h"

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  SP_ASSERT(slots::slot_of_key(text) < slots::kSlotCount);
  SP_ASSERT(slots::slot_of_key(text) == slots::slot_of_key(slots::hashed_part(text)) ||
            slots::hashed_part(text).find('{') != std::string_view::npos);
  auto set = slots::parse_slot_set(text);
  if (!set) {
    SP_ASSERT(!set.error().message.empty());
    return 0;
  }
  auto again = slots::parse_slot_set(slots::to_string(*set));
  SP_ASSERT(again && *again == *set);
  return 0;
}
