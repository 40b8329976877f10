// Host: the control thread of the proxy around the mover, as far as moves can tell. The plan book,
// the plan's steps, the journal's records, the fence keeper and the fence's rule are the daemon's
// own; here are a disk that may keep half of the last record, and the operator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/control/plan_book.h"
#include "proxy/control/state_record.h"
#include "proxy/fence_keeper.h"
#include "proxy/mover/transfer.h"
#include "proxy/plan_step.h"
#include "slots/slot.h"
#include "tests/sim/checker.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"
#include "tests/sim/workers.h"

namespace sim {

class Host : public Ownership, public proxy::FencePort {
 public:
  Host(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys,
       const slots::SlotSet& targets_own);
  void set_nodes(Node& source, Node& target, Checker& checker);

  void start();  // Reads the journal; the commands of an earlier process have run or never will.
  void crash();
  void tick();  // Acknowledgements come in, time runs out, the plan is looked at.
  bool is_journal_lost() const { return is_journal_lost_; }

  // --- the operator
  // Throws a Violation when the plan book lets a plan through that nobody has approved as it is.
  slots::PlanId approve(const std::vector<slots::Goal>& goals);
  slots::PlanId approve_rest(slots::PlanId plan);
  void pause();
  void resume();
  void abort();

  // --- the plan
  const proxy::control::PlanRecord& plan() const { return state().plans.at(plan_); }
  // Between source and target; what is left of it.
  proxy::control::PairWork work() const;
  // What the operator and the nodes' health let the mover do.
  proxy::mover::Wish wish() const;
  void end(const proxy::mover::Finish& finish);

  // --- what the mover asks for
  void begin_fence(const slots::SlotSet& slots, std::uint32_t limit_ms);
  std::optional<slots::Result<proxy::mover::FenceGrant>> take_fence_answer();
  void hold_fence(const slots::SlotSet& slots);  // The mover believes in it.
  void lift_fence();
  slots::Result<slots::Epoch> commit(const slots::SlotSet& slots, std::uint64_t marker,
                                     const std::string& run_id);
  // The journal fails, and may hold the commit: nothing of the fence is served until a new start.
  void lose_journal(const slots::SlotSet& slots, std::uint64_t marker, const std::string& run_id);
  bool is_applied() const { return workers_.have_applied(table_->version); }
  void vouch(const std::string& run_id);
  slots::Result<slots::Epoch> give_back(const slots::SlotSet& slots);
  void collected(const slots::SlotSet& slots);
  void stop_doubting();  // A human has taken over.

  Workers& workers() { return workers_; }
  Node& owner(slots::SlotId slot) override;
  bool is_fenced(slots::SlotId slot) const override { return held_.contains(slot); }
  bool is_doubtful(slots::SlotId slot) const override;
  slots::SlotSet kept() const { return kept_; }

  bool trusts_mover = false;  // Flaws.
  bool ignores_flushes = false;
  bool publishes_first = false;

 private:
  const proxy::control::ClusterState& state() const { return *state_; }
  void write(const proxy::control::ClusterState& next);
  void take(proxy::control::ChangeResult change, const char* what);
  void read_journal();
  void adopt(proxy::control::ClusterState state);
  void note_flushes();
  void set_run_id(proxy::RoutingTable& table) const;
  void publish_table(const std::function<void(proxy::RoutingTable&)>& change);
  void publish(std::shared_ptr<const proxy::Fence> fence) override;
  void set_deadline(std::optional<conf::Milliseconds> from_now) override;
  std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(now_ms_));
  }
  slots::PlanId approve(proxy::control::ChangeResult proposal);
  proxy::control::Surroundings surroundings() const;
  proxy::PlanNodes nodes() const;
  proxy::control::Act act() const { return {"sim", "", now_ms_}; }

  const std::uint64_t& now_ms_;
  Random& random_;
  Workers workers_;
  Node* source_ = nullptr;
  Node* target_ = nullptr;
  Checker* checker_ = nullptr;

  std::string journal_;  // What survives the process.
  std::optional<proxy::control::ClusterState> state_;
  slots::SlotSet kept_;  // The state's.
  slots::PlanId plan_ = 0;
  std::shared_ptr<const proxy::RoutingTable> table_;
  std::optional<proxy::FenceKeeper> fences_;
  std::optional<std::uint64_t> deadline_ms_;
  std::optional<slots::Result<proxy::mover::FenceGrant>> fence_answer_;
  slots::SlotSet held_;
  std::string vouched_run_id_;
  std::uint64_t noted_flushes_ = 0;
  bool is_journal_lost_ = false;
  bool is_run_id_due_ = false;  // To be published.
  std::string lost_commit_run_id_;
  slots::PlanId rival_ = 0;  // Proposed for the first map, never approved.
  std::optional<proxy::control::ClusterState> unwritten_;  // See publishes_first.
};

}  // namespace sim
