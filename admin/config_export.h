// export_yaml(): the configuration file that says what is: the options in force, with the nodes,
// weights and ownership of the map. Pure.
#pragma once

#include <string>

#include "admin/api.h"
#include "slots/result.h"

namespace admin {

// Passwords are left out; a comment stands in their place. The reports must be of one epoch.
// Errors: Conflict when they are not; InvalidArgument for an option that this slotctl does not know
// or read, naming it.
[[nodiscard]] slots::Result<std::string> export_yaml(const ConfigReport& config,
                                                     const NodesReport& nodes,
                                                     const SlotsReport& slots);

}  // namespace admin
