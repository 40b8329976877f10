#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "conf/check.h"
#include "conf/words.h"

namespace conf {
namespace {

constexpr std::size_t kSlotTextBytesMax = 60;

std::string shown(const slots::SlotSet& set) {
  return one_line(slots::to_string(set), kSlotTextBytesMax);
}

slots::SlotSet common(const slots::SlotSet& a, const slots::SlotSet& b) {
  slots::SlotSet out;
  for (std::size_t i = 0; i < slots::kSlotCount; ++i) {
    const auto slot = static_cast<slots::SlotId>(i);
    if (a.contains(slot) && b.contains(slot)) out.add(slot);
  }
  return out;
}

class SlotChecker {
 public:
  SlotChecker(const Config& config, const Written& written)
      : config_(config), written_(written), claimed_(config.nodes.size()) {
    owners_.fill(slots::kNoNode);
  }

  [[nodiscard]] std::vector<Mistake> run() && {
    bool is_listed = false;
    bool is_readable = true;
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      is_readable = is_readable && written_.is_good(node_path(i));
      const std::string path = slots_path(i);
      if (!written_.has(path)) continue;
      is_listed = true;
      is_readable = check_node(i, path) && is_readable;
    }
    // What a range that can't be read would have covered is not known.
    if (is_listed && is_readable) check_gaps();
    return std::move(mistakes_);
  }

 private:
  [[nodiscard]] static std::string node_path(std::size_t i) { return fmt::format("nodes[{}]", i); }
  [[nodiscard]] static std::string slots_path(std::size_t i) {
    return fmt::format("nodes[{}].slots", i);
  }

  void add(const std::string& place_of, const std::string& path, const std::string& message) {
    const Place place = written_.place(place_of);
    mistakes_.push_back({place.line, place.column, fmt::format("{}: {}", path, message)});
  }

  // Whether all of the node's slots could be read.
  bool check_node(std::size_t i, const std::string& path) {
    bool is_readable = written_.is_good(path);
    const bool is_list = written_.has(path + "[0]");
    for (std::size_t k = 0; is_list && written_.has(fmt::format("{}[{}]", path, k)); ++k) {
      is_readable = claim(i, fmt::format("{}[{}]", path, k)) && is_readable;
    }
    if (!is_list && is_readable) is_readable = claim(i, path);
    const NodeConfig& node = config_.nodes[i];
    if (node.weight == 0 && node.slots && !node.slots->empty()) {
      add(path, path, "a node of weight 0 owns no slots; give it a weight above 0, or no slots");
    }
    return is_readable;
  }

  // Makes node `i` the owner of what stands at `item`, and reports whoever owns some of it already.
  bool claim(std::size_t i, const std::string& item) {
    const auto set = slots::parse_slot_set(written_.text(item));
    if (!set || !written_.is_good(item)) return false;
    std::vector<slots::NodeIndex> others;
    for (std::size_t s = 0; s < slots::kSlotCount; ++s) {
      const auto slot = static_cast<slots::SlotId>(s);
      if (!set->contains(slot)) continue;
      const slots::NodeIndex owner = owners_[slot];
      if (owner == slots::kNoNode) {
        owners_[slot] = static_cast<slots::NodeIndex>(i);
      } else if (std::ranges::find(others, owner) == others.end()) {
        others.push_back(owner);
      }
    }
    for (const slots::NodeIndex other : others) report_overlap(i, item, *set, other);
    claimed_[i].add(*set);
    return true;
  }

  void report_overlap(std::size_t i, const std::string& item, const slots::SlotSet& set,
                      slots::NodeIndex other) {
    const std::string_view text = written_.text(item);
    const std::string both = shown(common(set, claimed_[other]));
    const std::string where = both == text ? "" : " in " + both;
    if (other == i) {
      add(item, slots_path(i),
          fmt::format("{} repeats slots of this list{}; name each slot once", in_quotes(text),
                      where));
      return;
    }
    const std::string& name = config_.nodes[other].name;
    add(item, slots_path(i),
        fmt::format("{} overlaps nodes[{}] ({}{}){}", in_quotes(text), other,
                    name.empty() ? "" : in_quotes(name) + ": ", shown(claimed_[other]), where));
  }

  void check_gaps() {
    slots::SlotSet gaps;
    for (std::size_t s = 0; s < slots::kSlotCount; ++s) {
      if (owners_[s] == slots::kNoNode) gaps.add(static_cast<slots::SlotId>(s));
    }
    if (gaps.empty()) return;
    add("nodes", "nodes",
        fmt::format("nobody owns {} {}; together the nodes' slots must cover 0-16383, or no node "
                    "may list any",
                    gaps.size() == 1 ? "slot" : "slots", shown(gaps)));
  }

  const Config& config_;
  const Written& written_;
  std::array<slots::NodeIndex, slots::kSlotCount> owners_;
  std::vector<slots::SlotSet> claimed_;  // Per node, what was read so far.
  std::vector<Mistake> mistakes_;
};

}  // namespace

std::vector<Mistake> check_slots(const Config& config, const Written& written) {
  return SlotChecker(config, written).run();
}

}  // namespace conf
