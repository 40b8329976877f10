// drift(): where the configuration file and the map in force disagree.
#pragma once

#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/slot_map.h"

namespace conf {

// One line per difference, in words: nodes that are new or gone, weights, and slots with another
// owner. Empty when there is none. A file that lists no slots says nothing about them, so that only
// its nodes can differ.
[[nodiscard]] std::vector<std::string> drift(const Config& config, const slots::SlotMap& map);

}  // namespace conf
