// PlanRecord and KeptSlots: what the journal knows of plans. Pure: no I/O.
//
//   plan     u64 id · u64 base epoch · text purpose · edits before · moves · edits after
//            u64 bytes per second · u64 pause in ms
//            u32 places · for each: text node, text address
//            u8 state · u8 1 if paused by the system · text reason
//            text proposed by · text approved by · text why approved
//            u64 proposed at · u64 started at · u64 ended at   (ms of Unix time)
//            u64 limit in force · u8 1 if it is being aborted
//            u64 slots moved · u64 least possible · f64 spread before · f64 spread after
//            u32 loads · for each: text node, f64 keys per slot, f64 bytes per key
//            u32 weights · for each: text node, f64 weight
//            u64 slots committed · u64 keys copied · u64 of them again · u64 payload bytes
//            u64 fences · u64 median pause in us · u64 longest pause in us
//            and from version 3 of the journal on: text credential of who proposed it
//            u8 basis of the forecast · u32 counted moves · for each: u16 first slot, f64 keys,
//            f64 bytes
//            u32 pairs of strays · for each: text from, text to, u64 bytes
//              u32 slots · for each: u16 slot, u32 keys, u32 conflicts
//              u32 conflicts · for each: u64 hash · u32 names · for each: text name
//   edits    u32 count · for each: u8 kind and, 1: slots, text node; 2: text node, f64 weight;
//            3: text node; 4: text node, f64 weight
//   moves    u32 names · for each: text node; u32 moves · for each: u16 first slot, u16 last slot,
//            u16 from, u16 to  (places among the names)
//   slots    u32 ranges · for each: u16 first, u16 last
//   kept     u64 plan · text source · text target · u64 epoch · u64 marker
//            u8 1 if flushed since · slots
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proxy/control/record_bytes.h"
#include "slots/plan.h"
#include "slots/slot.h"

namespace proxy::control {

// What is expected of a source's slots, as it was found when the plan was proposed.
struct SlotLoad {
  double keys_per_slot = 0;
  double bytes_per_key = 0;

  friend bool operator==(const SlotLoad&, const SlotLoad&) = default;
};

// What is expected of a move's slots together.
struct MoveLoad {
  double keys = 0;
  double bytes = 0;

  friend bool operator==(const MoveLoad&, const MoveLoad&) = default;
};

enum class ForecastBasis : std::uint8_t {
  NodeAverages,  // A slot is expected to be like all of its node.
  Counted,       // Every key was counted.
  Estimated,     // From a part of the keys, or not of all nodes.
};

struct PlanForecast {
  std::uint64_t slots_moved = 0;
  std::uint64_t least_possible = 0;  // Slots that any way to the same shares has to move.
  double spread_before = 1;          // Largest over fair share.
  double spread_after = 1;
  std::map<std::string, SlotLoad> loads = {};  // By source; of those of which something is known.
  // What the plan changes or removes, for the way back.
  std::map<std::string, double> weights_before = {};
  ForecastBasis basis = ForecastBasis::NodeAverages;
  std::map<slots::SlotId, MoveLoad> moves = {};  // By first slot; of those that were counted.
};

struct PlanOutcome {
  std::uint64_t slots_committed = 0;
  std::uint64_t keys_copied = 0;    // Copies made, those made again included.
  std::uint64_t keys_recopied = 0;  // Of them, those made again.
  std::uint64_t payload_bytes = 0;
  std::uint64_t fences = 0;  // Of slot groups; each a pause for their clients.
  std::uint64_t pause_median_us = 0;
  std::uint64_t pause_max_us = 0;

  friend bool operator==(const PlanOutcome&, const PlanOutcome&) = default;
};

struct PlanRecord {
  slots::Plan plan;
  std::uint64_t limit = 0;   // Bytes per second in force; 0: none. The content's until throttled.
  bool is_aborting = false;  // Wanted by an operator; what it holds is still being let go.
  PlanForecast forecast;
  PlanOutcome outcome = {};
  std::string proposed_credential = {};  // Act::credential of the proposal.
};

// Copies that a source still holds of slots that it gave away in one commit of a plan.
struct KeptSlots {
  slots::PlanId plan = 0;
  std::string source;
  std::string target;
  slots::SlotSet slots;
  slots::Epoch epoch = 0;    // Of the commit.
  std::uint64_t marker = 0;  // Of the commit, see mover::TransferSpec.
  bool is_flushed = false;   // FLUSHALL or FLUSHDB since, which these copies have not seen.

  friend bool operator==(const KeptSlots&, const KeptSlots&) = default;
};

void put_plan(std::string& out, const PlanRecord& record);
[[nodiscard]] PlanRecord take_plan(Decoder& decoder, unsigned version);  // Of the journal.
void put_kept(std::string& out, const KeptSlots& kept);
[[nodiscard]] KeptSlots take_kept(Decoder& decoder);

// "adds inv-tar, weight 1".
[[nodiscard]] std::string edit_text(const slots::SlotMapEdit& edit);

// The plan for people to read, as YAML.
[[nodiscard]] std::string plan_yaml(const PlanRecord& record);

// "2026-11-30T08:40:12Z".
[[nodiscard]] std::string utc_text(std::uint64_t unix_ms);

}  // namespace proxy::control
