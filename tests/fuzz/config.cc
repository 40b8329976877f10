// Any text is a configuration or a list of mistakes; a configuration that is written back reads to
// the same.

#include <cstdint>
#include <string_view>

#include "conf/loader.h"
#include "conf/writer.h"
#include "slots/assert.h"

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto parsed = conf::parse("fuzz.yaml", {reinterpret_cast<const char*>(data), size});
  if (!parsed) {
    SP_ASSERT(!parsed.error().list.empty());
    SP_ASSERT(!parsed.error().text().empty());
    return 0;
  }
  auto again = conf::parse("fuzz.yaml", conf::to_yaml(*parsed, conf::Secrets::Include));
  SP_ASSERT(again && *again == *parsed);
  return 0;
}
