#include "tests/sim/workers.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/session/fence_rules.h"
#include "slots/key_slot.h"

namespace sim {

namespace {

// As a client would write it.
std::vector<std::string> words_of(const Command& command) {
  using Kind = Command::Kind;
  switch (command.kind) {
    case Kind::Set:
      return {"SET", command.key, command.value};
    case Kind::SetFor:
      return {"SET", command.key, command.value, "PXAT", std::to_string(command.expire_at_ms)};
    case Kind::Append:
      return {"APPEND", command.key, command.value};
    case Kind::Del:
      return {"DEL", command.key};
    case Kind::Persist:
      return {"PERSIST", command.key};
    case Kind::XAdd:
      return {"XADD", command.key, "*", "field", command.value};
    case Kind::XGroup:
      return {"XGROUP", "CREATE", command.key, "group", "$"};
    case Kind::Flush:
      return {command.key.empty() ? "FLUSHALL" : "FLUSHDB"};
    default:
      return {"GET", command.key};
  }
}

}  // namespace

Workers::Workers(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys)
    : now_ms_(now_ms),
      random_(random),
      keys_(std::move(keys)),
      commands_(proxy::resp::CommandTable::built_in()) {}

void Workers::set_nodes(Node& source, Node& target) {
  source_ = &source;
  target_ = &target;
}

// --- clients

Workers::Client* Workers::idle_client() {
  Client& client = clients_[random_.below(kClients)];
  return is_running_ && !client.command ? &client : nullptr;
}

Workers::Worker& Workers::worker_of(const Client& client) {
  return workers_[static_cast<std::size_t>(&client - clients_.data()) % kCount];
}

void Workers::issue() {
  if (Client* client = idle_client()) {
    begin(*client, make_command(static_cast<std::size_t>(client - clients_.data())));
  }
}

void Workers::flush() {
  const std::string of[] = {"", source_->name(), target_->name()};
  Command command{.kind = Command::Kind::Flush, .value = of[random_.below(3)]};
  if (random_.chance(50)) command.key = keys_[random_.below(keys_.size())];
  if (Client* client = idle_client()) begin(*client, command);
}

void Workers::begin(Client& client, Command command) {
  client.command = std::move(command);
  client.waits_since_ms = now_ms_;
  client.is_withheld = false;
  route(client);
}

Command Workers::make_command(std::size_t client) {
  using Kind = Command::Kind;
  Command command;
  command.id = next_command_++;
  // A few keys are hot.
  command.key = random_.chance(25) ? keys_[client % 3] : keys_[random_.below(keys_.size())];
  if (database_of(command.key) == late_database_ && now_ms_ < late_from_ms_)
    command.key = name_of(command.key);
  command.value = fmt::format("{}.{}", client, command.id);
  if (command.key.ends_with("stream")) {
    const Kind kinds[] = {Kind::Get, Kind::XAdd, Kind::XGroup, Kind::XGroup, Kind::Del};
    command.kind = kinds[random_.below(random_.chance(80) ? 4 : 5)];
    return command;
  }
  const Kind kinds[] = {Kind::Get,    Kind::Get, Kind::Set, Kind::Set,     Kind::Set,
                        Kind::Append, Kind::Del, Kind::Del, Kind::Persist, Kind::SetFor};
  command.kind = kinds[random_.below(std::size(kinds))];
  if (command.kind == Kind::SetFor) {
    command.expire_at_ms = static_cast<std::int64_t>(now_ms_ + random_.between(1, 400));
  }
  return command;
}

void Workers::route(Client& client) {
  Worker& worker = worker_of(client);
  const Command& command = *client.command;
  if (worker.table->fence) {
    const std::vector<std::string> words = words_of(command);
    const std::vector<std::string_view> args(words.begin(), words.end());
    if (proxy::session::keeps_back(*worker.table->fence, *commands_, args)) return;
  }
  if (command.kind == Command::Kind::Flush) {
    ++flushes_;
    for (Node* node : {source_, target_}) {
      if (!command.value.empty() && command.value != node->name()) continue;
      if (node->is_up()) send(client, *node, worker);
    }
  } else {
    const slots::SlotId slot = slots::slot_of_key(command.key);
    const slots::SlotMap& map = *worker.table->map;
    Node& owner = map.nodes()[map.owner(slot)].name == source_->name() ? *source_ : *target_;
    const std::string& wanted = worker.table->nodes[map.owner(slot)].only_run_id;
    if (!wanted.empty() && wanted != owner.run_id() && !sends_to_any_process) {
      client.is_withheld = true;
      return;
    }
    if (owner.is_up()) send(client, owner, worker);
  }
  if (client.sent.empty()) client.command.reset();  // The node is down: an error, at once.
}

void Workers::send(Client& client, Node& node, Worker& worker) {
  ConnectionId& connection = worker.connections[&node];
  if (connection == 0) connection = node.connect(false);
  Command command = *client.command;
  command.id = next_command_++;
  client.sent.push_back({&node, connection, command.id});
  node.send(connection, std::move(command));
}

void Workers::deliver() {
  for (Worker& worker : workers_) {
    for (auto& [node, connection] : worker.connections) {
      if (connection == 0 || !random_.chance(50)) continue;
      for (const Reply& reply : node->replies(connection)) {
        for (Client& client : clients_) {
          const auto erased = std::erase_if(client.sent, [&](const Sent& sent) {
            return sent.connection == connection && sent.node == node && sent.id == reply.id;
          });
          if (erased > 0 && client.sent.empty()) client.command.reset();
        }
      }
    }
  }
}

void Workers::break_connection() {
  if (!is_running_) return;
  Worker& worker = workers_[random_.below(kCount)];
  if (worker.connections.empty()) return;
  auto at = worker.connections.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.below(worker.connections.size())));
  auto& [node, connection] = *at;
  if (connection == 0) return;
  for (Client& client : clients_) {
    const auto erased =
        std::erase_if(client.sent, [&, &to = node, id = connection](const Sent& sent) {
          return sent.connection == id && sent.node == to;
        });
    if (erased == 0) continue;
    // Its outcome is unknown: it may still run.
    if (client.command->kind == Command::Kind::Flush) ++lost_flushes_;
    if (client.sent.empty()) client.command.reset();
  }
  node->lose(connection, random_);
  if (node == source_) worker.lost.push_back(connection);
  connection = 0;
}

void Workers::on_node_lost(Node& node) {
  for (Worker& worker : workers_) {
    worker.connections[&node] = 0;
    if (&node == source_) worker.lost.clear(), worker.handed_over = 0;
  }
  for (Client& client : clients_) {
    const auto erased =
        std::erase_if(client.sent, [&](const Sent& sent) { return sent.node == &node; });
    if (erased > 0 && client.sent.empty()) client.command.reset();
  }
}

// --- tables and fences

void Workers::start(const std::shared_ptr<const proxy::RoutingTable>& table) {
  is_running_ = true;
  for (Worker& worker : workers_) worker.table = table;
}

void Workers::crash() {
  is_running_ = false;
  for (Worker& worker : workers_) {
    for (auto& [node, connection] : worker.connections) {
      if (connection != 0) node->lose(connection, random_);
    }
  }
  workers_ = std::vector<Worker>(kCount);
  clients_ = std::vector<Client>(kClients);
  acks_.clear();
  flushes_ = lost_flushes_ = 0;
}

void Workers::install(const std::shared_ptr<const proxy::RoutingTable>& table) {
  for (Worker& worker : workers_) worker.mailbox.push_back(table);
}

bool Workers::have_applied(std::uint64_t version) const {
  return std::ranges::all_of(
      workers_, [&](const Worker& worker) { return worker.table->version >= version; });
}

void Workers::step() {
  if (!is_running_) return;
  Worker& worker = workers_[random_.below(kCount)];
  if (!worker.mailbox.empty()) {
    auto table = std::move(worker.mailbox.front());
    worker.mailbox.pop_front();
    return apply(worker, std::move(table));
  }
  if (!worker.has_to_acknowledge || (!acknowledges_early && !has_answers(worker))) return;
  worker.has_to_acknowledge = false;
  if (forgets_lost_connections) worker.lost.clear();
  worker.handed_over = worker.lost.size();
  acks_.push_back({worker.table->fence->id,
                   static_cast<unsigned>(&worker - workers_.data()),
                   {worker.lost.begin(), worker.lost.end()}});
}

void Workers::apply(Worker& worker, std::shared_ptr<const proxy::RoutingTable> table) {
  const std::shared_ptr<const proxy::Fence> last = worker.table->fence;
  const std::shared_ptr<const proxy::Fence> next = table->fence;
  worker.table = std::move(table);
  if (last == next) return release(worker);
  if (last) {
    const slots::SlotMap& map = *worker.table->map;
    const slots::NodeIndex owner = map.owner(last->slots.ranges().front().first);
    if (map.nodes()[owner].name != last->source) {
      worker.lost.erase(worker.lost.begin(),
                        worker.lost.begin() + static_cast<std::ptrdiff_t>(worker.handed_over));
    }
    worker.handed_over = 0;
  }
  worker.has_to_acknowledge = next != nullptr;
  worker.fenced_behind = next_command_;
  release(worker);
}

// To all that it had sent to the source when the fence began, and to flushes of whichever node.
bool Workers::has_answers(const Worker& worker) const {
  return std::ranges::none_of(clients_, [&](const Client& client) {
    const auto index = static_cast<std::size_t>(&client - clients_.data()) % kCount;
    if (&workers_[index] != &worker) return false;
    return std::ranges::any_of(client.sent, [&](const Sent& sent) {
      if (client.command->kind == Command::Kind::Flush) return true;
      return sent.node == source_ && sent.id < worker.fenced_behind;
    });
  });
}

std::optional<proxy::FenceAck> Workers::take_ack() {
  if (acks_.empty()) return std::nullopt;
  proxy::FenceAck ack = std::move(acks_.front());
  acks_.pop_front();
  return ack;
}

void Workers::release(const Worker& worker) {
  for (Client& client : clients_) {
    if (!client.command || !client.sent.empty()) continue;
    if (&worker_of(client) != &worker) continue;
    const bool was_withheld = client.is_withheld;
    route(client);
    if (client.command && client.sent.empty()) continue;
    // A target that may have lost its slots is a failure of its own; a fence is none.
    if (!was_withheld)
      longest_wait_ms_ = std::max(longest_wait_ms_, now_ms_ - client.waits_since_ms);
  }
}

}  // namespace sim
