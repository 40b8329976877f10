// PlanDesk: answers PLAN: asks the nodes, lets the plan book decide, has the outcome committed, and
// enters it in the audit log.
//
// Thread:  the control loop. Destroying it means that no answer is called any more.
// Errors:  messages end with what to do.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/audit_log.h"
#include "proxy/control/plan_book.h"
#include "proxy/control/plan_request.h"
#include "proxy/control/plan_surveys.h"
#include "proxy/control/preflight.h"
#include "proxy/control/state_record.h"
#include "proxy/control/stray_survey.h"
#include "proxy/net/loop_timer.h"
#include "slots/result.h"

namespace proxy::control {

// What the desk needs of the proxy around it.
class PlanPort {
 public:
  virtual ~PlanPort() = default;

  [[nodiscard]] virtual const ClusterState& state() const = 0;
  // On disk, and known to all workers soon, once it returns.
  [[nodiscard]] virtual slots::Status commit(const ClusterState& next) = 0;
  [[nodiscard]] virtual AdminSnapshot plan_snapshot() = 0;
  // Called after a step of this plan was committed: it may have to start, pause, end, go slower.
  virtual void on_plan_changed(slots::PlanId plan) = 0;
  // Counts what slots hold, for no longer than this; the census may lack nodes and keys.
  virtual void count_slots(conf::Milliseconds patience,
                           std::function<void(std::shared_ptr<const slots::SlotCensus>)> done) = 0;
  // Per second and slot, over about a minute.
  [[nodiscard]] virtual slots::SlotLoads operations() = 0;
  // Of a plan that is at work.
  [[nodiscard]] virtual std::optional<admin::PlanProgress> progress(slots::PlanId plan) = 0;
};

class PlanDesk {
 public:
  using Done = std::function<void(slots::Result<std::string>)>;  // A report as JSON.

  // `port` must outlive it. `client_name`: of its connections to nodes.
  PlanDesk(uv_loop_t* loop, PlanPort& port, AuditLog audit, std::string client_name);
  ~PlanDesk() { *life_ = false; }
  PlanDesk(const PlanDesk&) = delete;
  PlanDesk& operator=(const PlanDesk&) = delete;

  // Calls `done` exactly once, perhaps from inside this call.
  void run(const std::vector<std::string>& words, const AdminPeer& peer, Done done);

  // Proposes what a configuration with other nodes or weights than before wants; a line for people,
  // empty when it wants nothing. `peer`: who had it read.
  std::string propose_drift(const conf::Config& before, const AdminPeer& peer);

  // Proposes in the system's name, unless another plan waits or runs, and logs what came of it.
  void propose_balance(slots::Measure measure, const std::string& reason);

  // Commits a step and enters it in the audit log. Errors: those of the step and of the commit; the
  // refusal of a step that has one.
  slots::Result<slots::PlanId> enter(ChangeResult change, const Act& act, const std::string& peer);

 private:
  using Census = std::shared_ptr<const slots::SlotCensus>;
  struct Asker {
    PlanRequest request;
    Act act;
    std::string peer;
    Done done;
  };
  // What the nodes of a plan said when they were asked.
  struct Checked {
    std::vector<admin::PlanCheck> checks = {};
    std::map<std::string, NodeFacts> facts = {};
    std::chrono::steady_clock::time_point at = {};
  };

  void answer(Asker asker);
  void propose(Asker asker);
  void propose_strays(const Asker& asker);
  void enter_strays(const Asker& asker, slots::Epoch epoch,
                    slots::Result<std::vector<slots::StrayMove>> strays);
  void tell_proposal(slots::PlanId plan, const Done& done, const Census& census = nullptr);
  void approve(Asker asker);
  void change(const Asker& asker, const Census& census = nullptr);
  void show(slots::PlanId plan, Done done);
  void tell(slots::PlanId plan, const Checked& checked, const Done& done);
  void check(slots::PlanId plan, std::function<void(const Checked&)> done);
  void approve_checked(const Asker& asker, const Checked& checked);
  // Has somebody look at the plan's keys, unless they are known.
  void look_at_keys(slots::PlanId plan, std::function<void()> done);
  void refine_forecast(slots::PlanId plan, const Checked& checked, const Census& census);
  void audit(const std::string& what, slots::PlanId plan, const Act& act, const std::string& peer);

  [[nodiscard]] Surroundings surroundings(slots::Measure measure, const Census& census = nullptr);
  void count(slots::Measure measure, std::function<void(const Census&)> done);
  [[nodiscard]] std::vector<AskedNode> nodes_of(const PlanRecord& plan);
  [[nodiscard]] std::vector<SurveyedNode> nodes_of_map();
  [[nodiscard]] PlanSurveys::Patience patience();

  uv_loop_t* loop_;
  PlanPort& port_;
  AuditLog audit_;
  std::string client_name_;
  std::map<std::uint64_t, std::unique_ptr<Preflight>> preflights_;
  std::uint64_t next_preflight_ = 1;
  std::vector<std::uint64_t> over_;  // Preflights to be destroyed.
  net::LoopTimer sweeper_;
  PlanSurveys surveys_;
  std::unique_ptr<StraySurvey> stray_survey_;  // The last one.
  bool is_counting_strays_ = false;
  std::map<slots::PlanId, Checked> checked_;  // So that who looks often does not ask often.
  std::set<slots::PlanId> uncounted_;         // Proposed without a look at what the slots hold.
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
};

// Where nodes are, for people: those of the table, and those of the configuration beside it.
[[nodiscard]] slots::NodePlaces places_of(const AdminSnapshot& snapshot);

}  // namespace proxy::control
