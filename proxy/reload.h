// plan_reload(): what of a changed configuration file can take effect without a restart. Pure.
//
// Limits, timeouts, the log level, passwords and the nodes' addresses can. What listens, how many
// workers there are and where the state is can't. Nodes, weights and slots are ownership: they only
// change by a plan, and show as drift.
#pragma once

#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/slot_map.h"

namespace proxy {

struct Reload {
  conf::Config config;             // What is in force from now on.
  std::vector<std::string> notes;  // What changed, and what needs a restart or a plan; a line each.
};

[[nodiscard]] Reload plan_reload(const conf::Config& now, const conf::Config& wanted,
                                 const slots::SlotMap& map);

}  // namespace proxy
