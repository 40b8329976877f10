// SlotMap: which node owns which slot, at one epoch. Immutable; the next map comes from an edit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "slots/result.h"
#include "slots/slot.h"

namespace slots {

using Epoch =
    std::uint64_t;  // Grows by one with every change of the map; the first map has epoch 1.
using NodeIndex = std::uint16_t;  // A node's place in SlotMap::nodes(); good within one map only.
inline constexpr NodeIndex kNoNode = 0xffff;
inline constexpr std::size_t kNodesMax = 1024;

// A node as the map knows it. Addresses and passwords are configuration, not map.
struct Node {
  std::string name;     // [A-Za-z0-9._-]+, at most 64 bytes; unique.
  double weight = 1.0;  // >= 0; 0 owns nothing when slots are placed.

  friend bool operator==(const Node&, const Node&) = default;
};

// Whether the name and the weight keep their rules. Errors: InvalidArgument, naming the node.
[[nodiscard]] Status check_node(const Node& node);

// 40 hex digits that cluster clients see as the node's id: fixed across restarts, derived from
// cluster and node name.
[[nodiscard]] std::string node_id_of(std::string_view cluster, std::string_view node_name);

struct AssignSlots {
  SlotSet slots;
  std::string node;  // The new owner; must be in the map.
};
struct AddNode {
  Node node;  // Owns nothing at first.
};
struct RemoveNode {
  std::string name;  // Must own nothing.
};
struct SetWeight {
  std::string name;
  double weight = 1.0;
};
// The only vocabulary of change.
using SlotMapEdit = std::variant<AssignSlots, AddNode, RemoveNode, SetWeight>;

class SlotMap {
 public:
  using Owners = std::array<NodeIndex, kSlotCount>;

  // A map at epoch 1. Every slot needs an owner below nodes.size(); names must be unique and valid.
  [[nodiscard]] static Result<SlotMap> create(std::vector<Node> nodes, const Owners& owners,
                                              Epoch epoch = 1);

  // The next map: all edits applied in order, epoch + 1. On an error nothing has changed.
  [[nodiscard]] Result<SlotMap> with(const std::vector<SlotMapEdit>& edits) const;

  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] NodeIndex owner(SlotId slot) const { return owners_[slot]; }
  [[nodiscard]] const Owners& owners() const { return owners_; }
  [[nodiscard]] std::optional<NodeIndex> find(std::string_view name) const;
  [[nodiscard]] SlotSet slots_of(NodeIndex node) const;

 private:
  SlotMap(std::vector<Node> nodes, const Owners& owners, Epoch epoch);

  std::vector<Node> nodes_;
  Owners owners_;
  Epoch epoch_;
};

}  // namespace slots
