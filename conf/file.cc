#include "conf/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace conf {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<slots::Error> system_error(int error) {
  return fail(error == ENOENT ? Errc::NotFound : Errc::Unavailable,
              std::generic_category().message(error));
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t bytes_max, FileKind kind) {
  // Non-blocking, so that a pipe without a writer is seen as what it is instead of waited for.
  const int non_blocking = kind == FileKind::Regular ? O_NONBLOCK : 0;
  const OpenFile file(path, O_RDONLY | O_CLOEXEC | non_blocking);
  if (file.fd() < 0) return system_error(errno);
  struct stat status{};
  if (::fstat(file.fd(), &status) != 0) return system_error(errno);
  if (S_ISDIR(status.st_mode)) return fail(Errc::Unavailable, "it is a folder");
  if (kind == FileKind::Regular && !S_ISREG(status.st_mode))
    return fail(Errc::Unavailable, "it is not a regular file");
  std::string bytes;
  std::array<char, 65536> block;
  while (true) {
    const ssize_t got = ::read(file.fd(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno);
    if (got == 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(got));
    if (bytes.size() > bytes_max) {
      return fail(Errc::LimitExceeded, fmt::format("it has more than {} bytes", bytes_max));
    }
  }
}

}  // namespace conf
