// A request means the same however it is cut: the first byte says how it is chopped. A frame that
// is complete is framed alike by the skipper that streams large requests, and what is taken is
// never more than what is there.

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/resp/request_parser.h"
#include "slots/assert.h"

using proxy::resp::FrameOutcome;
using proxy::resp::FrameState;

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::size_t step = 1 + data[0] % 32;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (bytes[0] != '*') {
    std::vector<std::string> words;
    std::size_t consumed = 0;
    std::string error;
    if (proxy::resp::parse_inline(bytes.data(), bytes.size(), words, consumed, error) ==
        FrameOutcome::Complete) {
      SP_ASSERT(consumed <= bytes.size());
    }
    return 0;
  }
  FrameState whole;
  FrameOutcome outcome = proxy::resp::parse_request(whole, bytes.data(), bytes.size(), {});
  FrameState cut;
  FrameOutcome cut_outcome = FrameOutcome::NeedMore;
  for (std::size_t end = step; cut_outcome == FrameOutcome::NeedMore; end += step) {
    std::size_t known = end < bytes.size() ? end : bytes.size();
    cut_outcome = proxy::resp::parse_request(cut, bytes.data(), known, {});
    if (known == bytes.size()) break;
  }
  SP_ASSERT(cut_outcome == outcome);
  if (outcome == FrameOutcome::Invalid) SP_ASSERT(cut.error == whole.error);
  if (outcome == FrameOutcome::Complete) {
    SP_ASSERT(whole.position <= bytes.size() && cut.position == whole.position &&
              cut.args == whole.args);
  }
  return 0;
}
