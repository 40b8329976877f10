#include "slots/placement/shares.h"

#include <algorithm>
#include <cmath>

#include "slots/assert.h"

namespace slots {

std::vector<double> weights_of(const std::vector<Node>& nodes) {
  std::vector<double> weights;
  weights.reserve(nodes.size());
  for (const Node& node : nodes) weights.push_back(node.weight);
  return weights;
}

Counts count_slots(const SlotMap::Owners& owners, std::size_t node_count) {
  Counts counts(node_count, 0);
  for (const NodeIndex owner : owners) {
    if (owner < node_count) ++counts[owner];
  }
  return counts;
}

Counts shares_of(const std::vector<double>& weights, const Counts& owned, std::size_t total) {
  std::vector<std::size_t> order;
  for (std::size_t node = 0; node < weights.size(); ++node) {
    if (weights[node] > 0) order.push_back(node);
  }
  SP_ASSERT(!order.empty());
  const double largest = *std::ranges::max_element(weights);
  double sum = 0;  // In units of the largest weight: the sum of huge weights would overflow.
  for (const double weight : weights) sum += weight / largest;

  Counts shares(weights.size(), 0);
  std::vector<double> remainders(weights.size(), 0);
  std::size_t left = total;
  for (const std::size_t node : order) {
    const double exact = weights[node] / largest / sum * static_cast<double>(total);
    shares[node] = static_cast<std::size_t>(exact);
    remainders[node] = exact - std::floor(exact);
    left -= shares[node];
  }
  SP_ASSERT(left <= order.size());
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    if (remainders[a] != remainders[b]) return remainders[a] > remainders[b];
    return (owned[a] > shares[a]) > (owned[b] > shares[b]);
  });
  for (std::size_t i = 0; i < left; ++i) ++shares[order[i]];
  return shares;
}

void reach_shares(SlotMap::Owners& owners, const Counts& shares, const SlotSet& fixed) {
  Counts owned = count_slots(owners, shares.size());
  for (std::size_t slot = kSlotCount; slot-- > 0;) {
    NodeIndex& owner = owners[slot];
    if (owner >= owned.size()) {
      owner = kNoNode;
    } else if (owned[owner] > shares[owner] && !fixed.contains(static_cast<SlotId>(slot))) {
      --owned[owner];
      owner = kNoNode;
    }
  }
  std::size_t taker = 0;
  for (NodeIndex& owner : owners) {
    if (owner != kNoNode) continue;
    while (owned[taker] >= shares[taker]) ++taker;
    owner = static_cast<NodeIndex>(taker);
    ++owned[taker];
  }
}

}  // namespace slots
