// NodeBackend: a worker's connections to one node. Backends: all nodes of the snapshot.
//
// Per node and channel (protocol version, database) one shared connection carries the requests of
// all sessions. Those of other databases than 0 are closed when nobody has used them for a minute.
// A shared connection is replaced when a reply above limits.stream_reply or a long script takes it
// over. Streamed requests get connections of their own, up to limits.large_connections; sessions
// that watch keys too, up to
// limits.pinned_connections, and requests that may wait at the node, up to
// limits.blocking_connections.
//
// A node that leaves the map gets no new requests. Those under way are still answered, for up to
// timeouts.drain; their sessions are held meanwhile, so that nothing overtakes them elsewhere.
//
// Thread:  one worker's.
// Owns:    the connections.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/backend/backend_connection.h"
#include "proxy/latency_histogram.h"

namespace proxy::backend {

class NodeBackend {
 public:
  NodeBackend(WorkerCore& core, slots::NodeIndex index)
      : core_(core), table_(core.table), index_(index) {}
  ~NodeBackend();
  NodeBackend(const NodeBackend&) = delete;
  NodeBackend& operator=(const NodeBackend&) = delete;

  [[nodiscard]] const NodeRoute& route() const { return table_->nodes[index_]; }

  // Null when requests can be sent; else why not, in words for a client.
  [[nodiscard]] const std::string* unavailable() const {
    const NodeRoute& node = route();
    if (node.state != NodeState::Up) [[unlikely]]
      return &node.reason;
    if (retry_at_ms_ != 0 && core_.now_ms() < retry_at_ms_) [[unlikely]]
      return &last_error_;
    return nullptr;
  }
  // The connection for ordinary requests, opened when there is none. Requires unavailable() ==
  // null.
  BackendConnection* shared(Channel channel) {
    BackendConnection* connection = shared_[channel.index()];
    return connection != nullptr ? connection : open_shared(channel);
  }
  // The same, if it takes a request now; null: `why` says why not, in words for a client.
  BackendConnection* accepting(Channel channel, const std::string*& why) {
    why = unavailable();
    if (why != nullptr) [[unlikely]]
      return nullptr;
    BackendConnection* connection = shared(channel);
    bool is_stuck = route().is_busy && connection->is_overdue(kStuckMs);
    if (connection->queued_bytes() <= core_.table->limits.node_queue && !is_stuck) [[likely]]
      return connection;
    why = is_stuck ? &kBusy : &kQueueFull;
    return nullptr;
  }
  // Where quiet connections have others' changes redirected to: a client id at the node. 0: there
  // is nowhere, and requests for such go over ordinary ones. Those that are open retire.
  void set_quiet_target(Quiet quiet, std::uint64_t client_id);
  [[nodiscard]] std::uint64_t quiet_target(Quiet quiet) const {
    return quiet_targets_[static_cast<std::size_t>(quiet)];
  }
  // A connection for one streamed request; null: limits.large_connections are in use. It comes back
  // by itself.
  BackendConnection* take_large(Channel channel, StreamSource* source);
  // A connection for one session; null: limits.pinned_connections are in use. give_back() it, but
  // not once it was lost.
  BackendConnection* take_pinned(Channel channel, PinHolder* holder);
  // A connection for one request that may wait; null: limits.blocking_connections are in use. It is
  // given back like a pinned one.
  BackendConnection* take_blocking(Channel channel, PinHolder* holder);
  // A connection that all share and that leads to the same process and database as this one; null:
  // there is none now.
  BackendConnection* beside(const BackendConnection& connection);
  // `leave` undoes what the server remembers of the session; empty: it remembers nothing, or not
  // any more once it has answered what is under way.
  void give_back(BackendConnection* connection, std::string_view leave);
  // How many shared connections there have been: each may lead to a server that was restarted.
  [[nodiscard]] std::uint64_t connections_opened() const { return connections_opened_; }
  void wait_for_large(StreamSource* source) { waiting_.push_back(source); }
  void forget(StreamSource* source);

  // The snapshot has changed: the node has this index now. `was` is what it was before.
  void install(slots::NodeIndex index, const NodeRoute& was);
  // The node is not in the snapshot any more: nothing new is sent, what is under way goes on.
  void leave();
  [[nodiscard]] bool has_connections() const { return !connections_.empty(); }
  void fail_all(const std::string& why);
  // What a connection finds that leads to another process than NodeRoute::only_run_id.
  static const std::string kRestarted;
  void fail_overdue(std::uint64_t limit_ms);
  void tick();  // About ten times a second.

  // A fence of this node's slots begins: until has_answered(), some of what was submitted before is
  // not answered, on whichever connection. What has to be sent again counts as submitted before;
  // what waits for keys of other slots does not count.
  void begin_fence(const slots::SlotSet& slots);
  [[nodiscard]] bool has_answered() const;
  // Client ids, at the server that runs now, of connections that were lost with requests on them
  // that were sent and not answered: the server may still execute those. 0: of one without a known
  // id. They are handed over again with the next fence, unless this one has ended with `is_over`:
  // then they were dealt with (CLIENT KILL).
  [[nodiscard]] std::vector<std::uint64_t> hand_over_lost_clients();
  void end_fence(bool is_over);
  // How long answers took since this was last asked, sampled; null: none did.
  [[nodiscard]] std::unique_ptr<LatencyHistogram> take_latency() { return std::move(latency_); }

  // From connections.
  void note_lost(const ServerSide& side);
  void note_lacks_database(unsigned database, const std::string& why);
  void note_latency(std::uint64_t microseconds) {
    if (latency_ == nullptr) latency_ = std::make_unique<LatencyHistogram>();
    latency_->add(microseconds);
  }
  void on_connection_ready(const BackendConnection& connection);
  void on_connection_failed(BackendConnection* connection, const std::string& why, bool was_ready,
                            const std::vector<Ticket*>& unsent, std::string_view bytes);
  void on_connection_retired(BackendConnection* connection);
  bool on_connection_drained(BackendConnection* connection);  // False: it is gone.

 private:
  static constexpr std::uint64_t kBackoffFirstMs = 20;
  static constexpr std::uint64_t kBackoffMostMs = 500;
  // A burst's idle connections for requests that wait go little by little, down to so many.
  static constexpr std::size_t kIdleBlockingKept = 16;
  static constexpr std::size_t kIdleBlockingTicks = 64;
  // A busy node's oldest request that waits for longer is the script, or stands behind it: the
  // server reads no more from that connection, where on any other it would say BUSY.
  static constexpr std::uint64_t kStuckMs = 1000;
  // A script that takes longer keeps the shared connection for itself.
  static constexpr std::uint64_t kScriptMs = 50;
  static const std::string kQueueFull;
  static const std::string kBusy;
  static constexpr std::size_t kLostIdsMax = 10'000;
  static constexpr std::uint64_t kIdleDatabaseMs = 60'000;

  // Connections that are taken and come back.
  struct Pool {
    std::size_t idle_max;
    std::vector<BackendConnection*> idle;
    std::size_t count;  // The idle ones included.
  };

  [[nodiscard]] Pool* pool_of(ConnectionUse use);
  BackendConnection* take(Pool& pool, std::size_t limit, Channel channel, ConnectionUse use);
  void close_idle_databases();
  void for_all_now(const std::function<void(BackendConnection&)>& act);
  void retire(BackendConnection& connection);
  void leave_others(const std::string& only_run_id);
  void leave_to_script();
  BackendConnection* open_shared(Channel channel);
  BackendConnection* add(Channel channel, ConnectionUse use);
  std::unique_ptr<BackendConnection> remove(BackendConnection* connection);
  void back_off(const std::string& why);
  void send_again(Channel channel, const std::vector<Ticket*>& tickets, std::string_view bytes);
  void wake_waiting();

  WorkerCore& core_;
  std::shared_ptr<const RoutingTable>
      table_;  // Kept, so that a node that left the map can still say its name.
  slots::NodeIndex index_;
  std::array<BackendConnection*, Channel::kCount> shared_ = {};  // By channel.
  std::array<std::uint64_t, kQuiets> quiet_targets_ = {};
  std::vector<std::unique_ptr<BackendConnection>> connections_;
  Pool large_{2, {}, 0};
  Pool pinned_{16, {}, 0};
  Pool blocking_{~std::size_t{0}, {}, 0};
  std::vector<StreamSource*> waiting_;
  struct Use {
    std::uint64_t bytes_submitted = 0;
    std::uint64_t since_ms = 0;
  };
  std::map<std::size_t, Use> last_uses_;  // Of shared connections of other databases, by channel.
  bool has_told_of_databases_ = false;    // That it lacks some; once is enough.
  std::uint64_t connections_opened_ = 0;
  bool has_left_ = false;
  std::string run_id_;  // Of the server that the newest connection leads to; empty: not known.
  std::vector<std::uint64_t> lost_ids_;  // Oldest first; `handed_over_` of them were handed over.
  std::size_t handed_over_ = 0;
  bool is_fenced_ = false;
  std::unique_ptr<LatencyHistogram> latency_;
  std::uint64_t retry_at_ms_ = 0;
  std::uint64_t backoff_ms_ = 0;
  std::string last_error_;
};

class Backends {
 public:
  explicit Backends(WorkerCore& core) : core_(core) {}

  [[nodiscard]] NodeBackend& node(slots::NodeIndex index) { return *nodes_[index]; }
  [[nodiscard]] std::size_t count() const { return nodes_.size(); }
  // Takes core.table over as the new snapshot; `before` is the one until now (null at first).
  void install(const RoutingTable* before);
  void tick();  // Every 100 ms or so: timeouts.request, nodes that left, idle connections.
  void close_all(const std::string& why);
  void forget(StreamSource* source);

 private:
  struct Leaving {
    std::unique_ptr<NodeBackend> node;
    std::uint64_t until_ms;
  };

  WorkerCore& core_;
  std::vector<std::unique_ptr<NodeBackend>> nodes_;
  std::vector<Leaving> leaving_;
};

}  // namespace proxy::backend
