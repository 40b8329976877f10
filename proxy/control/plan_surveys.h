// PlanSurveys: looks at the keys that plans move, and keeps what was found as long as the plan is
// known.
//
// Only kept in memory: what is shown, not what is decided by.
//
// Thread:  the control loop. Destroying it means that no completion is called any more.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/control/key_sampler.h"
#include "proxy/control/state_record.h"
#include "proxy/net/loop_timer.h"
#include "slots/plan.h"

namespace proxy::control {

class PlanSurveys {
 public:
  struct Patience {
    conf::Milliseconds connect{1000};
    conf::Milliseconds answer{3000};
  };

  PlanSurveys(uv_loop_t* loop, std::string client_name)
      : loop_(loop), client_name_(std::move(client_name)), sweeper_(loop) {}

  [[nodiscard]] const KeySamples& of(slots::PlanId plan) const;
  [[nodiscard]] bool knows(slots::PlanId plan) const { return known_.contains(plan); }
  void forget_others(const ClusterState& state);

  // Calls `done` once, later. At least one node.
  void sample(slots::PlanId plan, std::vector<SampledNode> nodes, Patience patience,
              std::function<void()> done);

 private:
  void put_away(std::uint64_t number);

  uv_loop_t* loop_;
  std::string client_name_;
  std::map<slots::PlanId, KeySamples> known_;
  std::map<std::uint64_t, std::unique_ptr<KeySampler>> works_;
  std::uint64_t next_work_ = 1;
  std::vector<std::uint64_t> over_;  // To be destroyed.
  net::LoopTimer sweeper_;
};

}  // namespace proxy::control
