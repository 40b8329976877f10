#include "conf/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace conf {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the UTF-8 character at `i`; 0 when there is none (overlong forms, surrogates and the
// like included).
std::size_t utf8_length(std::string_view text, std::size_t i) {
  const unsigned char first = byte_at(text, i);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) second_min = 0xA0;
    if (first == 0xED) second_max = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) second_min = 0x90;
    if (first == 0xF4) second_max = 0x8F;
  } else {
    return 0;
  }
  if (i + length > text.size()) return 0;
  if (byte_at(text, i + 1) < second_min || byte_at(text, i + 1) > second_max) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool is_forbidden_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
}

// The first byte that text must not hold; one is enough, since the rest is most likely of the same
// kind.
std::vector<Mistake> check_bytes(std::string_view text, const TextLines& lines) {
  int line = 0;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char byte = byte_at(text, i);
    const std::size_t length = utf8_length(text, i);
    if (length == 0 || is_forbidden_control(byte)) {
      const Place place = lines.place(line, static_cast<int>(i - line_start));
      const std::string_view what = length == 0 ? "is not UTF-8" : "is a control character";
      return {{place.line, place.column,
               fmt::format("byte 0x{:02x} {}; the file must be plain UTF-8 text", byte, what)}};
    }
    if (byte == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
  return {};
}

}  // namespace

TextLines::TextLines(std::string_view text) : text_(text) {
  starts_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string_view TextLines::line(int number) const {
  if (number < 1 || number > count()) return {};
  const std::size_t start = starts_[static_cast<std::size_t>(number) - 1];
  std::string_view line = text_.substr(start, text_.find('\n', start) - start);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

std::string_view TextLines::rest(int line_from_0, int byte_from_0) const {
  if (line_from_0 < 0 || byte_from_0 < 0 || line_from_0 >= count()) return {};
  const std::size_t at =
      starts_[static_cast<std::size_t>(line_from_0)] + static_cast<std::size_t>(byte_from_0);
  return at < text_.size() ? text_.substr(at) : std::string_view{};
}

Place TextLines::place(int line_from_0, int byte_from_0) const {
  const int number = std::clamp(line_from_0 + 1, 1, count());
  const std::string_view before =
      line(number).substr(0, static_cast<std::size_t>(std::max(byte_from_0, 0)));
  const auto characters = std::ranges::count_if(
      before, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return {number, static_cast<int>(characters) + 1};
}

std::vector<Mistake> check_text(std::string_view text, const TextLines& lines) {
  if (text.size() > kYamlBytesMax) {
    return {{1, 1,
             fmt::format("{} bytes is too large; a configuration has at most {}", text.size(),
                         kYamlBytesMax)}};
  }
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return {{1, 1, "the file is UTF-16; save it as UTF-8"}};
  }
  if (auto mistakes = check_bytes(text, lines); !mistakes.empty()) return mistakes;
  std::vector<Mistake> mistakes;
  for (int number = 1; number <= lines.count(); ++number) {
    const std::string_view line = lines.line(number);
    const std::size_t content = line.find_first_not_of(" \t");
    if (content == std::string_view::npos || line[content] == '#') continue;
    const std::size_t tab = line.substr(0, content).find('\t');
    if (tab == std::string_view::npos) continue;
    mistakes.push_back({number, static_cast<int>(tab) + 1,
                        "a tab in the indentation; YAML indents with spaces only"});
  }
  return mistakes;
}

}  // namespace conf
