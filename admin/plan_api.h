// The admin protocol's part about plans: the words of PLAN and its reports. See api.h for how words
// and reports travel.
//
// Answer:   PROPOSE, SHOW and all that changes a plan: PlanReport, of the plan as it is then (of
//           REVERT: the new plan). LIST: PlansReport. DIFF: PlanDiffReport. HISTORY: HistoryReport.
// JSON:     times are Unix time in milliseconds, left out while they are not known.
// Shared by daemon and CLI, and header-only for that reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "admin/api.h"

namespace admin {

// PLAN's second word and what follows it. A RATE is "5MB/s", "500KB/s" or "unlimited".
// PROPOSE's goals are applied together, in the order of the words:
//   --balance slots|keys|bytes|ops   shares follow the weights
//   --add NODE                       a node of the configuration joins the map
//   --drain NODE | --remove NODE     gives all it owns away; --remove: and leaves the map
//   --weight NODE=W
//   --move SLOTS:NODE                "100-199,300:inv-bcn"
//   --to-config                      node set, weights and ownership as the configuration says
//   --relieve slots|keys|bytes|ops   the heaviest slots of the busiest node to the idlest
//   --collect-strays                 keys on nodes that do not own them, to their owners; alone
// and its other options:
//   --slots N                        move no more slots than these
//   --limit RATE                     without it: rebalance.bandwidth
//   --pause DURATION                 without it: rebalance.pause
//   --by NAME, --reason TEXT         who proposes, and why
inline constexpr std::array<VerbHelp, 14> kPlanVerbs{{
    {"PROPOSE", "--GOAL [VALUE]... [--slots N] [--limit RATE] [--pause DURATION] [--by NAME]",
     "propose what makes the goals true; nothing moves"},
    {"LIST", "", "all plans, the newest first"},
    {"SHOW", "N", "one plan, with its checks and progress"},
    {"DIFF", "N", "what each node owns before and after it"},
    {"APPROVE", "N --digest D [--by NAME] [--reason TEXT]", "start it"},
    {"REJECT", "N [--by NAME] [--reason TEXT]", "never start it"},
    {"PAUSE", "N [--by NAME] [--reason TEXT]", "stop moving until RESUME"},
    {"RESUME", "N [--by NAME] [--reason TEXT]", "go on"},
    {"ABORT", "N [--by NAME] [--reason TEXT]", "end it; slots already committed stay"},
    {"RETRY", "N [--by NAME] [--reason TEXT]", "propose again what an ended plan left undone"},
    {"REVERT", "N [--by NAME] [--reason TEXT]", "propose the way back"},
    {"THROTTLE", "N RATE [--by NAME] [--reason TEXT]", "another limit, while it runs too"},
    {"HISTORY", "[N]", "the audit log, of one plan or of all, the newest last"},
    {"HELP", "", "this list"},
}};

struct PlanMove {
  std::string slots = {};  // "0-2730" or "7000".
  std::string from = {};
  std::string to = {};
  // Estimates, absent when nothing is known of the source.
  std::optional<std::uint64_t> keys = {};
  std::optional<std::uint64_t> bytes = {};

  friend bool operator==(const PlanMove&, const PlanMove&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("slots", self.slots);
    field("from", self.from);
    field("to", self.to);
    field("keys", self.keys);
    field("bytes", self.bytes);
  }
};

struct PlanCheck {
  std::string result = {};  // "pass", "warn" or "fail"; a plan with a "fail" can't be approved.
  std::string what = {};
  std::string advice = {};  // What to do; empty for "pass".

  friend bool operator==(const PlanCheck&, const PlanCheck&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("result", self.result);
    field("what", self.what);
    field("advice", self.advice);
  }
};

// What a target will hold.
struct PlanTarget {
  std::string node = {};
  std::uint64_t memory_after = 0;  // Bytes, an estimate.
  std::uint64_t maxmemory = 0;     // Bytes; 0: no limit.

  friend bool operator==(const PlanTarget&, const PlanTarget&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("memory_after", self.memory_after);
    field("maxmemory", self.maxmemory);
  }
};

// A key that a plan moves and that an operator should know of.
struct PlanKey {
  Bytes key = {};
  std::string node = {};  // That has it now.
  std::uint64_t slot = 0;
  std::string type = {};
  std::uint64_t bytes = 0;   // Of memory, an estimate.
  std::uint64_t groups = 0;  // Of a stream.
  // How long clients of its slot would wait if it were written to until the last moment; about.
  std::uint64_t pause_ms = 0;

  friend bool operator==(const PlanKey&, const PlanKey&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("key", self.key);
    field("node", self.node);
    field("slot", self.slot);
    field("type", self.type);
    field("bytes", self.bytes);
    field("groups", self.groups);
    field("pause_ms", self.pause_ms);
  }
};

// The largest keys of a plan, found by a look of limited time.
struct PlanSample {
  std::uint64_t keys = 0;  // That were looked at.
  bool is_whole = false;   // These were all.
  std::vector<PlanKey> largest = {};
  std::vector<PlanKey> streams = {};  // The largest with consumer groups.
  std::uint64_t streams_with_groups = 0;

  friend bool operator==(const PlanSample&, const PlanSample&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("keys", self.keys);
    field("whole", self.is_whole);
    field("largest", self.largest);
    field("streams", self.streams);
    field("streams_with_groups", self.streams_with_groups);
  }
};

struct PlanStraySlot {
  std::uint64_t slot = 0;
  std::uint64_t keys = 0;
  std::uint64_t conflicts = 0;

  friend bool operator==(const PlanStraySlot&, const PlanStraySlot&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("slot", self.slot);
    field("keys", self.keys);
    field("conflicts", self.conflicts);
  }
};

// Keys on one node that another one owns, as they were counted for a plan that collects them.
struct PlanStrays {
  std::string from = {};
  std::string to = {};
  std::uint64_t keys = 0;                  // That go to the owner.
  std::uint64_t bytes = 0;                 // Of these, an estimate.
  std::uint64_t conflicts = 0;             // That the owner has too: left alone.
  std::vector<Bytes> conflict_names = {};  // The first of them.
  std::vector<PlanStraySlot> slots = {};

  friend bool operator==(const PlanStrays&, const PlanStrays&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("from", self.from);
    field("to", self.to);
    field("keys", self.keys);
    field("bytes", self.bytes);
    field("conflicts", self.conflicts);
    field("conflict_names", self.conflict_names);
    field("slots", self.slots);
  }
};

struct PlanProgress {
  // "connecting", "purging", "copying", "catching up", "fencing", "keeping", "collecting", "ended".
  std::string phase = {};
  std::uint64_t running_seconds = 0;  // Since the start, pauses included.
  std::uint64_t slots_committed = 0;
  std::uint64_t slots_total = 0;
  std::uint64_t keys_copied = 0;  // Copies made, those made again included.
  std::uint64_t keys_total = 0;   // An estimate, like the bytes.
  std::uint64_t keys_collected = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_per_second = 0;  // Now.
  std::string speed_reason = {};       // Why it is no faster, in words.
  std::uint64_t pauses = 0;            // Of slot groups, so far.
  double pause_median_ms = 0;
  double pause_max_ms = 0;
  std::string waits_for = {};  // Why nothing goes on, in words; empty when it does.
  std::optional<std::uint64_t> eta_seconds = {};
  // Bytes per second that rebalance.latency allows at present; absent when it does not slow.
  std::optional<std::uint64_t> slowed_to = {};

  friend bool operator==(const PlanProgress&, const PlanProgress&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("phase", self.phase);
    field("running_seconds", self.running_seconds);
    field("slots_committed", self.slots_committed);
    field("slots_total", self.slots_total);
    field("keys_copied", self.keys_copied);
    field("keys_total", self.keys_total);
    field("keys_collected", self.keys_collected);
    field("payload_bytes", self.payload_bytes);
    field("bytes_total", self.bytes_total);
    field("bytes_per_second", self.bytes_per_second);
    field("speed_reason", self.speed_reason);
    field("pauses", self.pauses);
    field("pause_median_ms", self.pause_median_ms);
    field("pause_max_ms", self.pause_max_ms);
    field("waits_for", self.waits_for);
    field("eta_seconds", self.eta_seconds);
    field("slowed_to", self.slowed_to);
  }
};

struct PlanReport {
  std::uint64_t id = 0;
  std::string digest = {};
  std::string state = {};
  std::string reason = {};                    // Why it is in that state; may be empty.
  std::optional<std::string> paused_by = {};  // "system" or "operator", while it is paused.
  std::string purpose = {};                   // What should become true.
  std::uint64_t base_epoch = 0;
  std::string proposed_by = {};
  std::optional<std::uint64_t> proposed_at_ms = {};
  std::optional<std::string> approved_by = {};
  std::optional<std::string> approval_reason = {};
  std::optional<std::uint64_t> started_at_ms = {};
  std::optional<std::uint64_t> ended_at_ms = {};
  std::uint64_t bytes_per_second = 0;  // The limit in force; 0: none.
  std::uint64_t pause_ms = 0;
  std::vector<PlanMove> moves = {};
  std::vector<std::string> edits = {};  // What else changes: "adds inv-tar, weight 1".
  std::uint64_t slots_moved = 0;
  std::uint64_t least_possible = 0;  // Slots that any way to the same shares has to move.
  double spread_before = 1;          // Largest over fair share; 1 is perfect.
  double spread_after = 1;
  std::optional<std::uint64_t> keys = {};  // Estimates, for all moves.
  std::optional<std::uint64_t> bytes = {};
  std::optional<std::uint64_t> seconds_at_limit = {};
  std::vector<PlanStrays> strays = {};  // Of a plan that collects them, and moves no slots.
  std::optional<PlanSample> sample = {};
  std::vector<PlanTarget> targets = {};
  std::vector<PlanCheck> checks = {};
  std::optional<PlanProgress> progress = {};  // Once it has started.
  // What keys and bytes are: "counted", "estimated" from a part of the keys, or the "averages" of
  // the nodes; empty when nothing is known.
  std::string forecast_basis = {};

  friend bool operator==(const PlanReport&, const PlanReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("id", self.id);
    field("digest", self.digest);
    field("state", self.state);
    field("reason", self.reason);
    field("paused_by", self.paused_by);
    field("purpose", self.purpose);
    field("base_epoch", self.base_epoch);
    field("proposed_by", self.proposed_by);
    field("proposed_at_ms", self.proposed_at_ms);
    field("approved_by", self.approved_by);
    field("approval_reason", self.approval_reason);
    field("started_at_ms", self.started_at_ms);
    field("ended_at_ms", self.ended_at_ms);
    field("bytes_per_second", self.bytes_per_second);
    field("pause_ms", self.pause_ms);
    field("moves", self.moves);
    field("edits", self.edits);
    field("slots_moved", self.slots_moved);
    field("least_possible", self.least_possible);
    field("spread_before", self.spread_before);
    field("spread_after", self.spread_after);
    field("keys", self.keys);
    field("bytes", self.bytes);
    field("forecast_basis", self.forecast_basis);
    field("seconds_at_limit", self.seconds_at_limit);
    field("strays", self.strays);
    field("sample", self.sample);
    field("targets", self.targets);
    field("checks", self.checks);
    field("progress", self.progress);
  }
};

struct PlanSummary {
  std::uint64_t id = 0;
  std::string digest = {};
  std::string state = {};
  std::string reason = {};
  std::optional<std::string> paused_by = {};
  std::string purpose = {};
  std::uint64_t base_epoch = 0;
  std::string proposed_by = {};
  std::optional<std::uint64_t> proposed_at_ms = {};
  std::uint64_t slots_moved = 0;
  std::uint64_t slots_committed = 0;

  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("id", self.id);
    field("digest", self.digest);
    field("state", self.state);
    field("reason", self.reason);
    field("paused_by", self.paused_by);
    field("purpose", self.purpose);
    field("base_epoch", self.base_epoch);
    field("proposed_by", self.proposed_by);
    field("proposed_at_ms", self.proposed_at_ms);
    field("slots_moved", self.slots_moved);
    field("slots_committed", self.slots_committed);
  }
};

struct PlansReport {
  std::uint64_t epoch = 0;
  std::vector<PlanSummary> plans = {};

  friend bool operator==(const PlansReport&, const PlansReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("epoch", self.epoch);
    field("plans", self.plans);
  }
};

// What one node owns when none, and when all, of the plan's moves are made.
struct PlanNodeDiff {
  std::string node = {};
  std::optional<double> weight_before = {};  // Absent when the node is not in the map then.
  std::optional<double> weight_after = {};
  std::uint64_t slots_before = 0;
  std::uint64_t slots_after = 0;
  std::vector<std::string> gives = {};  // Ranges.
  std::vector<std::string> gets = {};

  friend bool operator==(const PlanNodeDiff&, const PlanNodeDiff&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("node", self.node);
    field("weight_before", self.weight_before);
    field("weight_after", self.weight_after);
    field("slots_before", self.slots_before);
    field("slots_after", self.slots_after);
    field("gives", self.gives);
    field("gets", self.gets);
  }
};

struct PlanDiffReport {
  std::uint64_t id = 0;
  std::string state = {};
  std::uint64_t base_epoch = 0;
  std::vector<PlanNodeDiff> nodes = {};  // All of the map, and those that join it.

  friend bool operator==(const PlanDiffReport&, const PlanDiffReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("id", self.id);
    field("state", self.state);
    field("base_epoch", self.base_epoch);
    field("nodes", self.nodes);
  }
};

struct HistoryEntry {
  std::uint64_t at_ms = 0;
  std::optional<std::uint64_t> plan = {};
  std::string who = {};   // "system", or the name that was given.
  std::string peer = {};  // Who was connected: "uid 1000, pid 4711" or "127.0.0.1:50000".
  std::string what = {};  // "proposed", "approved", "throttled to 10MB/s".
  std::string why = {};

  friend bool operator==(const HistoryEntry&, const HistoryEntry&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("at_ms", self.at_ms);
    field("plan", self.plan);
    field("who", self.who);
    field("peer", self.peer);
    field("what", self.what);
    field("why", self.why);
  }
};

struct HistoryReport {
  std::vector<HistoryEntry> entries = {};

  friend bool operator==(const HistoryReport&, const HistoryReport&) = default;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& field) {
    field("entries", self.entries);
  }
};

}  // namespace admin
