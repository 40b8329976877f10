// Rebalancer: plans within the running proxy.
//
// Thread:  the control thread.
// Owns:    the PlanDesk.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/cluster.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/plan_desk.h"

namespace proxy {

class Rebalancer final : private control::PlanPort {
 public:
  // What it needs of the proxy, beside the cluster.
  struct Host {
    std::function<control::AdminSnapshot()> snapshot;
  };

  // `cluster` must outlive it. `client_name`: of its connections to nodes.
  Rebalancer(uv_loop_t* loop, Cluster& cluster, Host host, std::string client_name);

  void plan(const std::vector<std::string>& words, const control::AdminPeer& peer,
            control::PlanDesk::Done done);
  std::string propose_drift(const conf::Config& before) { return desk_.propose_drift(before); }

 private:
  const control::ClusterState& state() const override { return cluster_.state(); }
  slots::Status commit(const control::ClusterState& next) override;
  control::AdminSnapshot plan_snapshot() override { return host_.snapshot(); }
  void on_plan_changed(slots::PlanId) override {}
  std::optional<admin::PlanProgress> progress(slots::PlanId) override { return std::nullopt; }

  Cluster& cluster_;
  Host host_;
  control::PlanDesk desk_;
};

}  // namespace proxy
