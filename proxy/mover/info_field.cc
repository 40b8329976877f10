#include "proxy/mover/info_field.h"

namespace proxy::mover {

std::string_view info_field(std::string_view info, std::string_view name) {
  for (std::size_t at = info.find(name); at != std::string_view::npos;
       at = info.find(name, at + 1)) {
    const std::size_t value = at + name.size();
    const bool begins_line = at == 0 || info[at - 1] == '\n';
    if (!begins_line || value >= info.size() || info[value] != ':') continue;
    return info.substr(value + 1, info.find('\r', value) - value - 1);
  }
  return {};
}

}  // namespace proxy::mover
