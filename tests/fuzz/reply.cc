// A node's bytes end where they end, however they are cut, and hiredis agrees on what is a whole
// RESP2 reply.

#include <hiredis/hiredis.h>

#include <cstdint>
#include <string>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_parser.h"
#include "slots/assert.h"

// The name is libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::size_t step = 1 + data[0] % 16;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const char* begin = bytes.data();
  const char* end = begin + bytes.size();
  proxy::resp::ReplyParser whole;
  const char* whole_end = whole.next(begin, end);
  proxy::resp::ReplyParser cut;
  const char* cut_end = nullptr;
  for (const char* p = begin; p < end && cut_end == nullptr && !cut.failed();) {
    const char* chunk_end = static_cast<std::size_t>(end - p) < step ? end : p + step;
    cut_end = cut.next(p, chunk_end);
    p = chunk_end;
  }
  SP_ASSERT(whole_end == cut_end && whole.failed() == cut.failed());

  proxy::resp::ReplyCursor cursor(bytes);
  while (!cursor.read_raw().empty()) {
  }
  proxy::resp::ReplyCursor values(bytes);
  for (int i = 0; i < 100 && (values.read_bulk() || values.read_integer() || values.read_header());
       ++i) {
  }

  // Where hiredis takes a whole RESP2 reply, so do we, and of the same length.
  if (whole_end == nullptr || std::string("+-:$*").find(bytes[0]) == std::string::npos) return 0;
  redisReader* reader = redisReaderCreate();
  redisReaderFeed(reader, begin, static_cast<std::size_t>(whole_end - begin) - 1);
  void* reply = nullptr;
  if (redisReaderGetReply(reader, &reply) == REDIS_OK) SP_ASSERT(reply == nullptr);
  if (reply != nullptr) freeReplyObject(reply);
  redisReaderFree(reader);
  return 0;
}
