// Table: text in columns that are as wide as their content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace admin {

enum class Colour : std::uint8_t { None, Good, Bad, Doubtful, Quiet };

// The text in that colour when `is_coloured`, else as it is.
[[nodiscard]] std::string painted(std::string_view text, Colour colour, bool is_coloured);

struct Cell {
  Cell(std::string content, Colour paint = Colour::None)  // NOLINT: cells are mostly plain text.
      : text(std::move(content)), colour(paint) {}
  Cell(const char* content) : text(content) {}  // NOLINT: likewise.

  std::string text;
  Colour colour = Colour::None;
};

enum class Align : std::uint8_t { Left, Right };

struct Column {
  std::string title;  // All empty: no line of titles.
  Align align = Align::Left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::size_t gap = 2)
      : columns_(std::move(columns)), gap_(gap) {}

  // Cells that are missing at the end are empty.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  // Lines that end with a line break and bear no blanks before it.
  [[nodiscard]] std::string text(bool is_coloured) const;

 private:
  void append_line(std::string& out, const std::vector<Cell>& row,
                   const std::vector<std::size_t>& widths, bool is_coloured) const;

  std::vector<Column> columns_;
  std::size_t gap_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace admin
