#include "admin/terminal_keys.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

namespace admin {

TerminalKeys::TerminalKeys(int descriptor) : descriptor_(descriptor) {
  termios mode{};
  if (descriptor_ < 0 || ::tcgetattr(descriptor_, &mode) != 0) return;
  before_ = mode;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  (void)::tcsetattr(descriptor_, TCSANOW, &mode);
}

TerminalKeys::~TerminalKeys() {
  if (before_) (void)::tcsetattr(descriptor_, TCSANOW, &*before_);
}

std::optional<char> TerminalKeys::next(std::chrono::milliseconds limit) {
  if (descriptor_ < 0) {
    std::this_thread::sleep_for(limit);
    return std::nullopt;
  }
  pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
  char key = 0;
  if (::read(descriptor_, &key, 1) == 1) return key;
  if (before_) (void)::tcsetattr(descriptor_, TCSANOW, &*before_);
  before_.reset();
  descriptor_ = -1;  // Whoever typed has gone.
  return std::nullopt;
}

}  // namespace admin
