// PlanRun: the movers of the plan that is at work, a thread for each pair of source and target, and
// what they ask of the proxy.
//
// Thread:  the control thread; the movers' questions come through the MoverDesk.
// Owns:    the movers. stop() ends them where they are; nothing is lost by that, since the state
//          says what is committed and what is still to be collected.
#pragma once

#include <uv.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "proxy/cluster.h"
#include "proxy/control/plan_book.h"
#include "proxy/fence_keeper.h"
#include "proxy/mover/mover.h"
#include "proxy/mover/stray_mover.h"
#include "proxy/mover_desk.h"
#include "slots/plan.h"

namespace proxy {

class PlanRun {
 public:
  struct Options {
    mover::LinkOptions link;
    std::function<void(const std::string& node)> on_vouched;  // What was withheld may be sent.
    std::function<void()> on_committed;                       // Files for people are due.
    std::function<void()> on_end;                             // All movers have ended.
    std::function<std::uint64_t()> flushes;       // That clients have asked for, of any node.
    std::function<std::uint64_t()> lost_flushes;  // Of them, those that may still happen.
    bool is_resumed = false;                      // An earlier process began to carry it out.
  };

  // `cluster`, `fences`, `desk` and `commons` must outlive it.
  PlanRun(slots::PlanId plan, Cluster& cluster, FenceKeeper& fences, MoverDesk& desk,
          mover::MoverCommons& commons, Options options);
  ~PlanRun();
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  [[nodiscard]] slots::PlanId plan() const { return plan_; }
  [[nodiscard]] bool is_moving() const { return is_moving_; }
  // on_end is called, later, also when there is nothing left to move.
  void start();
  void wish(mover::Wish wish) { wish_ = wish; }
  // The MoverDesk has to be closed before.
  void stop();

  // Records that clients have flushed since this was last asked, if it matters.
  void note_flushes();

  // The process of the node's server that is known to hold what was moved to it: any other may
  // have lost that. Empty: none is known, nobody has looked yet. Nullopt: nothing was moved to it,
  // or the sources hold nothing of that any more.
  [[nodiscard]] std::optional<std::string> vouched_run_id(const std::string& node) const;
  // How the movers ended, once on_end was called.
  [[nodiscard]] mover::Finish result() const;
  [[nodiscard]] control::PlanOutcome outcome() const;
  [[nodiscard]] admin::PlanProgress progress() const;
  // Bytes per second that the busiest node exchanges with movers now.
  [[nodiscard]] std::uint64_t speed() const;

 private:
  class Host;
  struct Pair {
    control::PairWork work;
    std::unique_ptr<Host> host;
    std::unique_ptr<mover::MoverThread> mover;
    mover::Progress progress = {};
    std::optional<mover::Finish> finish = {};
    bool has_ended = false;
  };

  [[nodiscard]] mover::MoverThread::OnEnd on_end_of(Pair& pair);
  [[nodiscard]] std::unique_ptr<mover::MoverThread> make_mover(Pair& pair);
  [[nodiscard]] std::unique_ptr<mover::MoverThread> make_stray_mover(
      Pair& pair, const slots::StrayMove& strays);
  void on_pair_end(Pair& pair, std::optional<mover::Finish> finish);
  void note(Pair& pair, const mover::Progress& progress);

  using EpochAnswer = MoverDesk::Answer<slots::Epoch>;
  void commit(FenceKeeper::Owner owner, const slots::SlotSet& slots, const std::string& source,
              const std::string& target, std::uint64_t marker, const std::string& run_id,
              const EpochAnswer& answer);
  void give_back(const slots::SlotSet& slots, const std::string& source, const std::string& target,
                 const EpochAnswer& answer);
  slots::Status vouch(const std::string& target, const std::string& run_id);
  slots::Status note_collected(const slots::SlotSet& slots, const std::string& source);
  [[nodiscard]] slots::Result<mover::NodeAccess> access(const std::string& node) const;

  slots::PlanId plan_;
  Cluster& cluster_;
  FenceKeeper& fences_;
  MoverDesk& desk_;
  mover::MoverCommons& commons_;
  Options options_;
  bool is_moving_ = false;
  std::atomic<mover::Wish> wish_ = mover::Wish::Run;
  std::list<Pair> pairs_;
  std::map<std::string, std::string> vouched_;  // Target -> run id.
  control::PlanOutcome before_;                 // Of earlier processes.
  std::vector<std::uint32_t> pauses_us_;
  std::uint64_t flushes_ = 0;  // That are noted.
};

}  // namespace proxy
