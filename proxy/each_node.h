// EachNode: connects to all nodes of a table at once, each over a connection of its own, logged in.
//
// Thread:  the control loop. Destroying it closes the connections without a completion.
#pragma once

#include <uv.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/control/node_client.h"
#include "proxy/routing_table.h"
#include "slots/result.h"

namespace proxy {

class EachNode {
 public:
  // By NodeIndex of the table. Nothing is called from inside the constructor. `failed` may be
  // called after `ready`, when the connection is lost later.
  using Ready = std::function<void(std::size_t node, control::NodeClient& client)>;
  using Failed = std::function<void(std::size_t node, const slots::Error& error)>;

  EachNode(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table, std::string client_name,
           Ready ready, Failed failed);

 private:
  void start(uv_loop_t* loop, std::size_t node);
  void log_in(std::size_t node);

  std::shared_ptr<const RoutingTable> table_;
  std::string client_name_;
  Ready ready_;
  Failed failed_;
  std::vector<std::unique_ptr<control::NodeClient>> clients_;
};

}  // namespace proxy
