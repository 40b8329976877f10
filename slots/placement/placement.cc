#include "slots/placement/placement.h"

#include <array>
#include <utility>

#include "slots/assert.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

constexpr std::array<std::pair<PlacementKind, std::string_view>, 4> kKinds{{
    {PlacementKind::Balanced, "balanced"},
    {PlacementKind::Ring, "ring"},
    {PlacementKind::Rendezvous, "rendezvous"},
    {PlacementKind::Modulo, "modulo"},
}};

}  // namespace

std::optional<PlacementKind> parse_placement_kind(std::string_view text) {
  for (const auto& [kind, name] : kKinds) {
    if (name == text) return kind;
  }
  return std::nullopt;
}

std::string_view to_string(PlacementKind kind) {
  return kKinds.at(static_cast<std::size_t>(kind)).second;
}

std::unique_ptr<Placement> make_placement(PlacementKind kind, std::size_t vnodes) {
  switch (kind) {
    case PlacementKind::Balanced:
      return make_balanced();
    case PlacementKind::Ring:
      return make_ring(vnodes);
    case PlacementKind::Rendezvous:
      return make_rendezvous();
    case PlacementKind::Modulo:
      return make_modulo();
  }
  std::unreachable();
}

SlotMap::Owners place_slots_as_keys(const Placement::KeyPlacer& placer) {
  SlotMap::Owners owners;
  std::vector<NodeIndex> found;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    placer.owners_of(std::to_string(slot), 1, found);
    owners[slot] = found.front();
  }
  return owners;
}

std::vector<NodeIndex> weighted_nodes(const std::vector<Node>& nodes) {
  std::vector<NodeIndex> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].weight > 0) found.push_back(static_cast<NodeIndex>(i));
  }
  SP_ASSERT(!found.empty());
  return found;
}

}  // namespace slots
