// Rendezvous hashing (Thaler and Ravishankar, 1996): every node scores every key, the highest score
// owns it, the next ones are its replicas. Weighted by the logarithm method (Schindelhauer and
// Schomaker, 2005).

#include <algorithm>
#include <cmath>

#include "slots/placement/hash.h"
#include "slots/placement/strategies.h"

namespace slots {
namespace {

// w / -ln((h + 0.5) / 2^64). Near 2^64 the quotient rounds to 1 and its logarithm to 0, which would
// make the best hash of all the worst score; so the upper half goes through the distance to 1
// instead, which stays exact.
double score_of(std::uint64_t hash, double weight) {
  constexpr double kTwoPow64 = 18446744073709551616.0;
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  if (hash < kHalf) return weight / -std::log((static_cast<double>(hash) + 0.5) / kTwoPow64);
  const double distance = (static_cast<double>(~hash) + 0.5) / kTwoPow64;
  return weight / -std::log1p(-distance);
}

class RendezvousPlacer final : public Placement::KeyPlacer {
 public:
  explicit RendezvousPlacer(const std::vector<Node>& nodes) {
    for (const NodeIndex node : weighted_nodes(nodes)) {
      candidates_.push_back({nodes[node].name + '|', nodes[node].weight, node});
    }
  }

  void owners_of(std::string_view key, std::size_t replicas,
                 std::vector<NodeIndex>& out) const override {
    std::vector<Scored> scored;
    scored.reserve(candidates_.size());
    std::string text;
    for (const Candidate& candidate : candidates_) {
      text.assign(candidate.prefix).append(key);
      const std::uint64_t hash = hash64(text);
      scored.push_back({score_of(hash, candidate.weight), hash, candidate.node});
    }
    const std::size_t wanted = std::min(replicas, scored.size());
    std::ranges::partial_sort(scored, scored.begin() + static_cast<std::ptrdiff_t>(wanted),
                              is_before);
    out.clear();
    for (std::size_t rank = 0; rank < wanted; ++rank) out.push_back(scored[rank].node);
  }

 private:
  struct Candidate {
    std::string prefix;  // "name|"
    double weight = 0;
    NodeIndex node = 0;
  };
  struct Scored {
    double score = 0;
    std::uint64_t hash = 0;  // Decides between scores that a double can't tell apart.
    NodeIndex node = 0;
  };

  static bool is_before(const Scored& a, const Scored& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.hash != b.hash) return a.hash > b.hash;
    return a.node < b.node;
  }

  std::vector<Candidate> candidates_;
};

class Rendezvous final : public Placement {
 public:
  SlotMap::Owners place_slots(const std::vector<Node>& nodes,
                              const SlotMap::Owners* /*current*/) const override {
    return place_slots_as_keys(RendezvousPlacer(nodes));
  }
  std::unique_ptr<KeyPlacer> place_keys(const std::vector<Node>& nodes,
                                        const SlotMap::Owners* /*current*/) const override {
    return std::make_unique<RendezvousPlacer>(nodes);
  }
};

}  // namespace

std::unique_ptr<Placement> make_rendezvous() { return std::make_unique<Rendezvous>(); }

}  // namespace slots
