// World: one run of the simulation. Everything in it, chance and time included, comes from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/transfer.h"
#include "slots/slot.h"
#include "tests/sim/broken.h"
#include "tests/sim/checker.h"
#include "tests/sim/host.h"
#include "tests/sim/link.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace sim {

// How often what happened, over all runs: a simulation in which nothing happens proves nothing.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t done = 0;
  std::uint64_t aborted = 0;
  std::uint64_t failed = 0;
  std::uint64_t left_to_a_human = 0;
  std::uint64_t commits = 0;
  std::uint64_t given_back = 0;
  std::uint64_t in_pieces = 0;  // Keys published.
  std::uint64_t renewed = 0;    // Streams, their groups alone.
  std::uint64_t lifted = 0;
  std::uint64_t proxy_crashes = 0;
  std::uint64_t node_crashes = 0;
  std::uint64_t longest_wait_ms = 0;
};

enum class Fault : std::uint8_t {
  CutMover,
  CrashSource,
  CrashTarget,
  CrashProxy,
  BreakConnection,
  Refuse,
  Fill,
  Stall,
  EvictAtSource,
  EvictAtTarget,
  Pause,
  Abort,
  Flush,
  Count,
};

class World {
 public:
  World(std::uint64_t seed, Flaw flaw, bool is_traced, Tally& tally);

  void run();  // Throws a Violation.

  // --- for the link
  void tick();
  void some_ticks(std::size_t most);
  void pass(std::uint32_t ms);
  bool fails(double percent);  // And counts it, when it does.
  void maybe_crash_proxy();
  Node& node(proxy::mover::Side side) {
    return side == proxy::mover::Side::Source ? source_ : target_;
  }
  Host& host() { return host_; }
  std::uint64_t now_ms() const { return now_ms_; }
  bool may_evict_marker() const { return may_evict_marker_; }

  bool leaves_old_movers = false;  // Flaws of whoever carries the actions out.
  bool never_lifts_fence = false;
  bool publishes_unchecked = false;
  bool forgets_select = false;

  bool is_target_older = false;  // It can't read a payload.

 private:
  struct ProxyCrashed {};

  void set_up();
  std::vector<slots::Goal> goals();
  void move(slots::PlanId plan);
  proxy::mover::Finish transfer(slots::PlanId plan);
  void judge(const proxy::mover::Finish& end);
  void fault();
  void evict(Node& node);
  void crash(Node& node);
  void restart_due();
  void trace(const std::string& text);

  Random random_;
  bool is_traced_;
  Tally& tally_;
  Flaw flaw_;
  std::uint64_t now_ms_ = 1'000'000;
  std::size_t databases_;
  std::uint32_t pause_ms_;
  std::vector<std::string> keys_;
  slots::SlotSet all_;
  slots::SlotSet targets_own_;
  Host host_;
  Checker checker_;
  Node source_;
  Node target_;
  std::unique_ptr<Link> link_;
  bool is_over_ = false;  // A human has taken over.

  unsigned faults_left_ = 0;
  double fault_percent_ = 0;
  std::vector<Fault> faults_;  // Kinds that may come, some of them more often.
  double sync_percent_ = 20;
  std::size_t tick_ms_ = 1;  // The most that passes at once.
  double slow_percent_ = 0;  // Commands that wait longer at their node.
  bool may_evict_marker_ = false;
  std::uint64_t source_up_at_ms_ = 0;  // 0: it is up.
  std::uint64_t target_up_at_ms_ = 0;
  std::uint64_t target_mended_at_ms_ = 0;
  std::uint64_t goes_on_running_at_ms_ = 0;  // Whichever node is stalled.
  std::uint64_t goes_on_at_ms_ = 0;          // After a pause.
};

}  // namespace sim
