// Proxy: the daemon. Owns the state, the control loop with all that runs on it, and the workers.
//
// Thread:  open(), run() and the destructor: the main thread, which is the control thread.
// Order:   open() takes the state directory and every address, or says why it can't; run() verifies
// the nodes, starts
//          the workers, calls `on_ready`, and returns the exit code when the proxy has ended
//          (SIGTERM, SIGINT).
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/cluster.h"
#include "proxy/control/admin_port.h"
#include "proxy/control/admin_server.h"
#include "proxy/control/health_watcher.h"
#include "proxy/heat_keeper.h"
#include "proxy/net/mailbox.h"
#include "proxy/pubsub/hub.h"
#include "proxy/rebalancer.h"
#include "proxy/session/script_cache.h"
#include "proxy/slot_count.h"
#include "proxy/stray_count.h"
#include "proxy/worker.h"

namespace proxy {

class Proxy final : private control::AdminPort {
 public:
  // `config_path` is empty for --dev (nothing to reload then).
  [[nodiscard]] static slots::Result<std::unique_ptr<Proxy>> open(conf::Config config,
                                                                  std::string config_path);
  ~Proxy() override;
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  [[nodiscard]] slots::Epoch epoch() const { return cluster_.table()->map->epoch(); }
  int run(std::function<void()> on_ready);

 private:
  explicit Proxy(conf::Config config, std::string config_path);

  slots::Status open_listeners();
  // A listener for each worker; `node` is empty for plain clients.
  slots::Result<std::vector<WorkerListener>> open_listener(const conf::Address& address,
                                                           const std::string& node);
  slots::Status open_endpoint(const conf::NodeConfig& node);
  slots::Status open_workers();

  void start_control();
  void start_workers();
  void deliver(const std::shared_ptr<const RoutingTable>& table, std::function<void()> applied);
  void make_rebalancer();
  void on_health(const std::string& node, const control::NodeStatus& status);
  void learn_commands(const std::string& node);
  void watch_nodes();
  void warn_of_strays();
  void tick();
  void give_memory_back();

  void on_signal(int number);
  void begin_drain();
  void end();

  control::AdminSnapshot snapshot() override;
  void reload(const control::AdminPeer& peer,
              std::function<void(slots::Result<std::vector<std::string>>)> done) override;
  void count_strays(
      bool list,
      std::function<void(slots::Result<std::vector<control::NodeStrayCount>>)> done) override;
  void count_strays(bool sample_only, std::size_t names_max,
                    std::function<void(slots::Result<std::vector<control::NodeStrayCount>>)> done);
  control::HeatFacts heat() override;
  void watch_keys(
      std::chrono::seconds duration,
      std::function<void(slots::Result<std::shared_ptr<const slots::TopKeys>>)> done) override;
  void count_slots(conf::Milliseconds patience, Rebalancer::CountDone done);
  void plan(const std::vector<std::string>& words, const control::AdminPeer& peer,
            std::function<void(slots::Result<std::string>)> done) override;
  pubsub::HubOptions pubsub_options();
  [[nodiscard]] std::uint64_t sum_of(Counter WorkerStats::* counter) const;
  [[nodiscard]] const conf::Config& config() const { return *cluster_.config(); }
  // Of the names of all connections to nodes.
  [[nodiscard]] std::string connection_prefix() const {
    return "slotproxy:" + config().cluster + ":";
  }

  Cluster cluster_;
  std::string config_path_;
  std::string incarnation_;  // Of this process; in the names of its connections to nodes.
  uv_loop_t loop_{};
  net::Mailbox mailbox_;
  uv_timer_t ticker_{};
  uv_signal_t signals_[3]{};
  std::unique_ptr<control::HealthWatcher> health_;
  std::unique_ptr<control::AdminServer> admin_;
  std::unique_ptr<StrayCount> stray_count_;
  std::unique_ptr<SlotCount> slot_count_;
  std::vector<Rebalancer::CountDone> census_askers_;
  std::shared_ptr<const slots::SlotCensus> census_;  // The last; null: there was none yet.
  std::chrono::steady_clock::time_point census_taken_at_;
  std::unique_ptr<Rebalancer> rebalancer_;
  std::vector<std::shared_ptr<const std::string>> learned_from_;
  session::ScriptCache scripts_;
  backend::Refusals refusals_;
  session::SessionCounts counts_;
  pubsub::Hub pubsub_;
  std::vector<std::vector<WorkerListener>> listeners_;  // Per worker, until they are started.
  Worker::WorkersByIndex workers_;
  std::unique_ptr<HeatKeeper> heat_;
  bool workers_started_ = false;
  std::set<std::string> open_endpoints_;  // "inv-bcn 127.0.0.1:6401".
  std::function<void()> on_ready_;
  std::unique_ptr<net::LoopTimer> drain_timer_;
  std::size_t draining_workers_ = 0;
  bool is_draining_ = false;
  bool has_ended_ = false;
  std::chrono::steady_clock::time_point started_at_ = std::chrono::steady_clock::now();
  std::uint64_t requests_before_ = 0;
  std::uint64_t bytes_before_ = 0;  // From and to clients.
  std::uint64_t most_clients_ = 0;  // Since memory was given back.
  std::uint64_t most_traffic_ = 0;  // Bytes in a tick, since then.
  double ops_per_second_ = 0;
};

}  // namespace proxy
