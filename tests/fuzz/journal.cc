// Any bytes are a journal or a damaged one; the state of a sound one survives its own record.

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/control/state_record.h"
#include "slots/assert.h"

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto contents = proxy::control::read_journal(bytes);
  if (!contents) {
    SP_ASSERT(contents.error().code == slots::Errc::Corrupt);
    return 0;
  }
  SP_ASSERT(contents->whole_bytes <= bytes.size());
  if (!contents->state) return 0;
  const std::string record = proxy::control::encode_record(*contents->state);
  const auto again = proxy::control::read_journal(record);
  SP_ASSERT(again && again->records == 1);
  SP_ASSERT(proxy::control::encode_record(*again->state) == record);
  for (const auto& [id, plan] : again->state->plans)
    SP_ASSERT(!proxy::control::plan_yaml(plan).empty());
  return 0;
}
