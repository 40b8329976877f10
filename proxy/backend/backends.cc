#include "proxy/backend/backends.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "proxy/resp/reply_writer.h"
#include "slots/assert.h"

namespace proxy::backend {

namespace {

// Half to all of `ms`, so that many proxies and workers don't come back in step.
std::uint64_t with_jitter(std::uint64_t ms) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return ms / 2 + std::uniform_int_distribution<std::uint64_t>(0, ms - ms / 2)(random);
}

}  // namespace

const std::string NodeBackend::kQueueFull = "more than limits.node_queue bytes wait for it";

const std::string NodeBackend::kRestarted = "was restarted and has to be looked at";

const std::string NodeBackend::kBusy(resp::errors::kBusyReason);

NodeBackend::~NodeBackend() {
  while (!connections_.empty()) connections_.back()->fail("the proxy let go");
}

BackendConnection* NodeBackend::add(Channel channel, ConnectionUse use) {
  connections_.push_back(std::make_unique<BackendConnection>(core_, *this, channel, use));
  BackendConnection* connection = connections_.back().get();
  connection->connect();
  return connection;
}

void NodeBackend::set_quiet_target(Quiet quiet, std::uint64_t client_id) {
  std::uint64_t& target = quiet_targets_[static_cast<std::size_t>(quiet)];
  if (std::exchange(target, client_id) == client_id) return;
  for (BackendConnection* connection : shared_) {
    if (connection != nullptr && connection->channel().quiet() == quiet) retire(*connection);
  }
}

BackendConnection* NodeBackend::open_shared(Channel channel) {
  if (channel.quiet() != Quiet::No && quiet_target(channel.quiet()) == 0)
    return shared(channel.with(Quiet::No));
  ++connections_opened_;
  return shared_[channel.index()] = add(channel, ConnectionUse::Shared);
}

BackendConnection* NodeBackend::take(Pool& pool, std::size_t limit, Channel channel,
                                     ConnectionUse use) {
  channel = channel.with(Quiet::No);
  auto fits = [&](BackendConnection* connection) { return connection->channel() == channel; };
  auto found = std::find_if(pool.idle.begin(), pool.idle.end(), fits);
  if (found != pool.idle.end()) {
    BackendConnection* connection = *found;
    pool.idle.erase(found);
    return connection;
  }
  if (pool.count >= limit) {
    if (pool.idle.empty()) return nullptr;
    BackendConnection* other = pool.idle.front();  // Of another channel: make room.
    std::unique_ptr<BackendConnection> self = remove(other);
    other->destroy(std::move(self));
  }
  ++pool.count;
  return add(channel, use);
}

BackendConnection* NodeBackend::take_large(Channel channel, StreamSource* source) {
  BackendConnection* connection =
      take(large_, core_.table->limits.large_connections, channel, ConnectionUse::Large);
  if (connection != nullptr) connection->set_stream_source(source);
  return connection;
}

BackendConnection* NodeBackend::take_pinned(Channel channel, PinHolder* holder) {
  BackendConnection* connection =
      take(pinned_, core_.table->limits.pinned_connections, channel, ConnectionUse::Pinned);
  if (connection != nullptr) connection->set_pin_holder(holder);
  return connection;
}

BackendConnection* NodeBackend::take_blocking(Channel channel, PinHolder* holder) {
  BackendConnection* connection =
      take(blocking_, core_.table->limits.blocking_connections, channel, ConnectionUse::Blocking);
  if (connection != nullptr) connection->set_pin_holder(holder);
  // By which it would be taken back; there is always one of database 0.
  if (connection != nullptr && channel.database() != 0)
    (void)shared(Channel(Protocol::Resp2, channel.database()));
  return connection;
}

BackendConnection* NodeBackend::beside(const BackendConnection& connection) {
  const std::string* why = nullptr;
  BackendConnection* shared =
      has_left_ ? nullptr
                : accepting(Channel(Protocol::Resp2, connection.channel().database()), why);
  if (shared == nullptr || shared->state() != BackendConnection::State::Ready) return nullptr;
  const std::string& here = shared->server_side().run_id;
  const std::string& there = connection.server_side().run_id;
  return here.empty() || there.empty() || here == there ? shared : nullptr;
}

void NodeBackend::give_back(BackendConnection* connection, std::string_view leave) {
  connection->set_pin_holder(nullptr);
  if (!leave.empty()) {
    Ticket* ticket = core_.tickets.take();  // Without an owner: its reply is dropped.
    connection->submit(ticket, leave.data(), leave.size());
  } else if (connection->is_idle()) {
    on_connection_drained(connection);
  }
}

void NodeBackend::forget(StreamSource* source) { std::erase(waiting_, source); }

void NodeBackend::wake_waiting() {
  if (waiting_.empty()) return;
  std::vector<StreamSource*> waiting;
  waiting.swap(waiting_);
  for (StreamSource* source : waiting) source->on_room();
}

NodeBackend::Pool* NodeBackend::pool_of(ConnectionUse use) {
  switch (use) {
    case ConnectionUse::Shared:
      break;
    case ConnectionUse::Large:
      return &large_;
    case ConnectionUse::Pinned:
      return &pinned_;
    case ConnectionUse::Blocking:
      return &blocking_;
  }
  return nullptr;
}

std::unique_ptr<BackendConnection> NodeBackend::remove(BackendConnection* connection) {
  for (BackendConnection*& shared : shared_) {
    if (shared == connection) shared = nullptr;
  }
  if (Pool* pool = pool_of(connection->use())) {
    std::erase(pool->idle, connection);
    --pool->count;
  }
  auto found = std::find_if(connections_.begin(), connections_.end(),
                            [&](const auto& owned) { return owned.get() == connection; });
  SP_ASSERT(found != connections_.end());
  std::unique_ptr<BackendConnection> self = std::move(*found);
  connections_.erase(found);
  if (connection->channel().quiet() != Quiet::No && core_.quiet_watcher != nullptr)
    core_.quiet_watcher->on_quiet_lost();
  return self;
}

void NodeBackend::install(slots::NodeIndex index, const NodeRoute& was) {
  index_ = index;
  table_ = core_.table;
  const NodeRoute& now = route();
  if (now.address != was.address || now.username != was.username || now.password != was.password) {
    retry_at_ms_ = backoff_ms_ = 0;
    fail_all("the configured address or password changed; closed the connection");
  } else if (now.state != was.state) {
    retry_at_ms_ = backoff_ms_ = 0;
    if (now.state != NodeState::Up) fail_all(now.reason + "; closed the connection");
  }
  if (now.only_run_id != was.only_run_id) {
    retry_at_ms_ = backoff_ms_ = 0;
    if (!now.only_run_id.empty()) leave_others(now.only_run_id);
  }
  // A restart alone closes nothing here: connections to the old process ended with it, and those
  // that are open lead to the new one.
  // The first request should not have to wait for a connection.
  if (unavailable() == nullptr && shared_[0] == nullptr) open_shared(Channel(Protocol::Resp2));
}

void NodeBackend::leave() {
  has_left_ = true;
  wake_waiting();
  for_all_now([this](BackendConnection& connection) { retire(connection); });
}

void NodeBackend::retire(BackendConnection& connection) {
  connection.retire();
  if (connection.is_idle()) connection.destroy(remove(&connection));
}

// Those that are not ready yet will find out by themselves.
void NodeBackend::leave_others(const std::string& only_run_id) {
  for_all_now([&](BackendConnection& connection) {
    if (connection.state() != BackendConnection::State::Ready) return;
    const std::string& run_id = connection.server_side().run_id;
    if (run_id.empty()) return retire(connection);
    if (run_id != only_run_id) connection.fail(kRestarted + "; closed the connection");
  });
}

void NodeBackend::fail_all(const std::string& why) {
  for_all_now([&](BackendConnection& connection) { connection.fail(why); });
}

// Not those that open meanwhile, for requests that can be sent again.
void NodeBackend::for_all_now(const std::function<void(BackendConnection&)>& act) {
  std::vector<BackendConnection*> now;
  for (const auto& connection : connections_) now.push_back(connection.get());
  for (BackendConnection* connection : now) {
    bool is_there = std::any_of(connections_.begin(), connections_.end(),
                                [&](const auto& owned) { return owned.get() == connection; });
    if (is_there) act(*connection);
  }
}

void NodeBackend::fail_overdue(std::uint64_t limit_ms) {
  std::vector<BackendConnection*> overdue;
  for (const auto& connection : connections_) {
    if (connection->is_overdue(limit_ms)) overdue.push_back(connection.get());
  }
  for (BackendConnection* connection : overdue) {
    connection->fail("no reply within timeouts.request; closed the connection");
  }
}

// A server that runs a script reads no more from that connection; on others it says BUSY after a
// while, which is what clients whose requests would stand behind the script are to hear.
void NodeBackend::leave_to_script() {
  BackendConnection* kept = nullptr;
  for (const auto& connection : connections_) {
    if (!connection->is_kept_by_script(kScriptMs)) continue;
    if (connection->is_retiring()) return;  // One is enough: the server runs one script at a time.
    if (connection->use() == ConnectionUse::Shared) kept = connection.get();
  }
  if (kept != nullptr) retire(*kept);
}

void NodeBackend::tick() {
  leave_to_script();
  // A tick may open a connection.
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (PinHolder* holder = connections_[i]->pin_holder()) holder->on_pin_tick();
  }
  close_idle_databases();
  if (blocking_.idle.size() <= kIdleBlockingKept) return;
  std::size_t extra = blocking_.idle.size() - kIdleBlockingKept;
  for (std::size_t n = 1 + extra / kIdleBlockingTicks; n > 0; --n) {
    BackendConnection* oldest = blocking_.idle.front();
    oldest->destroy(remove(oldest));
  }
}

void NodeBackend::close_idle_databases() {
  for (BackendConnection* connection : shared_) {
    if (connection == nullptr || connection->channel().database() == 0) continue;
    const Channel channel = connection->channel();
    Use& use = last_uses_[channel.index()];
    // A request that waits over a connection of its own is taken back over this one (beside()).
    const bool is_needed =
        !connection->is_idle() || std::ranges::any_of(connections_, [&](const auto& other) {
          return other->is_pinned() && other->channel().database() == channel.database();
        });
    if (is_needed || use.bytes_submitted != connection->bytes_submitted()) {
      use = {connection->bytes_submitted(), core_.now_ms()};
    } else if (core_.now_ms() - use.since_ms >= kIdleDatabaseMs) {
      last_uses_.erase(channel.index());
      connection->destroy(remove(connection));
    }
  }
}

void NodeBackend::begin_fence(const slots::SlotSet& slots) {
  is_fenced_ = true;
  for (const auto& connection : connections_) {
    if (!connection->waits_outside(slots)) connection->set_mark();
  }
}

bool NodeBackend::has_answered() const {
  return std::ranges::all_of(connections_,
                             [](const auto& connection) { return connection->is_past_mark(); });
}

std::vector<std::uint64_t> NodeBackend::hand_over_lost_clients() {
  handed_over_ = lost_ids_.size();
  return lost_ids_;
}

void NodeBackend::end_fence(bool is_over) {
  is_fenced_ = false;
  // Not those that were lost since: they may carry requests for slots of a later fence.
  if (is_over)
    lost_ids_.erase(lost_ids_.begin(),
                    lost_ids_.begin() + static_cast<std::ptrdiff_t>(handed_over_));
  handed_over_ = 0;
}

void NodeBackend::note_lost(const ServerSide& side) {
  // What was sent to an earlier process ended with it.
  if (!side.run_id.empty() && side.run_id != run_id_) return;
  // So many lost later: whatever the oldest one carried has been read and executed long ago.
  if (lost_ids_.size() == kLostIdsMax) {
    lost_ids_.erase(lost_ids_.begin());
    if (handed_over_ > 0) --handed_over_;
  }
  lost_ids_.push_back(side.client_id);
}

void NodeBackend::note_lacks_database(unsigned database, const std::string& why) {
  if (std::exchange(has_told_of_databases_, true)) return;
  spdlog::warn(
      "node {} does not serve database {} ({}): set `databases` in its redis.conf to the proxy's "
      "{} "
      "and restart it, or lower the proxy's",
      route().name, database, why, table_->databases);
}

void NodeBackend::on_connection_ready(const BackendConnection& connection) {
  retry_at_ms_ = backoff_ms_ = 0;
  last_error_.clear();
  const std::string& run_id = connection.server_side().run_id;
  if (run_id.empty() || run_id == run_id_) return;
  if (!run_id_.empty()) {
    lost_ids_.clear();
    handed_over_ = 0;
  }
  run_id_ = run_id;
}

void NodeBackend::back_off(const std::string& why) {
  last_error_ = why;
  backoff_ms_ = backoff_ms_ == 0 ? kBackoffFirstMs : std::min(2 * backoff_ms_, kBackoffMostMs);
  retry_at_ms_ = core_.now_ms() + with_jitter(backoff_ms_);
}

void NodeBackend::on_connection_failed(BackendConnection* connection, const std::string& why,
                                       bool was_ready, const std::vector<Ticket*>& unsent,
                                       std::string_view bytes) {
  const Channel channel = connection->channel();
  // On another connection the server would not know what it remembered on a pinned one, and others
  // would wait behind a request that blocks.
  bool is_pinned =
      connection->use() == ConnectionUse::Pinned || connection->use() == ConnectionUse::Blocking;
  // One that was broken off on purpose says nothing about the node.
  bool is_given_up = connection->is_retiring();
  connection->destroy(remove(connection));
  if (!was_ready && !is_given_up) back_off(why);
  if (!unsent.empty()) {
    if (was_ready && !is_pinned && !has_left_ && unavailable() == nullptr) {
      send_again(channel, unsent, bytes);
    } else {
      const std::string* reason = unavailable();
      for (Ticket* ticket : unsent) {
        if (ticket->owner == nullptr) {
          core_.tickets.give(ticket);
          continue;
        }
        std::string error = resp::errors::node_reply(
            route().name, route().address.text(), reason != nullptr ? *reason : why, ticket->slot);
        ticket->owner->on_lost(ticket, error);
      }
    }
  }
  wake_waiting();
}

// Requests of which no byte was written, in their order, on a new connection.
void NodeBackend::send_again(Channel channel, const std::vector<Ticket*>& tickets,
                             std::string_view bytes) {
  BackendConnection* connection = nullptr;
  for (Ticket* ticket : tickets) {
    std::size_t count = ticket->request_bytes;
    if (ticket->owner == nullptr && !ticket->sent_ahead) {
      core_.tickets.give(ticket);
    } else if (ticket->once) {
      ticket->owner->on_lost(ticket, resp::errors::node_reply(route().name, route().address.text(),
                                                              "connection lost", ticket->slot));
    } else {
      connection = shared(channel);
      connection->submit(ticket, bytes.data(), count);
    }
    bytes.remove_prefix(count);
  }
  if (is_fenced_ && connection != nullptr) connection->set_mark();
}

void NodeBackend::on_connection_retired(BackendConnection* connection) {
  for (BackendConnection*& shared : shared_) {
    if (shared == connection) shared = nullptr;
  }
}

bool NodeBackend::on_connection_drained(BackendConnection* connection) {
  if (connection->is_pinned() && !connection->is_retiring()) return true;
  connection->set_stream_source(nullptr);
  Pool* pool = pool_of(connection->use());
  bool keep = pool != nullptr && connection->is_idle() && !connection->is_retiring() &&
              pool->idle.size() < pool->idle_max;
  if (keep) {
    pool->idle.push_back(connection);
  } else {
    connection->destroy(remove(connection));
  }
  wake_waiting();
  return keep;
}

void Backends::install(const RoutingTable* before) {
  std::vector<std::unique_ptr<NodeBackend>> old = std::move(nodes_);
  nodes_.clear();
  const RoutingTable& table = *core_.table;
  std::vector<std::size_t> came_from(table.nodes.size(), table.nodes.size());
  for (std::size_t i = 0; i < table.nodes.size(); ++i) {
    std::unique_ptr<NodeBackend> node;
    for (std::size_t n = 0; before != nullptr && n < old.size(); ++n) {
      std::size_t k = (i + n) % old.size();  // Nearly always where it was.
      if (old[k] == nullptr || before->nodes[k].name != table.nodes[i].name) continue;
      node = std::move(old[k]);
      came_from[i] = k;
      break;
    }
    if (node == nullptr)
      node = std::make_unique<NodeBackend>(core_, static_cast<slots::NodeIndex>(i));
    nodes_.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeRoute& was = came_from[i] < (before != nullptr ? before->nodes.size() : 0)
                               ? before->nodes[came_from[i]]
                               : table.nodes[i];
    nodes_[i]->install(static_cast<slots::NodeIndex>(i), was);
  }
  auto patience = static_cast<std::uint64_t>(table.timeouts.drain.count());
  for (std::unique_ptr<NodeBackend>& node : old) {
    if (node == nullptr) continue;
    node->leave();
    leaving_.push_back({std::move(node), core_.now_ms() + patience});
  }
}

void Backends::tick() {
  if (auto limit = static_cast<std::uint64_t>(core_.table->timeouts.request.count()); limit != 0) {
    for (const auto& node : nodes_) node->fail_overdue(limit);
    for (const Leaving& leaving : leaving_) leaving.node->fail_overdue(limit);
  }
  for (const auto& node : nodes_) node->tick();
  for (const Leaving& leaving : leaving_) {
    if (core_.now_ms() >= leaving.until_ms) leaving.node->fail_all("the node has left the map");
  }
  std::erase_if(leaving_, [](const Leaving& each) { return !each.node->has_connections(); });
}

void Backends::close_all(const std::string& why) {
  for (const auto& node : nodes_) node->fail_all(why);
  for (const Leaving& leaving : leaving_) leaving.node->fail_all(why);
}

void Backends::forget(StreamSource* source) {
  for (const auto& node : nodes_) node->forget(source);
}

}  // namespace proxy::backend
