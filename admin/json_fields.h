// to_json() and from_json(): a report as JSON and back, from one list of its fields.
//
// A report is a struct with
//   template <class Self, class Fields> static void describe(Self& self, Fields& field);
// which calls field("name", self.member) for each of its fields. A field may be text, bool, a
// number, Bytes, another report, or a vector, optional or string map of those.
//
// Optional fields are left out when empty. The reader ignores fields that it does not know and
// keeps defaults for missing ones, so that the two sides need not be of one version.
// Errors: Corrupt, naming the field; no exception leaves this file.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slots/result.h"

namespace admin {

// Text that may be anything, such as a key. In JSON a string when it is UTF-8, else the object
// {"text": bytes above 127 as \xHH, "hex": all bytes}.
struct Bytes {
  std::string raw = {};
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

using Json = nlohmann::ordered_json;

[[nodiscard]] inline bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

namespace fields {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

inline void append_hex(std::string& out, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  out += kHexDigits[value >> 4];
  out += kHexDigits[value & 15];
}

inline std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kHexDigits.find(hex[i]);
    const std::size_t low = kHexDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

template <class T>
Json write(const T& value);

class Writer {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    json_[name] = write(value);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) json_[name] = write(*value);
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

inline Json write_value(const Bytes& bytes) {
  if (is_utf8(bytes.raw)) return bytes.raw;
  std::string text;
  std::string hex;
  for (const char byte : bytes.raw) {
    append_hex(hex, byte);
    if (static_cast<unsigned char>(byte) < 128) {
      text += byte;
    } else {
      text += "\\x";
      append_hex(text, byte);
    }
  }
  return Json{{"text", text}, {"hex", hex}};
}

template <class T>
Json write_value(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(write(value));
  return json;
}

template <class T>
Json write_value(const std::map<std::string, T>& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = write(value);
  return json;
}

template <class T>
Json write(const T& value) {
  if constexpr (requires(Writer& writer) { T::describe(value, writer); }) {
    Writer writer;
    T::describe(value, writer);
    return writer.take();
  } else if constexpr (requires { write_value(value); }) {
    return write_value(value);
  } else {
    return Json(value);
  }
}

// Each read_value() says whether `json` is of the right kind.
inline bool read_value(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get_ref<const std::string&>();
  return true;
}

inline bool read_value(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}

inline bool read_value(const Json& json, std::uint64_t& value) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<std::uint64_t>();
  return true;
}

inline bool read_value(const Json& json, double& value) {
  if (!json.is_number()) return false;
  value = json.get<double>();
  return true;
}

inline bool read_value(const Json& json, Bytes& value) {
  if (json.is_string()) return read_value(json, value.raw);
  if (!json.is_object() || !json.contains("hex") || !json["hex"].is_string()) return false;
  auto bytes = from_hex(json["hex"].get_ref<const std::string&>());
  if (!bytes) return false;
  value.raw = std::move(*bytes);
  return true;
}

template <class T>
bool read(const Json& json, T& value, std::string& mistake);

class Reader {
 public:
  Reader(const Json& json, std::string& mistake) : json_(json), mistake_(mistake) {}

  template <class T>
  void operator()(const char* name, T& value) {
    const auto found = json_.find(name);
    if (!mistake_.empty() || found == json_.end()) return;
    if (!read(*found, value, mistake_) && mistake_.empty()) mistake_ = name;
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) {
    const auto found = json_.find(name);
    if (!mistake_.empty() || found == json_.end() || found->is_null()) return;
    if (!read(*found, value.emplace(), mistake_) && mistake_.empty()) mistake_ = name;
  }

 private:
  const Json& json_;
  std::string& mistake_;
};

template <class T>
bool read_items(const Json& json, std::vector<T>& values, std::string& mistake) {
  if (!json.is_array()) return false;
  for (const Json& item : json) {
    if (!read(item, values.emplace_back(), mistake)) return false;
  }
  return true;
}

template <class T>
bool read_items(const Json& json, std::map<std::string, T>& values, std::string& mistake) {
  if (!json.is_object()) return false;
  for (const auto& [name, item] : json.items()) {
    if (!read(item, values[name], mistake)) return false;
  }
  return true;
}

template <class T>
bool read(const Json& json, T& value, std::string& mistake) {
  if constexpr (requires(Reader& reader) { T::describe(value, reader); }) {
    if (!json.is_object()) return false;
    Reader reader(json, mistake);
    T::describe(value, reader);
    return mistake.empty();
  } else if constexpr (requires { read_value(json, value); }) {
    return read_value(json, value);
  } else {
    return read_items(json, value, mistake);
  }
}

}  // namespace fields

// One line.
template <class Report>
[[nodiscard]] std::string to_json(const Report& report) {
  return fields::write(report).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Report>
[[nodiscard]] slots::Result<Report> from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return slots::fail(slots::Errc::Corrupt, "the answer is no JSON object");
  }
  Report report;
  std::string mistake;
  if (!fields::read(json, report, mistake)) {
    return slots::fail(slots::Errc::Corrupt, "field \"" + mistake + "\" is not as expected");
  }
  return report;
}

}  // namespace admin
