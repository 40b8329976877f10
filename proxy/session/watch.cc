#include "proxy/session/watch.h"

#include <utility>

namespace proxy::session {

bool Watch::take_connection(slots::NodeIndex node, backend::Channel channel) {
  connection_ = core_.backends->node(node).take_pinned(channel, this);
  return connection_ != nullptr;
}

void Watch::end() {
  backend::BackendConnection* connection = std::exchange(connection_, nullptr);
  connection->node().give_back(connection, {});
}

void Watch::lose() {
  if (connection_ == nullptr) return;
  backend::BackendConnection* connection = std::exchange(connection_, nullptr);
  connection->node().give_back(connection, "*1\r\n$7\r\nUNWATCH\r\n");
}

void Watch::follow(const slots::SlotMap& map) {
  if (connection_ == nullptr) return;
  if (&core_.backends->node(map.owner(slot_)) != &connection_->node()) lose();
}

}  // namespace proxy::session
