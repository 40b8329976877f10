// What can be said about YAML text before any parser has seen it.
#pragma once

#include <string_view>
#include <vector>

#include "conf/loader.h"
#include "conf/yaml_tree.h"

namespace conf {

// The lines of a text and its places, counted in characters as editors do.
class TextLines {
 public:
  explicit TextLines(std::string_view text);  // Keeps the view.

  [[nodiscard]] std::string_view line(
      int number) const;  // From 1; "" beyond the end. Without its line break.
  [[nodiscard]] int count() const { return static_cast<int>(starts_.size()); }
  // Everything from a line and a byte in it, both from 0, to the end of the text.
  [[nodiscard]] std::string_view rest(int line_from_0, int byte_from_0) const;
  // From a line and a byte in it, both from 0, clamped to the text.
  [[nodiscard]] Place place(int line_from_0, int byte_from_0) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

// Everything that makes the text unfit for a YAML parser: too large, not UTF-8, control characters,
// tabs as indentation. Empty when it is fit.
[[nodiscard]] std::vector<Mistake> check_text(std::string_view text, const TextLines& lines);

}  // namespace conf
