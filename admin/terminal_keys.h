// TerminalKeys: single keys from a terminal, without the Enter key.
//
// Owns:    the terminal's mode while it lives; Ctrl-C comes as a key, so that the mode is put back.
#pragma once

#include <termios.h>

#include <chrono>
#include <optional>

namespace admin {

class TerminalKeys {
 public:
  // A negative descriptor: no keys ever come.
  explicit TerminalKeys(int descriptor);
  ~TerminalKeys();
  TerminalKeys(const TerminalKeys&) = delete;
  TerminalKeys& operator=(const TerminalKeys&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // The next key, waiting no longer than `limit`.
  [[nodiscard]] std::optional<char> next(std::chrono::milliseconds limit);

 private:
  int descriptor_;
  std::optional<termios> before_;  // Of a terminal.
};

}  // namespace admin
