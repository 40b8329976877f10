// Reports about what slots do, as the admin port answers them. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "admin/heat_api.h"
#include "proxy/routing_table.h"
#include "slots/slot_census.h"
#include "slots/slot_heat.h"
#include "slots/top_keys.h"

namespace proxy::control {

// What is known of slots and nodes.
struct HeatFacts {
  slots::SlotRates rates = {};
  std::shared_ptr<const slots::SlotCensus> census = {};  // Null: keys were never counted.
  std::chrono::seconds census_age{0};
  std::map<std::string, double> latency_p99_ms = {};  // By node; of those that were measured.
};

[[nodiscard]] admin::HeatReport heat_report(const RoutingTable& table, const HeatFacts& facts,
                                            std::size_t count);
[[nodiscard]] admin::HotKeysReport hot_keys_report(const RoutingTable& table,
                                                   const slots::TopKeys& keys,
                                                   std::chrono::seconds watched, std::size_t count);

}  // namespace proxy::control
