#include "conf/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "conf/units.h"
#include "conf/words.h"

namespace conf {
namespace {

constexpr std::size_t kSlotTextBytesMax = 200;

std::string slots_in_words(const slots::SlotSet& set) {
  return fmt::format("{} {}", set.size() == 1 ? "slot" : "slots",
                     one_line(slots::to_string(set), kSlotTextBytesMax));
}

const NodeConfig* find_node(const Config& config, std::string_view name) {
  const auto found = std::ranges::find(config.nodes, name, &NodeConfig::name);
  return found == config.nodes.end() ? nullptr : &*found;
}

void add_new_and_changed_nodes(const Config& config, const slots::SlotMap& map,
                               std::vector<std::string>& lines) {
  for (const NodeConfig& node : config.nodes) {
    const auto index = map.find(node.name);
    if (!index) {
      lines.push_back(fmt::format(
          "node {} is new in the configuration; it owns nothing until a plan gives it slots",
          node.name));
      continue;
    }
    const double weight = map.nodes()[*index].weight;
    if (weight != node.weight) {
      lines.push_back(fmt::format("node {} has weight {} in the configuration, {} in the map",
                                  node.name, print_weight(node.weight), print_weight(weight)));
    }
  }
}

void add_removed_nodes(const Config& config, const slots::SlotMap& map,
                       std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < map.nodes().size(); ++i) {
    const std::string& name = map.nodes()[i].name;
    if (find_node(config, name) != nullptr) continue;
    const slots::SlotSet owned = map.slots_of(static_cast<slots::NodeIndex>(i));
    lines.push_back(
        owned.empty()
            ? fmt::format("node {} is gone from the configuration; it owns no slots any more", name)
            : fmt::format(
                  "node {} is gone from the configuration; it owns {} until a plan moves them",
                  name, slots_in_words(owned)));
  }
}

void add_moved_slots(const Config& config, const slots::SlotMap& map,
                     std::vector<std::string>& lines) {
  using Pair =
      std::pair<std::string, std::string>;  // Owner in the configuration, owner in the map.
  std::map<Pair, slots::SlotSet> moved;
  for (const NodeConfig& node : config.nodes) {
    if (!node.slots) continue;
    for (std::size_t s = 0; s < slots::kSlotCount; ++s) {
      const auto slot = static_cast<slots::SlotId>(s);
      const std::string& owner = map.nodes()[map.owner(slot)].name;
      if (node.slots->contains(slot) && owner != node.name) moved[{node.name, owner}].add(slot);
    }
  }
  std::vector<std::pair<slots::SlotId, std::string>> in_slot_order;
  for (const auto& [owners, set] : moved) {
    const bool one = set.size() == 1;
    in_slot_order.emplace_back(
        set.ranges().front().first,
        fmt::format("{} {} to {} in the configuration, to {} in the map", slots_in_words(set),
                    one ? "belongs" : "belong", owners.first, owners.second));
  }
  std::ranges::sort(in_slot_order);
  for (auto& [slot, line] : in_slot_order) lines.push_back(std::move(line));
}

}  // namespace

std::vector<std::string> drift(const Config& config, const slots::SlotMap& map) {
  std::vector<std::string> lines;
  add_new_and_changed_nodes(config, map, lines);
  add_removed_nodes(config, map, lines);
  add_moved_slots(config, map, lines);
  return lines;
}

}  // namespace conf
