// YamlValue: one YAML document as plain values, each with its place in the text.
//
// Why not yaml-cpp's own nodes: they keep one of two equal keys, have no place for an empty value,
// and fail by exceptions. Here nothing throws, nesting and size are bounded, and a caller sees what
// was written.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/loader.h"

namespace conf {

inline constexpr std::size_t kYamlBytesMax = 1'000'000;
inline constexpr std::size_t kYamlDepthMax = 64;

struct Place {
  int line = 0;    // From 1; 0: nowhere.
  int column = 0;  // From 1, in characters.
  friend bool operator==(const Place&, const Place&) = default;
};

struct YamlEntry;

struct YamlValue {
  enum class Kind { Null, Scalar, List, Map };

  Kind kind = Kind::Null;
  Place place;  // Of the value's first character; a null that is not written stands at its key.
  std::string text;                                     // Scalar only; quotes and escapes resolved.
  std::vector<std::shared_ptr<const YamlValue>> items;  // List only.
  std::vector<YamlEntry> entries;  // Map only: as written, repeated keys included.
};

struct YamlEntry {
  std::shared_ptr<const YamlValue> key;
  std::shared_ptr<const YamlValue> value;
};

// "text", "a list" and so on, as messages say it.
[[nodiscard]] std::string_view kind_in_words(YamlValue::Kind kind);

// The single document in `text`: UTF-8, at most kYamlBytesMax and kYamlDepthMax. Any bytes are fine
// as input. Empty text is a Null. What an alias stands for is shared, not copied. Mistakes: what
// stops the reading, never an empty list.
[[nodiscard]] std::expected<std::shared_ptr<const YamlValue>, std::vector<Mistake>> read_yaml(
    std::string_view text);

}  // namespace conf
