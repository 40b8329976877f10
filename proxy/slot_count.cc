#include "proxy/slot_count.h"

#include <utility>

namespace proxy {

SlotCount::SlotCount(uv_loop_t* loop, std::shared_ptr<const RoutingTable> table,
                     const std::string& client_name, std::vector<double> bytes_per_key,
                     conf::Milliseconds patience,
                     std::function<void(std::shared_ptr<const slots::SlotCensus>)> done)
    : loop_(loop),
      table_(std::move(table)),
      bytes_per_key_(std::move(bytes_per_key)),
      patience_(patience),
      done_(std::move(done)),
      connections_(
          loop, table_, client_name,
          [this](std::size_t index, control::NodeClient& client) { begin(index, client); },
          [this](std::size_t index, const slots::Error& error) {
            end(index, std::unexpected(error));
          }),
      nodes_(table_->nodes.size()),
      waiting_(nodes_.size()) {}

void SlotCount::begin(std::size_t index, control::NodeClient& client) {
  nodes_[index].counter = std::make_unique<control::SlotCounter>(
      loop_, client, table_->map->slots_of(static_cast<slots::NodeIndex>(index)),
      table_->timeouts.node_silent, patience_,
      [this, index](const slots::Result<control::NodeTally>& tally) { end(index, tally); });
}

void SlotCount::end(std::size_t index, const slots::Result<control::NodeTally>& tally) {
  Node& node = nodes_[index];
  if (std::exchange(node.has_ended, true)) return;
  if (tally) {
    tally->tally->add_to(*census_, tally->is_whole, tally->all_keys, bytes_per_key_[index]);
  }
  if (--waiting_ == 0) done_(std::move(census_));
}

}  // namespace proxy
