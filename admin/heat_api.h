// The admin protocol's part about what slots do: the reports of SLOTS HEAT and HOTKEYS. See api.h
// for how words and reports travel.
//
// SLOTS HEAT [N]               the N (10) slots with most traffic, and the largest: HeatReport
// HOTKEYS [SECONDS] [N]        watches requests for so long (5), then names the N (10) keys that
//                              came most often: HotKeysReport; one watch at a time
// Shared by daemon and CLI, and header-only for that reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "admin/api.h"

namespace admin {

inline constexpr std::uint64_t kHotKeysSecondsMax = 300;
inline constexpr std::uint64_t kHotKeysMax = 500;

// Per second: over the last ten to twenty seconds, and over the last minute or little more.
struct SlotHeat {
  std::uint64_t slot = 0;
  std::string node = {};
  double operations = 0;
  double bytes = 0;  // Of requests and replies.
  double operations_minute = 0;
  double bytes_minute = 0;
  // When keys were counted last; absent when this node's never were.
  std::optional<std::uint64_t> keys = {};
  std::optional<std::uint64_t> stored_bytes = {};

  friend bool operator==(const SlotHeat&, const SlotHeat&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("slot", self.slot);
    field("node", self.node);
    field("operations", self.operations);
    field("bytes", self.bytes);
    field("operations_minute", self.operations_minute);
    field("bytes_minute", self.bytes_minute);
    field("keys", self.keys);
    field("stored_bytes", self.stored_bytes);
  }
};

struct NodeHeat {
  std::string node = {};
  double operations = 0;
  double bytes = 0;
  double operations_minute = 0;
  double bytes_minute = 0;
  std::optional<double> latency_p99_ms = {};  // Of its answers to this proxy, sampled.

  friend bool operator==(const NodeHeat&, const NodeHeat&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("operations", self.operations);
    field("bytes", self.bytes);
    field("operations_minute", self.operations_minute);
    field("bytes_minute", self.bytes_minute);
    field("latency_p99_ms", self.latency_p99_ms);
  }
};

struct HeatReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  std::vector<NodeHeat> nodes = {};
  std::vector<SlotHeat> by_operations = {};  // The hottest first; none without traffic.
  std::vector<SlotHeat> by_bytes = {};
  std::vector<SlotHeat> by_keys = {};  // The largest first; empty while keys were not counted.
  std::optional<std::uint64_t> counted_seconds_ago = {};
  bool is_count_exact = false;  // False: estimated from a part of the keys.

  friend bool operator==(const HeatReport&, const HeatReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("nodes", self.nodes);
    field("by_operations", self.by_operations);
    field("by_bytes", self.by_bytes);
    field("by_keys", self.by_keys);
    field("counted_seconds_ago", self.counted_seconds_ago);
    field("count_exact", self.is_count_exact);
  }
};

struct HotKey {
  Bytes key = {};
  bool is_cut = false;  // `key` is only its beginning.
  std::uint64_t slot = 0;
  std::string node = {};
  std::uint64_t count = 0;  // Uses in the watched time; at most `error` too many.
  std::uint64_t error = 0;
  double per_second = 0;

  friend bool operator==(const HotKey&, const HotKey&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("key", self.key);
    field("cut", self.is_cut);
    field("slot", self.slot);
    field("node", self.node);
    field("count", self.count);
    field("error", self.error);
    field("per_second", self.per_second);
  }
};

struct HotKeysReport {
  std::string cluster = {};
  std::uint64_t epoch = 0;
  double seconds = 0;
  std::uint64_t total = 0;  // Uses of keys in that time.
  bool is_sampled = false;  // Too many to look at each: all counts are estimates.
  std::vector<HotKey> keys = {};

  friend bool operator==(const HotKeysReport&, const HotKeysReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("cluster", self.cluster);
    field("epoch", self.epoch);
    field("seconds", self.seconds);
    field("total", self.total);
    field("sampled", self.is_sampled);
    field("keys", self.keys);
  }
};

}  // namespace admin
