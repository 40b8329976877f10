// Rebalancer: plans within the running proxy: answers PLAN, starts what is approved, pauses it
// while a node is not healthy, and ends it.
//
// Thread:  the control thread.
// Owns:    the PlanDesk, the PlanRun of the plan that is at work, and what its movers share.
// Order:   take_up() before the nodes are watched, begin() when clients are served, stop() before
//          the workers end.
// A plan that is open at the start goes on by itself: what its sources own is moved anew, what they
// still hold is collected. A plan that the system paused goes on by itself too, once its nodes are
// healthy; one that an operator paused waits for RESUME.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/cluster.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/function_copy.h"
#include "proxy/control/node_watch.h"
#include "proxy/control/plan_desk.h"
#include "proxy/control/spread_watch.h"
#include "proxy/fence_keeper.h"
#include "proxy/heat_keeper.h"
#include "proxy/mover/mover.h"
#include "proxy/mover/throttle.h"
#include "proxy/mover_desk.h"
#include "proxy/net/loop_timer.h"
#include "proxy/plan_run.h"
#include "proxy/plan_step.h"
#include "slots/slot_heat.h"

namespace proxy {

class Rebalancer final : private control::PlanPort, private FencePort {
 public:
  using CountDone = std::function<void(std::shared_ptr<const slots::SlotCensus>)>;

  // What it needs of the proxy, beside the cluster.
  struct Host {
    std::function<control::AdminSnapshot()> snapshot;
    std::function<control::NodeStatus(const std::string& node)> status;
    // Work for the control thread, from any thread.
    std::function<void(std::function<void()>)> post;
    // The map has other nodes than before: they are to be watched.
    std::function<void()> on_nodes_changed;
    // A node joins the map: its endpoint is to be opened. Errors: those of the listener.
    std::function<slots::Status(const conf::NodeConfig& node)> open_endpoint;
    // FLUSHALL and FLUSHDB that clients have asked for.
    std::function<std::uint64_t()> flushes;
    // Of them, those that a node may still execute.
    std::function<std::uint64_t()> lost_flushes;
    // What workers may send to this node has changed.
    std::function<void(const std::string& node)> on_vouched;
    // What slots and nodes do, and what slots hold.
    std::function<HeatKeeper&()> heat;
    std::function<void(conf::Milliseconds patience, CountDone done)> count_slots;
  };
  struct Names {
    std::string prefix;       // "slotproxy:<cluster>:", of all connections to nodes.
    std::string incarnation;  // Of this process.
  };

  // `cluster` must outlive it.
  Rebalancer(uv_loop_t* loop, Cluster& cluster, std::size_t workers, Host host, Names names);
  ~Rebalancer() override { stop(); }

  void take_up();
  void begin();
  // At a safe point within moments, and for good: the plan goes on at the next start.
  void hold();
  void stop();

  void plan(const std::vector<std::string>& words, const control::AdminPeer& peer,
            control::PlanDesk::Done done) {
    desk_.run(words, peer, std::move(done));
  }
  std::string propose_drift(const conf::Config& before, const control::AdminPeer& peer) {
    return desk_.propose_drift(before, peer);
  }
  void on_fenced(const FenceAck& ack) { fences_.on_ack(ack); }
  void on_health() { advance_soon(); }
  void tick();
  // Why workers must not send this node anything although it is up; empty when they may.
  [[nodiscard]] std::string why_withheld(const std::string& node, const std::string& run_id) const;
  // NodeRoute::only_run_id.
  [[nodiscard]] std::string only_run_id(const std::string& node) const;

 private:
  const control::ClusterState& state() const override { return cluster_.state(); }
  slots::Status commit(const control::ClusterState& next) override;
  control::AdminSnapshot plan_snapshot() override { return host_.snapshot(); }
  void on_plan_changed(slots::PlanId plan) override;
  std::optional<admin::PlanProgress> progress(slots::PlanId plan) override;
  void publish(std::shared_ptr<const Fence> fence) override;
  void set_deadline(std::optional<conf::Milliseconds> from_now) override;
  std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::now();
  }
  void count_slots(conf::Milliseconds patience, CountDone done) override {
    host_.count_slots(patience, std::move(done));
  }
  slots::SlotLoads operations() override {
    return host_.heat().rates().operations(slots::SlotRates::Over::Minute);
  }

  void advance_soon();
  void advance();
  void start(const control::PlanRecord& record);
  void fail(slots::PlanId plan, const std::string& reason);
  void make_run(slots::PlanId plan, bool is_resumed);
  void set_limits(const control::PlanRecord& record);
  [[nodiscard]] std::set<std::string> nodes_with_clients();
  void follow_latency();
  [[nodiscard]] std::vector<mover::Throttle::Latency> latencies() const;
  void watch_spread();
  [[nodiscard]] std::optional<double> spread_by(slots::Measure measure);
  void give_functions();
  void on_run_end();
  void enter_pause(slots::PlanId plan, const std::string& problem);
  void enter_resume(slots::PlanId plan);
  [[nodiscard]] PlanNodes nodes_of_plan(const control::PlanRecord& record) const;
  [[nodiscard]] control::AskedNode asked_node(const std::string& name) const;

  uv_loop_t* loop_;
  Cluster& cluster_;
  Host host_;
  Names names_;
  MoverDesk mover_desk_;
  FenceKeeper fences_;
  net::LoopTimer fence_deadline_;
  mover::MoverCommons commons_;
  control::PlanDesk desk_;
  std::unique_ptr<PlanRun> run_;
  mover::Throttle throttle_;  // Of the run.
  control::SpreadWatch spread_watch_;
  std::vector<std::string> without_functions_;  // Nodes that join, before they have got them.
  std::unique_ptr<control::FunctionCopy> function_copy_;
  bool has_run_ended_ = false;
  bool is_serving_ = false;
  bool is_held_ = false;
  bool house_is_due_ = false;
  net::LoopTimer soon_;
};

}  // namespace proxy
