#include "proxy/stray_count.h"

#include <utility>

namespace proxy {

StrayCount::StrayCount(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
                       const std::string& client_name, bool sample_only, std::size_t names_max,
                       std::function<void(std::vector<control::NodeStrayCount>)> done)
    : loop_(loop),
      table_(std::move(table)),
      sample_only_(sample_only),
      names_max_(names_max),
      done_(std::move(done)),
      connections_(
          loop, table_, client_name,
          [this](std::size_t index, control::NodeClient& client) { begin(index, client); },
          [this](std::size_t index, const slots::Error& error) {
            end(index, std::unexpected(error));
          }),
      nodes_(table_->nodes.size()),
      waiting_(nodes_.size()) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].count.node = table_->nodes[i].name;
}

void StrayCount::begin(std::size_t index, control::NodeClient& client) {
  Node& node = nodes_[index];
  node.counter = std::make_unique<control::StrayCounter>(
      loop_, client, table_->map->slots_of(static_cast<slots::NodeIndex>(index)),
      table_->timeouts.node_silent);
  auto done = [this, index](slots::Result<control::StrayReport> report) {
    end(index, std::move(report));
  };
  if (sample_only_) {
    node.counter->sample(done);
  } else {
    node.counter->count(names_max_, done);
  }
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
