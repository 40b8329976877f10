#include "admin/text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "admin/json_fields.h"

namespace admin {

namespace {

struct Unit {
  double size;
  std::string_view name;
};

// The largest unit in which the number, as rounded, is below 1,000.
const Unit& unit_of(double number, const std::array<Unit, 5>& units) {
  for (const Unit& unit : units) {
    if (number / unit.size < 999.5) return unit;
  }
  return units.back();
}

constexpr std::array<Unit, 5> kByteUnits{
    {{1, "B"}, {1e3, "KB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}}};
constexpr std::array<Unit, 5> kCountUnits{
    {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}};

std::string three_digits(double number) {
  if (number < 9.995) return fmt::format("{:.2f}", number);
  if (number < 99.95) return fmt::format("{:.1f}", number);
  return fmt::format("{:.0f}", number);
}

std::string in_unit(std::uint64_t bytes, const Unit& unit) {
  const double number = static_cast<double>(bytes) / unit.size;
  // Bytes come whole, and two digits are enough for a memory.
  if (unit.size == 1 || number >= 99.95) return fmt::format("{:.0f}", number);
  return fmt::format("{:.1f}", number);
}

bool is_control(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return true;
  // U+0080 to U+009F, which some terminals obey as well.
  return byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
}

void append_escaped(std::string& out, char byte) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\x";
      fields::append_hex(out, byte);
  }
}

bool is_plain(std::string_view bytes) {
  if (bytes.empty() || !is_utf8(std::string(bytes))) return false;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = bytes[i];
    if (byte == ' ' || byte == '"' || byte == '\'' || byte == '\\' || is_control(bytes, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string with_thousands(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string short_number(double number) {
  if (number < 9999.5) return with_thousands(static_cast<std::uint64_t>(std::llround(number)));
  const Unit& unit = unit_of(number, kCountUnits);
  return fmt::format("{} {}", three_digits(number / unit.size), unit.name);
}

std::string byte_size(std::uint64_t bytes) {
  const Unit& unit = unit_of(static_cast<double>(bytes), kByteUnits);
  return fmt::format("{} {}", in_unit(bytes, unit), unit.name);
}

std::string memory(std::uint64_t used, std::uint64_t limit) {
  if (limit == 0) return byte_size(used);
  const Unit& unit = unit_of(static_cast<double>(limit), kByteUnits);
  return fmt::format("{} of {} {}", in_unit(used, unit), in_unit(limit, unit), unit.name);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "0.0 %";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string duration(std::uint64_t seconds) {
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (minutes < 60) return fmt::format("{}m {}s", minutes, seconds % 60);
  if (hours < 24) return fmt::format("{}h {}m", hours, minutes % 60);
  return fmt::format("{}d {}h", hours / 24, hours % 24);
}

std::string weight(double value) { return fmt::format("{}", value); }

std::string counted(std::uint64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", with_thousands(number), thing, number == 1 ? "" : "s");
}

std::string printable(std::string_view bytes) {
  return is_plain(bytes) ? std::string(bytes) : in_quotes(bytes);
}

std::string in_quotes(std::string_view bytes) {
  const bool is_text = is_utf8(std::string(bytes));
  std::string out = "\"";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = bytes[i];
    const bool is_high = static_cast<unsigned char>(byte) > 127;
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else if (is_control(bytes, i)) {
      append_escaped(out, byte);
      if (is_high) append_escaped(out, bytes[++i]);
    } else if (is_high && !is_text) {
      append_escaped(out, byte);
    } else {
      out += byte;
    }
  }
  return out + '"';
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const char byte : text) {
    if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) ++width;
  }
  return width;
}

std::string clipped(std::string_view line, std::size_t columns) {
  if (width_of(line) <= columns) return std::string(line);
  std::string text;
  for (std::size_t at = 0, width = 0; at < line.size() && width + 1 < columns; ++width) {
    std::size_t end = at + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) ++end;
    text += line.substr(at, end - at);
    at = end;
  }
  return text + "…";
}

}  // namespace admin
