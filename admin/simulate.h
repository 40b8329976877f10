// `slotctl simulate`: what placements would do to keys and slots, without a running proxy.
//
// Exit codes: 0 printed; 1 the key file can't be read; 2 an option is wrong, with a message that
// says what would be right.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slots/result.h"
#include "slots/simulation.h"
#include "slots/slot_map.h"

namespace admin {

struct SimulateOptions {
  std::vector<std::string> placements;  // None: all four, side by side.
  std::vector<std::string> nodes;       // name[=weight]
  std::vector<std::string> add;         // name[=weight]
  std::vector<std::string> remove;      // name
  std::vector<std::string> weights;     // name=weight
  std::uint64_t vnodes = 150;
  std::uint64_t replicas = 1;
  std::uint64_t keys = 100'000;
  std::string key_pattern = "key:%d";
  std::string key_file;  // One key per line, "-" for standard input; replaces the pattern.
  bool json = false;
};

// What one placement did.
struct SimulateResult {
  slots::PlacementKind placement = slots::PlacementKind::Balanced;
  slots::Comparison keys;
  slots::Comparison slots;
};

struct SimulateReport {
  std::vector<slots::Node> before;
  std::vector<slots::Node> after;
  std::uint64_t vnodes = 0;
  std::uint64_t replicas = 0;
  std::string key_source;  // For people: what the keys were.
  std::vector<SimulateResult> results;
};

// Adds the subcommand; `exit_code` is set when it has run, and both must outlive the parsing of
// `app`.
void register_simulate(CLI::App& app, int& exit_code);

// "name" (weight 1) or "name=2.5". Errors: InvalidArgument.
[[nodiscard]] slots::Result<slots::Node> parse_weighted_node(std::string_view text);

// Errors: Io for the key file; everything else is a wrong option.
[[nodiscard]] slots::Result<SimulateReport> simulate(const SimulateOptions& options);

[[nodiscard]] std::string to_json(const SimulateReport& report);
[[nodiscard]] std::string to_table(const SimulateReport& report);

}  // namespace admin
