// Logging: spdlog's default logger, set up once from the configuration. No line per request, ever.
#pragma once

#include "conf/config.h"
#include "slots/result.h"

namespace proxy {

// Errors: Io when the file can't be opened.
[[nodiscard]] slots::Status set_up_log(const conf::LogConfig& log);
void set_log_level(conf::LogLevel level);

}  // namespace proxy
