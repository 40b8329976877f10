#include "slots/slot_map.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace slots {
namespace {

constexpr std::size_t kNameBytesMax = 64;

bool is_name_byte(char byte) {
  return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
         (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

std::string quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

std::unexpected<Error> unknown_node(std::string_view name) {
  return fail(Errc::NotFound, "node " + quoted(name) + " is not in the slot map");
}

Status check_weight(std::string_view name, double weight) {
  if (std::isfinite(weight) && weight >= 0) return {};
  return fail(Errc::InvalidArgument,
              "node " + quoted(name) + ": the weight must be a number of 0 or more");
}

std::optional<NodeIndex> find_in(const std::vector<Node>& nodes, std::string_view name) {
  const auto found = std::ranges::find(nodes, name, &Node::name);
  if (found == nodes.end()) return std::nullopt;
  return static_cast<NodeIndex>(found - nodes.begin());
}

// What a map consists of while edits are applied to it.
struct Draft {
  std::vector<Node>& nodes;
  SlotMap::Owners& owners;

  Status operator()(const AssignSlots& edit) const {
    const std::optional<NodeIndex> node = find_in(nodes, edit.node);
    if (!node) return unknown_node(edit.node);
    for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
      if (edit.slots.contains(static_cast<SlotId>(slot))) owners[slot] = *node;
    }
    return {};
  }

  Status operator()(const AddNode& edit) const {
    if (const Status status = check_node(edit.node); !status) return status;
    if (find_in(nodes, edit.node.name)) {
      return fail(Errc::AlreadyExists,
                  "node " + quoted(edit.node.name) + " is in the slot map already");
    }
    if (nodes.size() == kNodesMax) {
      return fail(Errc::LimitExceeded,
                  "a slot map has at most " + std::to_string(kNodesMax) + " nodes");
    }
    nodes.push_back(edit.node);
    return {};
  }

  Status operator()(const RemoveNode& edit) const {
    const std::optional<NodeIndex> node = find_in(nodes, edit.name);
    if (!node) return unknown_node(edit.name);
    const auto owned = std::ranges::count(owners, *node);
    if (owned != 0) {
      return fail(Errc::Conflict, "node " + quoted(edit.name) + " still owns " +
                                      std::to_string(owned) + " slots; move them away first");
    }
    nodes.erase(nodes.begin() + *node);
    for (NodeIndex& owner : owners) {
      if (owner > *node) --owner;
    }
    return {};
  }

  Status operator()(const SetWeight& edit) const {
    const std::optional<NodeIndex> node = find_in(nodes, edit.name);
    if (!node) return unknown_node(edit.name);
    if (const Status status = check_weight(edit.name, edit.weight); !status) return status;
    nodes[*node].weight = edit.weight;
    return {};
  }
};

}  // namespace

Status check_node(const Node& node) {
  const bool is_valid = !node.name.empty() && node.name.size() <= kNameBytesMax &&
                        std::all_of(node.name.begin(), node.name.end(), is_name_byte);
  if (!is_valid) {
    return fail(Errc::InvalidArgument,
                "node name " + quoted(node.name) + " must be 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  return check_weight(node.name, node.weight);
}

std::string node_id_of(std::string_view cluster, std::string_view node_name) {
  const std::string text = std::string(cluster) + '/' + std::string(node_name);
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string id;
  id.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    id += kHex[byte >> 4];
    id += kHex[byte & 0xf];
  }
  return id;
}

SlotMap::SlotMap(std::vector<Node> nodes, const Owners& owners, Epoch epoch)
    : nodes_(std::move(nodes)), owners_(owners), epoch_(epoch) {}

Result<SlotMap> SlotMap::create(std::vector<Node> nodes, const Owners& owners, Epoch epoch) {
  if (epoch == 0) return fail(Errc::InvalidArgument, "the first epoch of a slot map is 1");
  if (nodes.empty()) return fail(Errc::InvalidArgument, "a slot map needs at least one node");
  if (nodes.size() > kNodesMax) {
    return fail(Errc::LimitExceeded,
                "a slot map has at most " + std::to_string(kNodesMax) + " nodes");
  }
  std::set<std::string_view> names;
  for (const Node& node : nodes) {
    if (const Status status = check_node(node); !status) return std::unexpected(status.error());
    if (!names.insert(node.name).second) {
      return fail(Errc::AlreadyExists, "two nodes have the name " + quoted(node.name));
    }
  }
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    if (owners[slot] >= nodes.size()) {
      return fail(Errc::InvalidArgument, "slot " + std::to_string(slot) + " has no owner");
    }
  }
  return SlotMap(std::move(nodes), owners, epoch);
}

Result<SlotMap> SlotMap::with(const std::vector<SlotMapEdit>& edits) const {
  SlotMap next(nodes_, owners_, epoch_ + 1);
  for (const SlotMapEdit& edit : edits) {
    const Status status = std::visit(Draft{next.nodes_, next.owners_}, edit);
    if (!status) return std::unexpected(status.error());
  }
  return next;
}

std::optional<NodeIndex> SlotMap::find(std::string_view name) const {
  return find_in(nodes_, name);
}

SlotSet SlotMap::slots_of(NodeIndex node) const {
  SlotSet set;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    if (owners_[slot] == node) set.add(static_cast<SlotId>(slot));
  }
  return set;
}

}  // namespace slots
