// Cluster: what is, and everybody's knowledge of it: the state on disk, and the RoutingTable of now
// made from it.
//
// Thread:  the control thread only.
// Owns:    the StateStore. `deliver` takes each table to the workers.
// Order:   a change of the state is on disk before it is in a table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/health_watcher.h"
#include "proxy/control/state_store.h"
#include "proxy/resp/command_table.h"
#include "proxy/routing_table.h"
#include "slots/result.h"

namespace proxy {

class Cluster {
 public:
  // `applied` (may be null) is to be called once every worker routes by the table.
  using Deliver =
      std::function<void(std::shared_ptr<const RoutingTable>, std::function<void()> applied)>;

  explicit Cluster(std::shared_ptr<const conf::Config> config) : config_(std::move(config)) {}

  // Takes the state directory; at the first start the map comes from the configuration.
  [[nodiscard]] slots::Status open();
  void deliver_to(Deliver deliver) { deliver_ = std::move(deliver); }

  [[nodiscard]] const std::shared_ptr<const conf::Config>& config() const { return config_; }
  [[nodiscard]] const std::shared_ptr<const RoutingTable>& table() const { return table_; }
  [[nodiscard]] const control::ClusterState& state() const { return *store_->state(); }
  [[nodiscard]] bool is_first_start() const { return first_start_; }
  [[nodiscard]] std::vector<std::string> drift() const;
  [[nodiscard]] std::vector<control::WatchedNode> watched_nodes() const;

  // The next table, to every worker.
  void publish(const std::function<void(RoutingTable&)>& change,
               std::function<void()> applied = nullptr);
  // Nodes, limits and timeouts as this configuration says, the map as it is.
  void set_config(std::shared_ptr<const conf::Config> config);
  // What a node knows beyond the commands known so far, from its reply to COMMAND.
  [[nodiscard]] slots::Status learn_commands(std::string_view command_reply);
  // The state is on disk when this returns. What differs from the map of now is published, with
  // `change` (may be null) in the same table; `applied` is called in any case, if all went well.
  [[nodiscard]] slots::Status commit(const control::ClusterState& next,
                                     control::StateStore::People people,
                                     const std::function<void(RoutingTable&)>& change = nullptr,
                                     std::function<void()> applied = nullptr);
  void keep_house() { store_->keep_house(); }
  // A node is now known by this identity.
  void record_identity(const std::string& node, const std::string& identity);

 private:
  slots::Status record_places();
  void set_commands(RoutingTable& table) const;
  void take_map(RoutingTable& table, std::shared_ptr<const slots::SlotMap> map) const;

  std::shared_ptr<const conf::Config> config_;
  std::shared_ptr<const resp::CommandTable> known_commands_ = resp::CommandTable::built_in();
  std::unique_ptr<control::StateStore> store_;
  bool first_start_ = false;
  std::shared_ptr<const RoutingTable> table_;
  Deliver deliver_;
};

}  // namespace proxy
