#include "admin/table.h"

#include <algorithm>

#include "admin/text.h"

namespace admin {

namespace {

std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::None:
      return "";
    case Colour::Good:
      return "\x1b[32m";
    case Colour::Bad:
      return "\x1b[31m";
    case Colour::Doubtful:
      return "\x1b[33m";
    case Colour::Quiet:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

std::string painted(std::string_view text, Colour colour, bool is_coloured) {
  const std::string_view code = is_coloured ? code_of(colour) : "";
  if (code.empty() || text.empty()) return std::string(text);
  return std::string(code).append(text).append("\x1b[0m");
}

std::string Table::text(bool is_coloured) const {
  std::vector<Cell> titles;
  std::vector<std::size_t> widths;
  bool has_titles = false;
  for (const Column& column : columns_) {
    titles.emplace_back(column.title);
    widths.push_back(width_of(column.title));
    has_titles = has_titles || !column.title.empty();
  }
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i].text));
    }
  }
  std::string out;
  if (has_titles) append_line(out, titles, widths, is_coloured);
  for (const std::vector<Cell>& row : rows_) append_line(out, row, widths, is_coloured);
  return out;
}

// Padding is held back until something follows it.
void Table::append_line(std::string& out, const std::vector<Cell>& row,
                        const std::vector<std::size_t>& widths, bool is_coloured) const {
  std::size_t blanks = 0;
  for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
    const std::size_t padding = widths[i] - width_of(row[i].text);
    const bool is_right = columns_[i].align == Align::Right;
    if (is_right) blanks += padding;
    if (!row[i].text.empty()) {
      out.append(blanks, ' ');
      out += painted(row[i].text, row[i].colour, is_coloured);
      blanks = 0;
    }
    if (!is_right) blanks += padding;
    // A column of which nothing is seen anywhere takes no place.
    if (widths[i] > 0) blanks += gap_;
  }
  out += '\n';
}

}  // namespace admin
