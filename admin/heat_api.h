// The admin protocol's part about what slots do: the report of SLOTS HEAT. See api.h for how words
// and reports travel.
//
// SLOTS HEAT [N]               the N (10) slots with most traffic: HeatReport
// Shared by daemon and CLI, and header-only for that reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "admin/api.h"

namespace admin {

// Per second: over the last ten to twenty seconds, and over the last minute or little more.
struct SlotHeat {
  std::uint64_t slot = 0;
  std::string node = {};
  double operations = 0;
  double bytes = 0;  // Of requests and replies.
  double operations_minute = 0;
  double bytes_minute = 0;

  friend bool operator==(const SlotHeat&, const SlotHeat&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("slot", self.slot);
    field("node", self.node);
    field("operations", self.operations);
    field("bytes", self.bytes);
    field("operations_minute", self.operations_minute);
    field("bytes_minute", self.bytes_minute);
  }
};

struct NodeHeat {
  std::string node = {};
  double operations = 0;
  double bytes = 0;
  double operations_minute = 0;
  double bytes_minute = 0;

  friend bool operator==(const NodeHeat&, const NodeHeat&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("operations", self.operations);
    field("bytes", self.bytes);
    field("operations_minute", self.operations_minute);
    field("bytes_minute", self.bytes_minute);
  }
};

struct HeatReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  std::vector<NodeHeat> nodes = {};
  std::vector<SlotHeat> by_operations = {};  // The hottest first; none without traffic.
  std::vector<SlotHeat> by_bytes = {};

  friend bool operator==(const HeatReport&, const HeatReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("nodes", self.nodes);
    field("by_operations", self.by_operations);
    field("by_bytes", self.by_bytes);
  }
};

}  // namespace admin
