// info_field(): a value out of the text of INFO, "name:value" in a line of its own. Pure.
#pragma once

#include <string_view>

namespace proxy::mover {

// Empty when it is not there.
[[nodiscard]] std::string_view info_field(std::string_view info, std::string_view name);

}  // namespace proxy::mover
