#include "tests/sim/node.h"

#include <fmt/format.h>

#include <utility>

#include "slots/assert.h"

namespace sim {

using proxy::mover::Database;

namespace {

std::uint64_t scan_order(const std::string& key) {  // FNV-1a.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash >> 1 | 1;
}

constexpr std::string_view kBarrierKey = "__slotproxy:barrier";

}  // namespace

std::string in_database(Database database, const std::string& name) {
  return database == 0 ? name : fmt::format("{}>{}", database, name);
}

Database database_of(const std::string& key) {
  const std::size_t at = key.find('>');
  return at == std::string::npos ? 0 : static_cast<Database>(std::stoul(key.substr(0, at)));
}

std::string name_of(const std::string& key) {
  const std::size_t at = key.find('>');
  return at == std::string::npos ? key : key.substr(at + 1);
}

std::string to_string(const Entry& entry) {
  std::string text = entry.is_stream
                         ? fmt::format("stream '{}' groups {}", entry.value, entry.groups)
                         : fmt::format("'{}'", entry.value);
  if (entry.expire_at_ms >= 0) text += fmt::format(" until {}", entry.expire_at_ms);
  return text;
}

bool is_live(const Entry& entry, std::uint64_t now_ms) {
  return entry.expire_at_ms < 0 || static_cast<std::uint64_t>(entry.expire_at_ms) > now_ms;
}

std::string to_string(const Command& command) {
  constexpr const char* kNames[] = {"GET",     "SET",       "SETFOR", "APPEND", "DEL",
                                    "PERSIST", "XADD",      "XGROUP", "FLUSH",  "SELECT",
                                    "DUMP",    "COPY",      "UNLINK", "PIECE",  "MEASURE",
                                    "PUBLISH", "SETGROUPS", "MARK",   "BARRIER"};
  return fmt::format("{} {} {}", kNames[static_cast<std::size_t>(command.kind)], command.key,
                     command.value);
}

bool is_of_client(const Command& command) { return command.kind <= Command::Kind::Flush; }

Effect apply(Dict& dict, const Command& command, std::uint64_t now_ms) {
  using Kind = Command::Kind;
  auto found = dict.find(command.key);
  if (found != dict.end() && !is_live(found->second, now_ms)) {
    dict.erase(found);
    found = dict.end();
  }
  const bool exists = found != dict.end();
  switch (command.kind) {
    case Kind::Get:
      return {exists ? to_string(found->second) : "nil"};
    case Kind::Set:
      dict[command.key] = {command.value};
      return {"OK", true, true};
    case Kind::SetFor:
      dict[command.key] = {command.value, false, 0, command.expire_at_ms};
      return {"OK", true, true};
    case Kind::Append:
      dict[command.key].value += command.value;
      return {std::to_string(dict[command.key].value.size()), true, true};
    case Kind::Del:
      if (exists) dict.erase(found);
      return {exists ? "1" : "0", exists, exists};
    case Kind::Persist:
      if (!exists || found->second.expire_at_ms < 0) return {"0"};
      found->second.expire_at_ms = -1;
      return {"1", true, true};
    case Kind::XAdd: {
      Entry& stream = dict[command.key];
      stream.is_stream = true;
      stream.value += command.value;
      return {std::to_string(stream.value.size()), true, true};
    }
    case Kind::XGroup:
      if (!exists) return {"no such key"};
      return {std::to_string(++found->second.groups), true, false};
    default:
      SP_ASSERT(false);
  }
}

std::string dump(const Entry& entry) {
  return fmt::format("{}{}|{}", entry.is_stream ? '\x0f' : '\x00', entry.groups, entry.value);
}

Entry restore(const proxy::mover::KeyValue& value) {
  const std::size_t bar = value.payload.find('|');
  return {value.payload.substr(bar + 1), value.payload[0] == '\x0f',
          std::stoull(value.payload.substr(1, bar - 1)), value.expire_at_ms};
}

ConnectionId Node::connect(bool is_mover) {
  SP_ASSERT(is_up_);
  connections_[next_id_].is_mover = is_mover;
  return next_id_++;
}

void Node::send(ConnectionId id, Command command) {
  connections_.at(id).input.push_back(std::move(command));
}

std::vector<Reply> Node::replies(ConnectionId id) {
  return std::exchange(connections_.at(id).replies, {});
}

void Node::lose(ConnectionId id, Random& random) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.is_lost = true;
  std::deque<Command>& input = found->second.input;
  input.resize(random.between(0, input.size()));
}

void Node::kill(ConnectionId id) { connections_.erase(id); }

void Node::kill_all(bool movers) {
  std::erase_if(connections_, [&](const auto& item) { return item.second.is_mover == movers; });
}

void Node::open_feed() { feed_.emplace(); }

std::optional<Push> Node::next_push() {
  if (!feed_ || feed_->empty()) return std::nullopt;
  Push push = std::move(feed_->front());
  feed_->pop_front();
  return push;
}

std::vector<std::string> Node::scan(ConnectionId id, std::uint64_t& cursor, std::size_t count) {
  const Database database = connections_.at(id).database;
  std::map<std::uint64_t, std::string> ordered;
  for (const auto& [key, entry] : dict_) {
    if (database_of(key) == database) ordered[scan_order(key)] = key;
  }
  std::vector<std::string> keys;
  auto at = ordered.lower_bound(cursor);
  for (; at != ordered.end() && keys.size() < count; ++at) {
    if (!expire(at->second)) keys.push_back(name_of(at->second));
  }
  cursor = at == ordered.end() ? 0 : at->first;
  return keys;
}

proxy::mover::Databases Node::databases() const {
  proxy::mover::Databases databases;
  for (const auto& [key, entry] : dict_) databases.insert(database_of(key));
  return databases;
}

std::uint64_t Node::marker() const {
  auto found = dict_.find(marker_key);
  return found == dict_.end() ? 0 : std::stoull(found->second.value);
}

std::vector<ConnectionId> Node::busy_connections() const {
  std::vector<ConnectionId> busy;
  for (const auto& [id, connection] : connections_) {
    if (!connection.input.empty()) busy.push_back(id);
  }
  return busy;
}

void Node::run_one(ConnectionId id) {
  if (is_stalled) return;
  Connection& connection = connections_.at(id);
  if (connection.input.empty()) return;
  Command command = std::move(connection.input.front());
  connection.input.pop_front();
  if (connection.is_mover) command.key = in_database(connection.database, command.key);
  connection.turn.push_back(run(command, connection));
}

void Node::end_turn() {
  if (is_stalled) return;
  if (feed_ && (is_flushed_ || !changed_.empty())) {
    feed_->push_back({{changed_.begin(), changed_.end()}, is_flushed_});
  }
  changed_.clear();
  is_flushed_ = false;
  for (auto& [id, connection] : connections_) {
    for (Reply& reply : connection.turn) connection.replies.push_back(std::move(reply));
    connection.turn.clear();
  }
}

void Node::flush(std::optional<Database> database) {
  std::erase_if(
      dict_, [&](const auto& item) { return !database || database_of(item.first) == *database; });
}

Reply Node::run(const Command& command, Connection& connection) {
  using Kind = Command::Kind;
  Reply reply{command.id, "OK", {}};
  const auto entry = [&]() -> std::optional<Entry> {
    auto found = dict_.find(command.key);
    return found == dict_.end() ? std::nullopt : std::optional(found->second);
  };
  if (!connection.is_mover) {
    if (command.kind == Kind::Flush) {
      std::optional<Database> database;
      if (!command.key.empty()) database = database_of(command.key);
      flush(database);
      history_.push_back({"", std::nullopt, database});
      is_flushed_ = true;
    } else {
      expire(command.key);
      Dict one;
      if (auto before = entry()) one[command.key] = *before;
      const Effect effect = apply(one, command, now_ms_);
      reply.text = effect.reply;
      if (effect.has_changed) {
        set(command.key, one.empty() ? std::nullopt : std::optional(one.begin()->second));
      }
      if (effect.is_announced) announce(command.key);
    }
    observer_.on_client_command(*this, command, reply.text);
    return reply;
  }
  switch (command.kind) {
    case Kind::Select:
      connection.database = static_cast<Database>(std::stoul(command.value));
      return reply;
    case Kind::Dump:
    case Kind::Measure:
      expire(command.key);
      reply.value.name = name_of(command.key);
      if (auto found = entry()) {
        reply.value = {name_of(command.key), true, dump(*found), found->expire_at_ms};
      }
      return reply;
    case Kind::Copy:
      if (refuses_writes) return {command.id, "MISCONF", {}};
      if (is_full && command.copy.exists) return {command.id, "OOM", {}};
      observer_.on_mover_command(*this, command);
      if (command.copy.exists && is_live(restore(command.copy), now_ms_)) {
        set(command.key, restore(command.copy));
      } else if (dict_.contains(command.key)) {
        set(command.key, std::nullopt);
      }
      return reply;
    case Kind::Unlink:
      observer_.on_mover_command(*this, command);
      if (dict_.contains(command.key)) set(command.key, std::nullopt);
      return reply;
    case Kind::Piece: {
      if (refuses_writes) return {command.id, "MISCONF", {}};
      if (is_full) return {command.id, "OOM", {}};
      observer_.on_mover_command(*this, command);
      Entry copy = entry().value_or(Entry{});
      copy.value += command.value;
      copy.is_stream = command.copy.exists;
      set(command.key, std::move(copy));
      return reply;
    }
    case Kind::Publish: {
      if (refuses_writes) return {command.id, "MISCONF", {}};
      observer_.on_mover_command(*this, command);
      std::optional<Entry> copy;
      const std::string hidden = in_database(connection.database, piece_key);
      if (auto found = dict_.find(hidden); found != dict_.end()) copy = found->second;
      if (dict_.contains(command.key)) set(command.key, std::nullopt);
      if (!copy) return {command.id, "no such key", {}};
      set(hidden, std::nullopt);
      copy->groups = command.copy.large_bytes;
      copy->expire_at_ms = command.expire_at_ms;
      if (!is_live(*copy, now_ms_)) return {command.id, "no such key", {}};
      set(command.key, std::move(copy));
      return reply;
    }
    case Kind::SetGroups: {
      if (refuses_writes) return {command.id, "MISCONF", {}};
      observer_.on_mover_command(*this, command);
      auto stream = entry();
      if (!stream || !stream->is_stream) return {command.id, "no such key", {}};
      stream->groups = command.copy.large_bytes;
      set(command.key, std::move(stream));
      return reply;
    }
    case Kind::Mark:
      if (refuses_writes || is_full) return {command.id, "MISCONF", {}};
      set(command.key, Entry{command.value});
      marker_history_ = history_.size();
      return reply;
    case Kind::Barrier:
      observer_.on_mover_command(*this, command);
      announce(std::string(kBarrierKey));
      reply.databases = databases();
      return reply;
    default:
      SP_ASSERT(false);
  }
}

void Node::set(const std::string& key, std::optional<Entry> entry) {
  if (entry) {
    dict_[key] = *entry;
  } else {
    dict_.erase(key);
  }
  history_.push_back({key, std::move(entry)});
}

bool Node::expire(const std::string& key) {
  auto found = dict_.find(key);
  if (found == dict_.end() || is_live(found->second, now_ms_)) return false;
  set(key, std::nullopt);
  announce(key);
  return true;
}

void Node::expire_due() {
  if (is_stalled) return;
  std::vector<std::string> keys;
  for (const auto& [key, entry] : dict_) keys.push_back(key);
  for (const std::string& key : keys) expire(key);
}

void Node::evict(const std::string& key) {
  set(key, std::nullopt);
  announce(key);
  observer_.on_evicted(*this, key);
}

void Node::crash() {
  is_up_ = false;
  connections_.clear();
  changed_.clear();
  is_flushed_ = false;
}

std::size_t Node::restart(Random& random) {
  const std::size_t cut = random.between(synced_, history_.size());
  history_.resize(cut);
  synced_ = cut;
  dict_.clear();
  for (const Change& change : history_) {
    if (change.key.empty()) {
      flush(change.database);
    } else if (change.entry) {
      dict_[change.key] = *change.entry;
    } else {
      dict_.erase(change.key);
    }
  }
  refuses_writes = is_full = false;
  ++run_;
  is_up_ = true;
  return cut;
}

std::optional<Entry> Node::find(const std::string& key) const {
  auto found = dict_.find(key);
  if (found == dict_.end() || !is_live(found->second, now_ms_)) return std::nullopt;
  return found->second;
}

void Node::load(const std::string& key, Entry entry) {
  set(key, std::move(entry));
  sync();
}

}  // namespace sim
