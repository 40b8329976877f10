// ReplyParser: finds where a node's reply ends, in RESP2 and RESP3, without building anything.
//
// It keeps its place between reads (a header may be cut anywhere), so the bytes themselves can be
// passed on as they come. Nesting is a count of values still to come, not a stack: depth costs
// nothing and can't overflow anything. Protocol: https://redis.io/docs/reference/protocol-spec/
#pragma once

#include <cstddef>
#include <cstdint>

namespace proxy::resp {

class ReplyParser {
 public:
  // Goes on in [p, end). Returns the place behind the reply that is under way, or null when all
  // bytes belong to it and more must come; check failed() then. After an end the next call begins
  // the next reply.
  const char* next(const char* p, const char* end) {
    if (!inside_) [[likely]] {
      if (const char* reply_end = whole_bulk(p, end)) [[likely]]
        return reply_end;
    }
    return next_slowly(p, end);
  }

  [[nodiscard]] bool failed() const { return failed_; }
  // Whether a reply is under way: begun and not ended.
  [[nodiscard]] bool is_inside() const { return inside_; }
  // First byte of the reply that is under way or ended last: '-' is an error, '>' a push (no reply
  // to a request).
  [[nodiscard]] char type() const { return type_; }

 private:
  static constexpr std::uint64_t kValuesMax = 1ULL << 40;
  enum class Place : std::uint8_t { Value, Header, Line, BulkEnd };

  // A bulk string that lies there whole, the commonest reply: its end. Null: anything else.
  const char* whole_bulk(const char* p, const char* end) {
    if (end - p < 8 || *p != '$') return nullptr;
    const char* q = p + 1;
    std::size_t length = static_cast<std::uint8_t>(*q) - '0';
    if (length > 9) return nullptr;
    for (++q; q < p + 6; ++q) {
      std::size_t digit = static_cast<std::uint8_t>(*q) - '0';
      if (digit > 9) break;
      length = length * 10 + digit;
    }
    if (q[0] != '\r' || q[1] != '\n' || static_cast<std::size_t>(end - q) < length + 4)
      return nullptr;
    if (q[length + 2] != '\r' || q[length + 3] != '\n') return nullptr;
    type_ = '$';
    return q + length + 4;
  }
  const char* next_slowly(const char* p, const char* end);
  const char* go_on(const char* p, const char* end);
  const char* line(const char* p, const char* end);
  const char* bulk_end(const char* p, const char* end);
  const char* header(const char* p, const char* end);
  bool take_header(char type, std::int64_t number, bool empty_number);

  std::uint64_t skip_ = 0;          // Bytes of a bulk still to pass; its CRLF follows.
  std::uint8_t line_end_left_ = 0;  // Of that CRLF.
  std::uint64_t values_left_ = 1;   // Values until the reply ends.
  std::uint64_t number_ = 0;        // A header's number so far.
  std::uint8_t digits_ = 0;
  bool negative_ = false;
  bool after_return_ = false;  // Behind a CR: of a header, or perhaps of a line's end.
  bool inside_ = false;
  bool failed_ = false;
  Place place_ = Place::Value;
  char header_type_ = 0;
  char type_ = 0;
};

}  // namespace proxy::resp
