// hash mod N: what a first version of a sharded system does, here to show what a change of N costs.

#include <algorithm>

#include "slots/placement/hash.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

class ModuloPlacer final : public Placement::KeyPlacer {
 public:
  explicit ModuloPlacer(const std::vector<Node>& nodes) : nodes_(weighted_nodes(nodes)) {}

  void owners_of(std::string_view key, std::size_t replicas,
                 std::vector<NodeIndex>& out) const override {
    out.clear();
    const std::size_t first = hash64(key) % nodes_.size();
    for (std::size_t rank = 0; rank < std::min(replicas, nodes_.size()); ++rank) {
      out.push_back(nodes_[(first + rank) % nodes_.size()]);
    }
  }

 private:
  std::vector<NodeIndex> nodes_;
};

class Modulo final : public Placement {
 public:
  SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                              const SlotMap::Owners* /*current*/) const override {
    return place_slots_as_keys(ModuloPlacer(nodes));
  }
  std::unique_ptr<KeyPlacer> place_keys(const std::vector<Node>& nodes,
                                        const SlotMap::Owners* /*current*/) const override {
    return std::make_unique<ModuloPlacer>(nodes);
  }
};

}  // namespace

std::unique_ptr<Placement> make_modulo() { return std::make_unique<Modulo>(); }

}  // namespace slots
