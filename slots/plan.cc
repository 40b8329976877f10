#include "slots/plan.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace slots {
namespace {

using States = std::span<const PlanState>;

struct StateRule {
  PlanState state;
  std::string_view name;
  States next;  // Empty: the plan has ended.
};

constexpr std::array kFromProposed{PlanState::Approved, PlanState::Rejected, PlanState::Stale};
constexpr std::array kFromApproved{PlanState::Running, PlanState::Aborted, PlanState::Failed,
                                   PlanState::Stale};
constexpr std::array kFromRunning{PlanState::Paused, PlanState::Done, PlanState::Aborted,
                                  PlanState::Failed};
constexpr std::array kFromPaused{PlanState::Running, PlanState::Done, PlanState::Aborted,
                                 PlanState::Failed};

constexpr std::array<StateRule, 9> kStates{{
    {PlanState::Proposed, "proposed", kFromProposed},
    {PlanState::Approved, "approved", kFromApproved},
    {PlanState::Running, "running", kFromRunning},
    {PlanState::Paused, "paused", kFromPaused},
    {PlanState::Done, "done", {}},
    {PlanState::Aborted, "aborted", {}},
    {PlanState::Failed, "failed", {}},
    {PlanState::Rejected, "rejected", {}},
    {PlanState::Stale, "stale", {}},
}};

const StateRule& rule_of(PlanState state) { return kStates[static_cast<std::size_t>(state)]; }

// Everything that is digested, each part with its length or in a fixed width, so that no two
// contents give the same bytes.
class DigestText {
 public:
  void add(std::uint64_t number) {
    for (int shift = 56; shift >= 0; shift -= 8) text_ += static_cast<char>(number >> shift);
  }
  void add(std::string_view text) {
    add(text.size());
    text_ += text;
  }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  void add(const std::vector<SlotMapEdit>& edits) {
    add(edits.size());
    for (const SlotMapEdit& edit : edits) {
      add(edit.index());
      std::visit([this](const auto& kind) { add_edit(kind); }, edit);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void add_edit(const AssignSlots& edit) {
    add(to_string(edit.slots));
    add(edit.node);
  }
  void add_edit(const AddNode& edit) {
    add(edit.node.name);
    add(edit.node.weight);
  }
  void add_edit(const RemoveNode& edit) { add(edit.name); }
  void add_edit(const SetWeight& edit) {
    add(edit.name);
    add(edit.weight);
  }

  std::string text_;
};

std::string quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

std::unexpected<Error> stale(const std::string& text) { return fail(Errc::Conflict, text); }

Status check_move(const Move& move, const SlotMap& map) {
  const std::optional<NodeIndex> from = map.find(move.from);
  if (!from) return stale("node " + quoted(move.from) + " is not in the map any more");
  if (!map.find(move.to)) return stale("node " + quoted(move.to) + " is not in the map any more");
  for (std::size_t slot = move.slots.first; slot <= move.slots.last; ++slot) {
    const NodeIndex owner = map.owner(static_cast<SlotId>(slot));
    if (owner == *from) continue;
    return stale("slot " + std::to_string(slot) + " belongs to node " +
                 quoted(map.nodes()[owner].name) + " now, not to " + quoted(move.from));
  }
  return {};
}

void add_strays(DigestText& text, const StrayMove& strays) {
  text.add(strays.from);
  text.add(strays.to);
  text.add(strays.slots.size());
  for (const StrayMove::InSlot& slot : strays.slots) {
    text.add(std::uint64_t{slot.slot});
    text.add(std::uint64_t{slot.keys});
    text.add(std::uint64_t{slot.conflicts});
  }
  text.add(strays.bytes);
  text.add(strays.conflicts.size());
  for (const std::uint64_t hash : strays.conflicts) text.add(hash);
  text.add(strays.conflict_names.size());
  for (const std::string& name : strays.conflict_names) text.add(name);
}

}  // namespace

std::uint64_t StrayMove::keys() const {
  std::uint64_t sum = 0;
  for (const InSlot& slot : slots) sum += slot.keys;
  return sum;
}

std::string_view to_string(PlanState state) { return rule_of(state).name; }

Result<PlanState> parse_plan_state(std::string_view text) {
  const auto found = std::ranges::find(kStates, text, &StateRule::name);
  if (found != kStates.end()) return found->state;
  return fail(Errc::InvalidArgument, quoted(text) + " is no state of a plan");
}

bool is_ended(PlanState state) { return rule_of(state).next.empty(); }

bool may_become(PlanState from, PlanState to) {
  return std::ranges::find(rule_of(from).next, to) != rule_of(from).next.end();
}

std::string digest_of(const PlanContent& content) {
  DigestText text;
  text.add(content.id);
  text.add(content.base_epoch);
  text.add(content.purpose);
  text.add(content.edits_before);
  text.add(content.moves.size());
  for (const Move& move : content.moves) {
    text.add(std::uint64_t{move.slots.first});
    text.add(std::uint64_t{move.slots.last});
    text.add(move.from);
    text.add(move.to);
  }
  text.add(content.edits_after);
  text.add(content.bytes_per_second);
  text.add(content.pause_ms);
  text.add(content.places.size());
  for (const auto& [node, place] : content.places) {
    text.add(node);
    text.add(place);
  }
  for (const StrayMove& strays : content.strays) add_strays(text, strays);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> sha{};
  SHA256(reinterpret_cast<const unsigned char*>(text.text().data()), text.text().size(),
         sha.data());
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digest;
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == 2) digest += '-';
    digest += kHex[sha[i] >> 4];
    digest += kHex[sha[i] & 0xf];
  }
  return digest;
}

Status check_still_fits(const PlanContent& content, const SlotMap& map, const NodePlaces& places) {
  if (map.epoch() != content.base_epoch) {
    return stale("it was made for epoch " + std::to_string(content.base_epoch) +
                 ", the map is at epoch " + std::to_string(map.epoch()));
  }
  for (const auto& [node, place] : content.places) {
    const auto now = std::ranges::find(places, node, &NodePlaces::value_type::first);
    if (now == places.end()) {
      return stale("node " + quoted(node) + " is not in the configuration any more");
    }
    if (now->second != place) {
      return stale("node " + quoted(node) + " was at " + place + ", now it is at " + now->second);
    }
  }
  const Result<SlotMap> prepared = map.with(content.edits_before);
  if (!prepared) return stale(prepared.error().message);
  for (const Move& move : content.moves) {
    if (Status fits = check_move(move, *prepared); !fits) return fits;
  }
  return {};
}

}  // namespace slots
