// How `slotctl simulate` shows a report: JSON for programs, two tables for people.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "admin/simulate.h"

namespace admin {
namespace {

using Json = nlohmann::ordered_json;  // Nodes stay in the order given.
using Row = std::vector<std::string>;

// Six digits: finer than one key of a hundred million, without the noise of binary fractions.
double rounded(double value) { return std::round(value * 1e6) / 1e6; }

Json counts_json(const slots::Distribution& distribution) {
  Json json = Json::object();
  for (const slots::NodeCount& node : distribution.per_node) json[node.node] = node.count;
  return json;
}

Json comparison_json(const slots::Comparison& comparison) {
  Json json;
  json["total"] = comparison.total;
  json["per_node"] = counts_json(comparison.after);
  json["deviation_percent"] = rounded(comparison.after.deviation_percent);
  json["spread"] = rounded(comparison.after.spread);
  json["moved_percent"] = rounded(comparison.moved_percent);
  json["least_percent"] = rounded(comparison.least_percent);
  if (comparison.replica_sets_changed_percent) {
    json["replica_sets_changed_percent"] = rounded(*comparison.replica_sets_changed_percent);
  }
  json["before"] = {{"per_node", counts_json(comparison.before)},
                    {"deviation_percent", rounded(comparison.before.deviation_percent)},
                    {"spread", rounded(comparison.before.spread)}};
  return json;
}

std::string with_separators(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string percent_text(double percent) { return fmt::format("{:.3f} %", percent); }

// "a" where nothing changed, else "a → b".
std::string change_text(const std::string& before, const std::string& after) {
  return before == after ? after : before + " → " + after;
}

// Columns of a terminal: every byte but those that continue a character.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

// The first column is names, to the left; the others are figures, to the right.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      if (i != 0) line += "  ";
      line += i == 0 ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

const slots::Node* find_node(const std::vector<slots::Node>& nodes, const std::string& name) {
  const auto found = std::ranges::find(nodes, name, &slots::Node::name);
  return found == nodes.end() ? nullptr : &*found;
}

std::string count_of(const slots::Distribution& distribution, const std::string& name) {
  const auto found = std::ranges::find(distribution.per_node, name, &slots::NodeCount::node);
  return found == distribution.per_node.end() ? "-" : with_separators(found->count);
}

// Nodes of both sides: those of now, then those that join.
std::vector<std::string> all_names(const SimulateReport& report) {
  std::vector<std::string> names;
  for (const slots::Node& node : report.before) names.push_back(node.name);
  for (const slots::Node& node : report.after) {
    if (find_node(report.before, node.name) == nullptr) names.push_back(node.name);
  }
  return names;
}

bool has_placement(const SimulateReport& report, slots::PlacementKind kind) {
  return std::ranges::find(report.results, kind, &SimulateResult::placement) !=
         report.results.end();
}

Row node_row(const SimulateReport& report, const std::string& name,
             slots::Comparison SimulateResult::* things) {
  const auto weight_text = [&](const std::vector<slots::Node>& nodes) {
    const slots::Node* node = find_node(nodes, name);
    return node == nullptr ? std::string("-") : fmt::format("{}", node->weight);
  };
  Row row{name, change_text(weight_text(report.before), weight_text(report.after))};
  for (const SimulateResult& result : report.results) {
    const slots::Comparison& comparison = result.*things;
    row.push_back(change_text(count_of(comparison.before, name), count_of(comparison.after, name)));
  }
  return row;
}

template <class Figure>
Row figure_row(const SimulateReport& report, const char* label,
               slots::Comparison SimulateResult::* things, Figure figure) {
  Row row{label, ""};
  for (const SimulateResult& result : report.results) row.push_back(figure(result.*things));
  return row;
}

std::string table_of(const SimulateReport& report, slots::Comparison SimulateResult::* things) {
  Row heading{"NODE", "WEIGHT"};
  for (const SimulateResult& result : report.results) {
    heading.emplace_back(slots::to_string(result.placement));
  }
  std::vector<Row> rows{heading};
  for (const std::string& name : all_names(report)) rows.push_back(node_row(report, name, things));

  const auto add_figure = [&](const char* label, auto figure) {
    rows.push_back(figure_row(report, label, things, figure));
  };
  add_figure("deviation", [](const slots::Comparison& comparison) {
    return change_text(percent_text(comparison.before.deviation_percent),
                       percent_text(comparison.after.deviation_percent));
  });
  add_figure("largest over fair share", [](const slots::Comparison& comparison) {
    return change_text(fmt::format("{:.2f}", comparison.before.spread),
                       fmt::format("{:.2f}", comparison.after.spread));
  });
  if (report.before == report.after) return aligned(rows);

  add_figure("moves", [](const slots::Comparison& comparison) {
    return percent_text(comparison.moved_percent);
  });
  add_figure("least that could move", [](const slots::Comparison& comparison) {
    return percent_text(comparison.least_percent);
  });
  const bool has_sets = std::ranges::any_of(report.results, [&](const SimulateResult& result) {
    return (result.*things).replica_sets_changed_percent.has_value();
  });
  if (has_sets) {
    add_figure("replica sets that change", [](const slots::Comparison& comparison) {
      const auto& changed = comparison.replica_sets_changed_percent;
      return changed ? percent_text(*changed) : std::string("-");
    });
  }
  return aligned(rows);
}

}  // namespace

std::string to_json(const SimulateReport& report) {
  Json placements = Json::array();
  for (const SimulateResult& result : report.results) {
    placements.push_back({{"placement", std::string(slots::to_string(result.placement))},
                          {"keys", comparison_json(result.keys)},
                          {"slots", comparison_json(result.slots)}});
  }
  const Json json{
      {"vnodes", report.vnodes}, {"replicas", report.replicas}, {"placements", placements}};
  // Key names and node names never get in unchecked, so this does not throw; if it could, bad bytes
  // are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_table(const SimulateReport& report) {
  std::string text =
      fmt::format("{} keys placed directly ({})\n",
                  with_separators(report.results.front().keys.total), report.key_source);
  text += table_of(report, &SimulateResult::keys);
  text += fmt::format("\n{} slots\n", with_separators(slots::kSlotCount));
  text += table_of(report, &SimulateResult::slots);
  text += fmt::format("\n{} owner{} per key", report.replicas, report.replicas == 1 ? "" : "s");
  if (has_placement(report, slots::PlacementKind::Ring)) {
    text += fmt::format("; ring: {} positions per unit of weight", report.vnodes);
  }
  if (has_placement(report, slots::PlacementKind::Balanced)) {
    text += "; balanced places a key by its slot";
  }
  text += '\n';
  return text;
}

}  // namespace admin
