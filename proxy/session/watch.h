// Watch: the keys that a client watches until its next EXEC, on a connection of its own.
//
// A server remembers watched keys per connection, and tells at EXEC whether somebody has touched
// one. So WATCH takes a connection that belongs to this session alone, EXEC goes over the same one,
// and it is given back once the server remembers nothing any more. All other requests go the usual
// way; the session sends none before the last is answered while it watches (see dispatch()), so
// that two connections don't change their order.
//
// When the connection ends, or the slot gets another owner, nobody knows whether the keys were
// touched: the watch is lost, and EXEC answers as if they were.
//
// Thread:  one worker's.
// Limits:  limits.pinned_connections per worker and node.
#pragma once

#include "proxy/backend/backends.h"
#include "slots/slot_map.h"

namespace proxy::session {

class Watch final : public backend::PinHolder {
 public:
  explicit Watch(WorkerCore& core, slots::SlotId slot) : core_(core), slot_(slot) {}
  ~Watch() { lose(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // False: all connections for this are in use.
  bool take_connection(slots::NodeIndex node, backend::Channel channel);
  // Null: the watch is lost.
  [[nodiscard]] backend::BackendConnection* connection() { return connection_; }
  [[nodiscard]] slots::SlotId slot() const { return slot_; }
  // EXEC is under way: the connection may be given to others behind it.
  void end();
  // The server forgets the keys.
  void lose();
  void follow(const slots::SlotMap& map);

  void on_pin_lost() override { connection_ = nullptr; }

 private:
  WorkerCore& core_;
  slots::SlotId slot_;  // Of all its keys.
  backend::BackendConnection* connection_ = nullptr;
};

}  // namespace proxy::session
