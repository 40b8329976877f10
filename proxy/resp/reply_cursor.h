// ReplyCursor: reads through one complete reply of a node, value by value, without copying or building anything.
//
// Input:   contiguous bytes that the caller keeps alive; RESP2 and RESP3. What it returns points into them.
// Errors:  every read returns nothing (nullopt, false) on bytes that are cut short or not RESP, or on a value of
//          another type than asked for; failed() then stays true and nothing more can be read.
// Why:     merged replies (KEYS, SCAN, MGET, COMMAND) need a look inside; everything else is passed through unread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace proxy::resp {

// The first byte of a value.
enum class ReplyType : char {
  Simple = '+',
  Error = '-',
  Integer = ':',
  Bulk = '$',
  Array = '*',
  Null = '_',
  Boolean = '#',
  Double = ',',
  BigNumber = '(',
  BulkError = '!',
  Verbatim = '=',
  Map = '%',
  Set = '~',
  Push = '>',
  Attribute = '|',
};

struct ReplyHeader {
  ReplyType type = ReplyType::Null;
  bool is_null = false;      // "_", "$-1" or "*-1".
  std::int64_t integer = 0;  // Integer only.
  std::size_t children = 0;  // Values that follow and belong to this one: a map of n pairs has 2n.
  std::string_view text;     // Bulk kinds: the payload (a verbatim one's without "txt:"). Others: the rest of the line.

  [[nodiscard]] bool is_error() const { return type == ReplyType::Error || type == ReplyType::BulkError; }
};

class ReplyCursor {
 public:
  explicit ReplyCursor(std::string_view bytes) : bytes_(bytes) {}

  // The next value's own part; an aggregate's children are read by further calls. An attribute is skipped, so that
  // nobody takes it for the value that it decorates.
  std::optional<ReplyHeader> read_header();

  std::optional<std::string_view> read_string();      // Bulk, simple or verbatim; null fails.
  std::optional<std::int64_t> read_integer();         // ":7"
  std::optional<std::size_t> read_array();            // Array, set, push or map: how many values follow. Null fails.
  std::optional<std::string_view> read_value();       // The bytes of the next whole value, as they are.
  bool skip();                                        // The next whole value, of any depth.

  [[nodiscard]] bool at_end() const { return position_ == bytes_.size(); }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t position() const { return position_; }  // Bytes read so far.

 private:
  std::optional<ReplyHeader> read_own_part();
  std::optional<std::string_view> read_line();
  std::optional<std::string_view> read_payload(std::size_t length);
  bool read_children(ReplyHeader& header, std::size_t per_item);
  std::nullopt_t fail();

  std::string_view bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

}  // namespace proxy::resp
