// AdminSocket: the listening socket of the admin port, a Unix socket or TCP.
//
// A Unix socket has mode 0600 from its first moment on. Missing folders above it are made, with
// mode 0700; one that others could tamper with is refused. A socket file that a dead daemon left
// behind is replaced, one that answers is not.
//
// Owns:    the descriptor until release(), and the socket file, which is removed with this object
//          unless another one stands there by then.
// Errors:  Conflict when the address is in use; InvalidArgument for a path or a name that can't be
//          one; AlreadyExists for a file that is no socket; Io for what the system refuses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>

#include "conf/config.h"
#include "slots/result.h"

namespace proxy::control {

class AdminSocket {
 public:
  // Bound and listening, close-on-exec and non-blocking. Names of TCP addresses resolve here, which
  // may take its time.
  [[nodiscard]] static slots::Result<AdminSocket> open(const conf::Address& address);

  AdminSocket(AdminSocket&& other) noexcept;
  AdminSocket& operator=(AdminSocket&& other) = delete;
  ~AdminSocket();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  // The caller owns the descriptor from now on; the file stays this object's.
  [[nodiscard]] int release();
  // As given, but with the port that was bound when 0 was asked for.
  [[nodiscard]] const conf::Address& address() const { return address_; }

 private:
  AdminSocket() = default;
  static slots::Result<AdminSocket> open_unix(const conf::Address& address);
  static slots::Result<AdminSocket> open_tcp(const conf::Address& address);

  // Tells our file from another one at the same path; inode numbers alone are used again soon.
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    timespec changed{};
  };

  int descriptor_ = -1;
  conf::Address address_;
  bool has_file_ = false;
  FileId file_;
};

}  // namespace proxy::control
