// Each node's share by the method of largest remainders (Hamilton), reached with the fewest moves
// from the map of now; without one every node gets one contiguous range. See shares.h.

#include "slots/key_slot.h"
#include "slots/placement/shares.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

class Balanced final : public Placement {
 public:
  SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                              const SlotMap::Owners* current) const override {
    SlotMap::Owners owners;
    if (current != nullptr) {
      owners = *current;
    } else {
      owners.fill(kNoNode);
    }
    const Counts owned = count_slots(owners, nodes.size());
    reach_shares(owners, shares_of(weights_of(nodes), owned, kSlotCount), SlotSet());
    return owners;
  }

  std::unique_ptr<KeyPlacer> place_keys(const std::vector<Node>& nodes,
                                        const SlotMap::Owners* current) const override {
    return std::make_unique<SlotPlacer>(place_slots(nodes, current));
  }

 private:
  class SlotPlacer final : public KeyPlacer {
   public:
    explicit SlotPlacer(const SlotMap::Owners& owners) : owners_(owners) {}
    void owners_of(std::string_view key, std::size_t /*replicas*/,
                   std::vector<NodeIndex>& out) const override {
      out.assign(1, owners_[slot_of_key(key)]);
    }

   private:
    SlotMap::Owners owners_;
  };
};

}  // namespace

std::unique_ptr<Placement> make_balanced() { return std::make_unique<Balanced>(); }

}  // namespace slots
