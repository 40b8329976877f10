// StrayCount: counts the strays of all nodes at once, each over a connection of its own.
//
// Thread:  the control loop. Destroying it ends the count without a completion. One use.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/control/admin_port.h"
#include "proxy/control/stray_counter.h"
#include "proxy/each_node.h"
#include "proxy/routing_table.h"

namespace proxy {

class StrayCount {
 public:
  // `done` is called once, maybe from inside one of the nodes' completions (so not the place to
  // destroy this), and never from inside the constructor.
  StrayCount(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
             const std::string& client_name, bool sample_only, std::size_t names_max,
             std::function<void(std::vector<control::NodeStrayCount>)> done);

 private:
  struct Node {
    std::unique_ptr<control::StrayCounter> counter;
    control::NodeStrayCount count;
    bool has_ended = false;
  };

  void begin(std::size_t index, control::NodeClient& client);
  void end(std::size_t index, slots::Result<control::StrayReport> report);

  uv_loop_t* loop_;
  std::shared_ptr<const RoutingTable> table_;
  bool sample_only_;
  std::size_t names_max_;
  std::function<void(std::vector<control::NodeStrayCount>)> done_;
  EachNode connections_;
  std::vector<Node> nodes_;
  std::size_t waiting_ = 0;
};

}  // namespace proxy
