// read_file(): a whole file, bounded.
#pragma once

#include <cstddef>
#include <string>

#include "slots/result.h"

namespace conf {

enum class FileKind {
  Any,
  Regular,  // A pipe or a device, which could block or never end, is refused.
};

// Errors: NotFound or Unavailable with the system's words, LimitExceeded beyond `bytes_max`; the
// path is not in them.
[[nodiscard]] slots::Result<std::string> read_file(const std::string& path, std::size_t bytes_max,
                                                   FileKind kind);

}  // namespace conf
