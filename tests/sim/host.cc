#include "tests/sim/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "slots/key_slot.h"

namespace sim {

using slots::slot_of_key;

namespace {

constexpr std::size_t kWorkers = 2;

void remove(slots::SlotSet& from, const slots::SlotSet& what) {
  for (const slots::SlotRange& range : what.ranges()) {
    for (std::uint32_t slot = range.first; slot <= range.last; ++slot) {
      from.remove(static_cast<slots::SlotId>(slot));
    }
  }
}

}  // namespace

Host::Host(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys,
           const slots::SlotSet& targets_own)
    : now_ms_(now_ms), random_(random), keys_(std::move(keys)), targets_own_(targets_own) {}

void Host::set_nodes(Node& source, Node& target, Checker& checker) {
  source_ = &source;
  target_ = &target;
  checker_ = &checker;
}

Host::Client* Host::idle_client() {
  Client& client = clients_[random_.below(kClients)];
  return is_running_ && !client.command ? &client : nullptr;
}

void Host::issue() {
  if (Client* client = idle_client()) {
    begin(*client, make_command(static_cast<std::size_t>(client - clients_.data())));
  }
}

void Host::flush() {
  const std::string of[] = {"", source_->name(), target_->name()};
  const Command command{.kind = Command::Kind::Flush, .value = of[random_.below(3)]};
  if (Client* client = idle_client()) begin(*client, command);
}

void Host::begin(Client& client, Command command) {
  client.command = std::move(command);
  client.waits_since_ms = now_ms_;
  client.waits_for_vouch = false;
  route(client);
}

Command Host::make_command(std::size_t client) {
  using Kind = Command::Kind;
  Command command;
  command.id = next_command_++;
  // A few keys are hot.
  command.key = random_.chance(25) ? keys_[client % 3] : keys_[random_.below(keys_.size())];
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

void Host::route(Client& client) {
  const std::size_t worker = static_cast<std::size_t>(&client - clients_.data()) % kWorkers;
  const Command& command = *client.command;
  if (command.kind == Command::Kind::Flush) {
    if (is_fence_up_ || is_journal_lost_) return;
    for (Node* node : {source_, target_}) {
      if (!command.value.empty() && command.value != node->name()) continue;
      if (node == target_ && !kept_.empty()) was_target_flushed_ = true;
      if (node->is_up()) send(client, *node, worker);
    }
  } else {
    const slots::SlotId slot = slot_of_key(command.key);
    if (fenced_.contains(slot)) return;
    if (is_doubtful(slot)) {
      client.waits_for_vouch = true;
      return;
    }
    if (owner(slot).is_up()) send(client, owner(slot), worker);
  }
  if (client.sent.empty()) client.command.reset();  // The node is down: an error, at once.
}

void Host::send(Client& client, Node& node, std::size_t worker) {
  ConnectionId& connection = connections_[{&node, worker}];
  if (connection == 0) connection = node.connect(false);
  Command command = *client.command;
  command.id = next_command_++;
  client.sent.push_back({&node, connection, command.id});
  node.send(connection, std::move(command));
}

void Host::deliver() {
  for (auto& [place, connection] : connections_) {
    if (connection == 0 || !random_.chance(50)) continue;
    for (const Reply& reply : place.first->replies(connection)) {
      for (Client& client : clients_) {
        const auto erased = std::erase_if(client.sent, [&](const Sent& sent) {
          return sent.connection == connection && sent.node == place.first && sent.id == reply.id;
        });
        if (erased > 0 && client.sent.empty()) client.command.reset();
      }
    }
  }
}

void Host::break_connection() {
  if (!is_running_ || connections_.empty()) return;
  auto at = connections_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.below(connections_.size())));
  auto& [place, connection] = *at;
  if (connection == 0) return;
  for (Client& client : clients_) {
    const auto erased = std::erase_if(client.sent, [&](const Sent& sent) {
      return sent.connection == connection && sent.node == place.first;
    });
    // Its command's outcome is unknown: it may still run.
    if (erased > 0 && client.command->kind == Command::Kind::Flush) has_late_flush_ = true;
    if (erased > 0 && client.sent.empty()) client.command.reset();
  }
  place.first->lose(connection, random_);
  if (place.first == source_) lost_.push_back(connection);
  connection = 0;
}

void Host::on_node_lost(Node& node) {
  for (std::size_t worker = 0; worker < kWorkers; ++worker) connections_[{&node, worker}] = 0;
  for (Client& client : clients_) {
    const auto erased =
        std::erase_if(client.sent, [&](const Sent& sent) { return sent.node == &node; });
    if (erased > 0 && client.sent.empty()) client.command.reset();
  }
  if (&node == source_) lost_.clear(), handed_over_ = 0;
}

void Host::crash() {
  is_running_ = false;
  for (auto& [place, connection] : connections_) {
    if (connection != 0) place.first->lose(connection, random_);
    connection = 0;
  }
  clients_ = std::vector<Client>(kClients);
  lost_.clear();
  handed_over_ = 0;
  is_fence_up_ = is_holding_ = is_journal_lost_ = false;
  fenced_ = {};
  if (const auto unread = std::exchange(unread_commit_, std::nullopt)) {
    append(unread->first);
    checker_->on_committed(unread->first.slots, target_->run_id() != unread->second);
  } else {
    checker_->on_lifted();
  }
}

void Host::lose_journal(const slots::SlotSet& slots, std::uint64_t marker,
                        const std::string& run_id, bool is_written) {
  is_journal_lost_ = true;
  if (is_written) unread_commit_ = {{JournalRecord::Kind::Commit, slots, marker}, run_id};
}

void Host::start() {
  is_running_ = true;
  for (Node* node : {source_, target_}) node->kill_all(false);
  vouched_run_id_.clear();
  was_target_flushed_ = false;
}

void Host::begin_fence(const slots::SlotSet& slots) {
  fenced_ = slots;
  is_fence_up_ = true;
}

bool Host::is_drained() const {
  return std::none_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return std::any_of(client.sent.begin(), client.sent.end(), [&](const Sent& sent) {
      return sent.node == source_ || client.command->kind == Command::Kind::Flush;
    });
  });
}

std::vector<ConnectionId> Host::hand_over_lost_connections() {
  if (ignores_lost_connections) lost_.clear();
  handed_over_ = lost_.size();
  return lost_;
}

void Host::lift_fence() {
  if (!is_fence_up_) return;
  is_fence_up_ = is_holding_ = false;
  fenced_ = {};
  handed_over_ = 0;
  checker_->on_lifted();
  release();
}

void Host::commit(const slots::SlotSet& slots, std::uint64_t marker, const std::string& run_id) {
  if (kept_.empty()) was_target_flushed_ = false;
  lost_.erase(lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(handed_over_));
  handed_over_ = 0;
  append({JournalRecord::Kind::Commit, slots, marker});
  vouched_run_id_ = run_id;
  is_fence_up_ = is_holding_ = false;
  fenced_ = {};
  checker_->on_committed(slots, target_->run_id() != run_id);
  release();
}

void Host::give_back(const slots::SlotSet& slots) {
  append({JournalRecord::Kind::GiveBack, slots, 0});
  checker_->on_given_back(slots);
  release();
}

void Host::collected(const slots::SlotSet& slots) {
  append({JournalRecord::Kind::Collected, slots, 0});
  checker_->on_collected(slots);
  release();
}

void Host::stop_doubting() {
  vouched_run_id_ = target_->run_id();
  release();
}

void Host::release() {
  for (Client& client : clients_) {
    if (!client.command || !client.sent.empty()) continue;
    const bool waits_for_vouch = client.waits_for_vouch;
    route(client);
    if (client.command && client.sent.empty()) continue;
    // A target that may have lost its slots is a failure of its own; a fence is none.
    if (!waits_for_vouch) {
      longest_wait_ms_ = std::max(longest_wait_ms_, now_ms_ - client.waits_since_ms);
    }
  }
}

Node& Host::owner(slots::SlotId slot) {
  return targets_own_.contains(slot) || moved_.contains(slot) ? *target_ : *source_;
}

bool Host::is_fenced(slots::SlotId slot) const { return is_holding_ && fenced_.contains(slot); }

bool Host::is_doubtful(slots::SlotId slot) const {
  return kept_.contains(slot) && vouched_run_id_ != target_->run_id();
}

std::vector<proxy::mover::KeptSlots> Host::kept_commits() const {
  std::vector<proxy::mover::KeptSlots> kept;
  for (const JournalRecord& record : journal_) {
    if (record.kind == JournalRecord::Kind::Commit) {
      kept.push_back({record.slots, record.marker});
    } else {
      std::erase_if(kept,
                    [&](const auto& commit) { return record.slots.intersects(commit.slots); });
    }
  }
  return kept;
}

void Host::append(const JournalRecord& record) {
  if (record.kind == JournalRecord::Kind::Commit) {
    moved_.add(record.slots);
    kept_.add(record.slots);
  } else {
    if (record.kind == JournalRecord::Kind::GiveBack) remove(moved_, record.slots);
    remove(kept_, record.slots);
  }
  journal_.push_back(record);
}

}  // namespace sim
