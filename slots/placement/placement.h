// Placement: nodes with weights in, owners out. One interface, four strategies:
// balanced (fewest moves from the map of now; the default), ring (consistent hashing), rendezvous
// (highest random weight) and modulo (for comparison only).
//
// The hash of ring, rendezvous and modulo is the first 8 bytes of MD5, big-endian. A ring position
// is the hash of `name#i`; a key belongs to the first position strictly greater than its hash,
// wrapping around. Rendezvous hashes `name|key`. Slot i is placed as the decimal text of i. Weight
// w > 0 gives max(1, int(vnodes * w)) ring positions. Weighted rendezvous scores w / -ln((h + 0.5)
// / 2^64). Weight 0 gets nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slots/slot_map.h"

namespace slots {

enum class PlacementKind { Balanced, Ring, Rendezvous, Modulo };

[[nodiscard]] std::optional<PlacementKind> parse_placement_kind(std::string_view text);
[[nodiscard]] std::string_view to_string(PlacementKind kind);

class Placement {
 public:
  virtual ~Placement() = default;

  // Owner of every slot. `current` (may be null) is the ownership of now, in indexes of `nodes`
  // (kNoNode for a slot whose owner is not among them); only balanced looks at it. Requires a node
  // of weight > 0.
  [[nodiscard]] virtual SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                                                    const SlotMap::Owners* current) const = 0;

  // Owner of a key placed directly, as the literature does it, then the next `replicas - 1`
  // distinct nodes in rank order (fewer when there are fewer nodes). balanced places a key by its
  // slot and ranks no replicas.
  class KeyPlacer {
   public:
    virtual ~KeyPlacer() = default;
    virtual void owners_of(std::string_view key, std::size_t replicas,
                           std::vector<NodeIndex>& out) const = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<KeyPlacer> place_keys(
      const std::vector<Node>& nodes, const SlotMap::Owners* current) const = 0;
};

// `vnodes`: ring positions per unit of weight; only ring looks at it.
[[nodiscard]] std::unique_ptr<Placement> make_placement(PlacementKind kind,
                                                        std::size_t vnodes = 150);

}  // namespace slots
