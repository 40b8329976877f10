#include "proxy/stray_count.h"

namespace proxy {

StrayCount::StrayCount(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
                       const std::string& client_name, bool sample_only, std::size_t names_max,
                       std::function<void(std::vector<control::NodeStrayCount>)> done)
    : loop_(loop),
      table_(std::move(table)),
      client_name_(client_name),
      sample_only_(sample_only),
      names_max_(names_max),
      done_(std::move(done)),
      nodes_(table_->nodes.size()),
      waiting_(nodes_.size()) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) start(i);
}

void StrayCount::start(std::size_t index) {
  const NodeRoute& route = table_->nodes[index];
  conf::Milliseconds timeout = table_->timeouts.node_silent;
  Node& node = nodes_[index];
  node.count.node = route.name;
  node.client = std::make_unique<control::NodeClient>(loop_);
  node.client->on_lost(
      [this, index](const slots::Error& error) { end(index, std::unexpected(error)); });
  node.client->connect(
      route.address, table_->timeouts.connect, [this, index, timeout](slots::Status connected) {
        if (!connected) return end(index, std::unexpected(connected.error()));
        const NodeRoute& to = table_->nodes[index];
        nodes_[index].client->log_in(
            to.username, to.password, client_name_, timeout,
            [this, index, timeout](slots::Status in) {
              if (!in) return end(index, std::unexpected(in.error()));
              Node& ready = nodes_[index];
              ready.counter = std::make_unique<control::StrayCounter>(
                  loop_, *ready.client, table_->map->slots_of(static_cast<slots::NodeIndex>(index)),
                  timeout);
              auto done = [this, index](slots::Result<control::StrayReport> report) {
                end(index, std::move(report));
              };
              if (sample_only_) {
                ready.counter->sample(done);
              } else {
                ready.counter->count(names_max_, done);
              }
            });
      });
}

void StrayCount::end(std::size_t index, slots::Result<control::StrayReport> report) {
  Node& node = nodes_[index];
  if (node.has_ended) return;
  node.has_ended = true;
  node.count.report = std::move(report);
  if (--waiting_ > 0) return;
  std::vector<control::NodeStrayCount> counts;
  for (Node& each : nodes_) counts.push_back(std::move(each.count));
  done_(std::move(counts));
}

}  // namespace proxy
