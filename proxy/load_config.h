// load_config(): conf::load() and what the daemon alone knows of a configuration: which commands
// there are, for users' rules and for lists of commands.
#pragma once

#include <expected>
#include <string>

#include "conf/config.h"
#include "conf/loader.h"

namespace proxy {

[[nodiscard]] std::expected<conf::Config, conf::Mistakes> load_config(const std::string& path);

}  // namespace proxy
