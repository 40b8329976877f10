// ReplyCursor: reads values out of whole RESP2 or RESP3 replies, for replies that the proxy merges.
//
// Pure. Views point into the given bytes. Malformed bytes, and values of another type than asked
// for, give nothing, never a crash; what is read after that is without meaning. Nesting costs no
// stack.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace proxy::resp {

struct ReplyHeader {
  char type = 0;
  // Elements of * ~ >, pairs of % |, bytes of $ = !; -1 for a null. Never more than the bytes
  // behind it can hold.
  std::int64_t count = 0;
};

class ReplyCursor {
 public:
  explicit ReplyCursor(std::string_view bytes) : bytes_(bytes) {}

  // Consumes the first line of a value, not what follows it.
  std::optional<ReplyHeader> read_header();
  // A bulk, verbatim or simple string. Nothing for a null or anything else.
  std::optional<std::string_view> read_bulk();
  std::optional<std::int64_t> read_integer();
  bool skip() { return !read_raw().empty(); }
  // The bytes of one whole value; empty when malformed or at the end.
  std::string_view read_raw();
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::optional<std::string_view> read_line();

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace proxy::resp
