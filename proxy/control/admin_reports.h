// The admin reports that say what a snapshot holds. Pure.
#pragma once

#include <string>

#include "admin/api.h"
#include "proxy/control/admin_port.h"
#include "proxy/routing_table.h"

namespace proxy::control {

// Empty for a node that is in the map, but not in the configuration any more.
[[nodiscard]] std::string address_text(const NodeRoute& node);

[[nodiscard]] admin::StatusReport status_report(const AdminSnapshot& snapshot);
[[nodiscard]] admin::NodesReport nodes_report(const AdminSnapshot& snapshot);
[[nodiscard]] admin::SlotsReport slots_report(const AdminSnapshot& snapshot);
[[nodiscard]] admin::HealthReport health_report(const AdminSnapshot& snapshot);
// Passwords appear as "(set)".
[[nodiscard]] admin::ConfigReport config_report(const AdminSnapshot& snapshot);
[[nodiscard]] admin::StraysReport strays_report(const AdminSnapshot& snapshot, bool list,
                                                const std::vector<NodeStrayCount>& counts);
[[nodiscard]] admin::HelpReport help_report();

}  // namespace proxy::control
