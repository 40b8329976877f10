// Reply: what a node answered to the control thread, as a value; and requests and replies as RESP2
// bytes.
//
// Only for control traffic: the data path streams replies through and never builds such trees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proxy::control {

using Command = std::vector<std::string>;  // The name and its arguments, binary safe.

struct Reply {
  enum class Type : std::uint8_t { Nil, Status, Error, Integer, String, Array };

  Type type = Type::Nil;
  std::int64_t integer = 0;     // Integer.
  std::string text;             // Status, Error (its leading word included) and String.
  std::vector<Reply> elements;  // Array.

  [[nodiscard]] bool is_nil() const { return type == Type::Nil; }
  [[nodiscard]] bool is_error() const { return type == Type::Error; }
  [[nodiscard]] bool is_string() const { return type == Type::String; }
  [[nodiscard]] bool is_array() const { return type == Type::Array; }
  // The leading word of an error ("LOADING"), empty for any other reply.
  [[nodiscard]] std::string_view error_word() const;

  static Reply nil() { return {}; }
  static Reply status(std::string text);
  static Reply error(std::string text);
  static Reply integer_of(std::int64_t value);
  static Reply string(std::string text);
  static Reply array(std::vector<Reply> elements);

  friend bool operator==(const Reply&, const Reply&) = default;
};

// The reply as RESP2 bytes, as a node would send it (a nil as the null bulk string).
[[nodiscard]] std::string encode_resp2(const Reply& reply);
// The request as RESP2 bytes.
[[nodiscard]] std::string encode_request(const Command& command);

}  // namespace proxy::control
