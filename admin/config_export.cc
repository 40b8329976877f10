#include "admin/config_export.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "conf/loader.h"
#include "conf/options.h"
#include "conf/writer.h"
#include "slots/slot.h"

namespace admin {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr std::string_view kNodes = "nodes[";
constexpr std::string_view kUsers = "users[";
constexpr std::size_t kItemsMax = 10'000;

template <class Target>
Status set_option(Target& target, std::span<const conf::Option<Target>> options,
                  std::string_view key, const ConfigOption& option) {
  const auto known = std::ranges::find(options, key, &conf::Option<Target>::path);
  if (known == options.end()) {
    return fail(Errc::InvalidArgument,
                "the daemon has an option that this slotctl does not know: " + option.path +
                    "; use the slotctl of its version");
  }
  for (const std::string& value : option.values) {
    Status status = known->set(target, value);
    if (!status) return std::unexpected(std::move(status.error()).in(option.path));
  }
  return {};
}

// An option of "nodes[3].address" belongs to node 3.
template <class Target>
Status set_item_option(std::vector<Target>& items, std::span<const conf::Option<Target>> options,
                       const ConfigOption& option) {
  const std::string_view path = option.path;
  const std::size_t begin = path.find('[') + 1;
  const std::size_t end = path.find("].");
  std::size_t index = 0;
  if (end == std::string_view::npos ||
      std::from_chars(path.data() + begin, path.data() + end, index).ec != std::errc{} ||
      index >= kItemsMax) {
    return fail(Errc::InvalidArgument, option.path + " is no option of a list's item");
  }
  if (index >= items.size()) items.resize(index + 1);
  return set_option(items[index], options, path.substr(end + 2), option);
}

Status set_any_option(conf::Config& config, const ConfigOption& option) {
  if (option.path.starts_with(kNodes))
    return set_item_option(config.nodes, conf::node_options(), option);
  if (option.path.starts_with(kUsers))
    return set_item_option(config.users, conf::user_options(), option);
  return set_option(config, conf::config_options(), option.path, option);
}

Result<conf::Config> read_options(const ConfigReport& report) {
  conf::Config config;
  for (const ConfigOption& option : report.options) {
    // Who owns what is the map's to say.
    if (option.path.starts_with(kNodes) && option.path.ends_with("].slots")) continue;
    const Status status = set_any_option(config, option);
    if (!status) return std::unexpected(status.error());
  }
  return config;
}

// The node of that name; one that the map alone knows is added with what the map knows of it.
Result<conf::NodeConfig*> node_of(conf::Config& config, const NodeReport& report) {
  const auto known = std::ranges::find(config.nodes, report.name, &conf::NodeConfig::name);
  if (known != config.nodes.end()) return &*known;
  Result<conf::Address> address = conf::parse_address(report.address);
  if (!address) return std::unexpected(std::move(address.error()).in("node " + report.name));
  conf::NodeConfig& node = config.nodes.emplace_back();
  node.name = report.name;
  node.address = *std::move(address);
  return &node;
}

Status add_slots(conf::NodeConfig& node, const SlotOwner& owner) {
  for (const std::string& text : owner.ranges) {
    const Result<slots::SlotRange> range = slots::parse_slot_range(text);
    if (!range) return std::unexpected(range.error());
    if (!node.slots) node.slots.emplace();
    node.slots->add(*range);
  }
  return {};
}

}  // namespace

Result<std::string> export_yaml(const ConfigReport& config_report, const NodesReport& nodes,
                                const SlotsReport& slots) {
  if (nodes.epoch != slots.epoch) {
    return fail(Errc::Conflict, "the map has changed meanwhile; export it again");
  }
  Result<conf::Config> config = read_options(config_report);
  if (!config) return std::unexpected(config.error());
  for (const NodeReport& report : nodes.nodes) {
    Result<conf::NodeConfig*> node = node_of(*config, report);
    if (!node) return std::unexpected(node.error());
    // The file allows no slots at a weight of 0, which a node that is being drained has.
    if (report.weight > 0 || report.slots == 0) (*node)->weight = report.weight;
    const auto owner = std::ranges::find(slots.owners, report.name, &SlotOwner::node);
    if (owner == slots.owners.end()) continue;
    if (Status status = add_slots(**node, *owner); !status) return std::unexpected(status.error());
  }
  return conf::to_yaml(*config, conf::Secrets::LeaveOut);
}

}  // namespace admin
