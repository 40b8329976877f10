// SlotCount: counts the keys and bytes of all slots, all nodes at once, each over a connection of
// its own.
//
// Thread:  the control loop. Destroying it ends the count without a completion. One use.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/slot_counter.h"
#include "proxy/each_node.h"
#include "proxy/routing_table.h"
#include "slots/slot_census.h"

namespace proxy {

class SlotCount {
 public:
  // `bytes_per_key`: by NodeIndex, for a node that does not tell the sizes of its keys. `done` is
  // called once, maybe from inside one of the nodes' completions (so not the place to destroy
  // this), and never from inside the constructor. Slots of nodes that can't be asked are not
  // counted.
  SlotCount(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
            const std::string& client_name, std::vector<double> bytes_per_key,
            conf::Milliseconds patience,
            std::function<void(std::shared_ptr<const slots::SlotCensus>)> done);

 private:
  struct Node {
    std::unique_ptr<control::SlotCounter> counter;
    bool has_ended = false;
  };

  void begin(std::size_t index, control::NodeClient& client);
  void end(std::size_t index, const slots::Result<control::NodeTally>& tally);

  uv_loop_t* loop_;
  std::shared_ptr<const RoutingTable> table_;
  std::vector<double> bytes_per_key_;
  conf::Milliseconds patience_;
  std::function<void(std::shared_ptr<const slots::SlotCensus>)> done_;
  std::shared_ptr<slots::SlotCensus> census_ = std::make_shared<slots::SlotCensus>();
  EachNode connections_;
  std::vector<Node> nodes_;
  std::size_t waiting_ = 0;
};

}  // namespace proxy
