#include "proxy/each_node.h"

#include <utility>

namespace proxy {

EachNode::EachNode(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
                   std::string client_name, Ready ready, Failed failed)
    : table_(std::move(table)),
      client_name_(std::move(client_name)),
      ready_(std::move(ready)),
      failed_(std::move(failed)),
      clients_(table_->nodes.size()) {
  for (std::size_t i = 0; i < clients_.size(); ++i) start(loop, i);
}

void EachNode::start(uv_loop_t* loop, std::size_t node) {
  clients_[node] = std::make_unique<control::NodeClient>(loop);
  clients_[node]->on_lost([this, node](const slots::Error& error) { failed_(node, error); });
  clients_[node]->connect(table_->nodes[node].address, table_->timeouts.connect,
                          [this, node](const slots::Status& connected) {
                            if (!connected) return failed_(node, connected.error());
                            log_in(node);
                          });
}

void EachNode::log_in(std::size_t node) {
  const NodeRoute& route = table_->nodes[node];
  clients_[node]->log_in(route.username, route.password, client_name_, table_->timeouts.node_silent,
                         [this, node](const slots::Status& in) {
                           if (!in) return failed_(node, in.error());
                           ready_(node, *clients_[node]);
                         });
}

}  // namespace proxy
