// The four strategies, for placement.cc alone: everyone else goes through make_placement().
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "slots/placement/placement.h"

namespace slots {

[[nodiscard]] std::unique_ptr<Placement> make_balanced();
[[nodiscard]] std::unique_ptr<Placement> make_ring(std::size_t vnodes);
[[nodiscard]] std::unique_ptr<Placement> make_rendezvous();
[[nodiscard]] std::unique_ptr<Placement> make_modulo();

// Places each slot as the key that is its decimal text: what every strategy but balanced does.
[[nodiscard]] SlotMap::Owners place_slots_as_keys(const Placement::KeyPlacer& placer);

// Indexes of the nodes that may own anything.
[[nodiscard]] std::vector<NodeIndex> weighted_nodes(const std::vector<Node>& nodes);

}  // namespace slots
