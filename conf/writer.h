// to_yaml(): a Config as the text of a configuration file that reads back to it.
#pragma once

#include <string>
#include <string_view>

#include "conf/config.h"

namespace conf {

enum class Secrets {
  LeaveOut,  // A comment stands where a password was; password files are named as ever.
  Include,
};

// Whatever differs from the default, and what is required. Reads back to the same Config, passwords
// that were left out excepted. Requires a Config that parse() could have made.
[[nodiscard]] std::string to_yaml(const Config& config, Secrets secrets = Secrets::LeaveOut);

// Text as a YAML scalar, quoted where it would otherwise read as something else. For block style.
[[nodiscard]] std::string yaml_scalar(std::string_view text);

}  // namespace conf
