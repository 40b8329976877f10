// Plan: moves of slots between nodes that the system proposes and a human approves. Pure.
//
// A plan is bound to the map it was made for (base_epoch) and to its content (digest): an approval
// names the digest, and nothing moves without one.
//
//   proposed -> approved -> running <-> paused, and from there -> done | aborted | failed
//   proposed -> rejected | stale; approved -> stale, when the map changed before its first step
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slots/result.h"
#include "slots/slot.h"
#include "slots/slot_map.h"

namespace slots {

using PlanId = std::uint64_t;  // From 1, never used twice.

struct Move {
  SlotRange slots;
  std::string from;
  std::string to;

  friend bool operator==(const Move&, const Move&) = default;
};

// Strays: keys on `from` whose slots `to` owns, as they were counted for the plan.
struct StrayMove {
  struct InSlot {
    SlotId slot = 0;
    std::uint32_t keys = 0;       // That the owner lacks: these go to it.
    std::uint32_t conflicts = 0;  // That the owner has as well: these are left alone.

    friend bool operator==(const InSlot&, const InSlot&) = default;
  };

  std::string from;
  std::string to;
  std::vector<InSlot> slots = {};                // Ascending.
  std::uint64_t bytes = 0;                       // Of what goes to the owner, about.
  std::vector<std::uint64_t> conflicts = {};     // key_hash() of each, ascending.
  std::vector<std::string> conflict_names = {};  // The first of them.

  [[nodiscard]] std::uint64_t keys() const;

  friend bool operator==(const StrayMove&, const StrayMove&) = default;
};

enum class PlanState : std::uint8_t {
  Proposed,
  Approved,  // Between the approval and the first step.
  Running,
  Paused,
  Done,
  Aborted,
  Failed,
  Rejected,
  Stale,
};
[[nodiscard]] std::string_view to_string(PlanState state);  // "proposed", ...
[[nodiscard]] Result<PlanState> parse_plan_state(std::string_view text);
[[nodiscard]] bool is_ended(PlanState state);
// Whether a plan may go from one state to the other.
[[nodiscard]] bool may_become(PlanState from, PlanState to);

// Where nodes are: "inv-bcn" -> "127.0.0.1:7001".
using NodePlaces = std::vector<std::pair<std::string, std::string>>;

// What an approval approves; nothing of it changes afterwards.
struct PlanContent {
  PlanId id = 0;
  Epoch base_epoch = 0;
  std::string purpose;                    // What should become true: "add inv-tar".
  std::vector<SlotMapEdit> edits_before;  // Nodes added and weights set, before the first move.
  std::vector<Move> moves;
  std::vector<SlotMapEdit> edits_after;  // Nodes removed once they own nothing.
  std::uint64_t bytes_per_second = 0;    // 0: no limit. May be throttled later without a new plan.
  std::uint64_t pause_ms = 50;           // The longest pause of a slot group.
  NodePlaces places;                     // Of the nodes that take part.
  std::vector<StrayMove> strays = {};    // To be collected, by a plan that moves no slots.
};

// "3f9c-e1a2": the first 8 hex digits of the SHA-256 of the content, every field of it. The same
// content always gives the same digest.
[[nodiscard]] std::string digest_of(const PlanContent& content);

struct Plan {
  PlanContent content;
  PlanState state = PlanState::Proposed;
  bool paused_by_system = false;  // Paused: who did it.
  std::string reason;             // Why it is in that state, in words; may be empty.
  std::string proposed_by;        // "system" or a name.
  std::string approved_by;
  std::string approval_reason;
  std::uint64_t proposed_at_ms = 0;  // Unix time; 0: not yet.
  std::uint64_t started_at_ms = 0;
  std::uint64_t ended_at_ms = 0;
};

// Whether a plan made for `content.base_epoch` still fits: same epoch, every move's source owns its
// slots, and every node is where it was; `places` are those of now. Errors: Conflict, saying what
// changed.
[[nodiscard]] Status check_still_fits(const PlanContent& content, const SlotMap& map,
                                      const NodePlaces& places);

}  // namespace slots
