#include "tests/sim/link.h"

#include <utility>

#include "tests/sim/world.h"

namespace sim {

using namespace proxy::mover;  // NOLINT(google-build-using-namespace): its actions and outcomes.

namespace {

constexpr std::size_t kLargeBytes = 22;  // A value that long is large.
constexpr std::size_t kPieceBytes = 9;

WriteFate fate_of(const std::string& reply) {
  if (reply == "OK") return WriteFate::Ok;
  if (reply == "OOM") return WriteFate::OutOfMemory;
  if (reply == "version") return WriteFate::TooNew;
  return reply == "no such key" ? WriteFate::Incomplete : WriteFate::NotNow;
}

}  // namespace

Outcome Link::carry_out(const Action& action) {
  try {
    return std::visit([this](const auto& what) { return perform(what); }, action);
  } catch (const Lost& lost) {
    for (Side side : {Side::Source, Side::Target}) {
      if (is_connected_ && node(side).is_up()) node(side).lose(feed(side).connection, random_);
      read_feed(side);
      if (node(side).is_up()) node(side).close_feed();
    }
    is_connected_ = false;
    return NodeLost{lost.side, lost.reason};
  }
}

void Link::report_feeds(Event& event) {
  for (Side side : {Side::Source, Side::Target}) {
    Feed& of_side = feed(side);
    if (is_connected_ && (of_side.is_all_due || random_.chance(50))) read_feed(side);
    of_side.is_all_due = false;
    Notices& notices = side == Side::Source ? event.source : event.target;
    for (const Push& push : std::exchange(of_side.unread, {})) {
      notices.all = notices.all || push.all;
      notices.keys.insert(notices.keys.end(), push.keys.begin(), push.keys.end());
    }
  }
}

void Link::read_feed(Side side) {
  while (auto push = node(side).next_push()) feed(side).unread.push_back(std::move(*push));
}

void Link::cut(Side side) {
  if (!is_connected_) return;
  // Some of what was sent still arrives.
  while (random_.chance(70)) {
    auto push = node(side).next_push();
    if (!push) break;
    feed(side).unread.push_back(std::move(*push));
  }
  node(side).close_feed();
  feed(side).is_lost = true;
}

void Link::on_node_lost(Side side) {
  read_feed(side);
  node(side).close_feed();
  feed(side).is_lost = true;
}

// A fence ends in time, whatever is under way.
void Link::ring_alarm() {
  if (fenced_until_ms_ == 0 || world_.now_ms() < fenced_until_ms_ || world_.never_lifts_fence)
    return;
  fenced_until_ms_ = 0;
  world_.host().lift_fence();
}

Node& Link::node(Side side) { return world_.node(side); }

void Link::check(Side side) {
  if (!node(side).is_up()) throw Lost{side, "connection refused"};
  if (feed(side).is_lost) throw Lost{side, "connection lost"};
}

std::vector<Reply> Link::call(Side side, std::vector<Command> commands) {
  check(side);
  const std::size_t count = commands.size();
  const ConnectionId connection = feed(side).connection;
  for (Command& command : commands) {
    command.id = next_command_++;
    node(side).send(connection, std::move(command));
  }
  std::vector<Reply> replies;
  while (replies.size() < count) {
    ring_alarm();
    if (random_.chance(30)) {
      world_.tick();
    } else if (random_.chance(60)) {
      node(side).run_one(connection);
    } else {
      node(side).end_turn();
    }
    check(side);
    for (Reply& reply : node(side).replies(connection)) replies.push_back(std::move(reply));
  }
  return replies;
}

void Link::select(Side side, Database database) {
  if (feed(side).database == database) return;
  feed(side).database = database;
  (void)call(side, {{.kind = Command::Kind::Select, .value = std::to_string(database)}});
}

Outcome Link::perform(const Connect&) {
  world_.some_ticks(6);
  for (Side side : {Side::Source, Side::Target}) {
    if (!node(side).is_up()) throw Lost{side, "connection refused"};
  }
  for (Side side : {Side::Source, Side::Target}) {
    if (!world_.leaves_old_movers) node(side).kill_all(true);
    const Database database = world_.forgets_select ? feed(side).database : 0;
    feed(side) = {};
    feed(side).database = database;
    feed(side).connection = node(side).connect(true);
    node(side).open_feed();
  }
  is_connected_ = true;
  world_.some_ticks(6);
  check(Side::Source);
  check(Side::Target);
  return Connected{node(Side::Source).run_id(),
                   node(Side::Target).run_id(),
                   node(Side::Target).marker(),
                   world_.may_evict_marker(),
                   {node(Side::Source).databases(), node(Side::Target).databases()}};
}

Outcome Link::perform(const Scan& scan) {
  world_.some_ticks(4);
  select(scan.side, scan.database);
  check(scan.side);
  Scanned scanned{scan.cursor, {}};
  scanned.keys =
      node(scan.side).scan(feed(scan.side).connection, scanned.cursor, random_.between(1, 8));
  node(scan.side).end_turn();
  world_.some_ticks(4);
  return scanned;
}

Outcome Link::perform(const Read& read) {
  select(Side::Source, read.database);
  std::vector<Command> commands;
  for (const std::string& key : read.keys) {
    commands.push_back({.kind = Command::Kind::Dump, .key = key});
  }
  ReadDone done;
  for (Reply& reply : call(Side::Source, std::move(commands))) {
    KeyValue& value = done.values.emplace_back(std::move(reply.value));
    if (value.exists && value.payload.size() >= kLargeBytes && !read.is_whole) {
      value = {.name = value.name, .payload = {}, .large_bytes = value.payload.size()};
    }
  }
  if (random_.chance(5)) done.values.resize(random_.between(1, done.values.size()));
  return done;
}

Outcome Link::perform(const Write& write) {
  select(Side::Target, write.database);
  std::vector<Command> commands;
  for (const KeyValue& value : write.values) {
    commands.push_back({.kind = Command::Kind::Copy, .key = value.name, .copy = value});
  }
  const auto replies = call(Side::Target, std::move(commands));
  WriteDone done;
  for (std::uint32_t i = 0; i < replies.size(); ++i) {
    std::string text = replies[i].text;
    if (world_.is_target_older && write.values[i].exists && text == "OK") text = "version";
    if (text != "OK") done.failures.push_back({i, fate_of(text), text});
  }
  return done;
}

Outcome Link::perform(const Remove& remove) {
  select(remove.side, remove.database);
  std::vector<Command> commands;
  for (const std::string& key : remove.keys) {
    commands.push_back({.kind = Command::Kind::Unlink, .key = key});
  }
  (void)call(remove.side, std::move(commands));
  return Removed{};
}

std::optional<Entry> Link::look(Side side, const std::string& key) {
  const Reply reply = call(side, {{.kind = Command::Kind::Measure, .key = key}})[0];
  return reply.value.exists ? std::optional(restore(reply.value)) : std::nullopt;
}

Outcome Link::perform(const ReadPiece& read) {
  select(Side::Source, read.database);
  const auto entry = look(Side::Source, read.key);
  const bool is_first = read.from.type.empty();
  PieceRead piece{.next = read.from};
  if (is_first) {
    if (!entry) return PieceRead{.fate = PieceRead::Fate::Gone};
    piece.key_bytes = entry->value.size();
    if (dump(*entry).size() < kLargeBytes && !read.is_any_size) {
      return PieceRead{.fate = PieceRead::Fate::Small};
    }
    piece.next.type = entry->is_stream ? "stream" : "string";
    // As of its first piece: what is pending later the renewal brings.
    piece.read_at_ms = static_cast<std::int64_t>(world_.now_ms());
  } else if (!entry || entry->is_stream != (read.from.type == "stream")) {
    return PieceRead{.fate = PieceRead::Fate::Changed};
  }
  const std::size_t from = is_first ? 0 : std::stoull(read.from.cursor);
  const std::string bytes =
      from < entry->value.size() ? entry->value.substr(from, kPieceBytes) : std::string();
  piece.next.cursor = std::to_string(from + bytes.size());
  piece.is_last = bytes.size() < kPieceBytes;
  if (is_first || !bytes.empty()) piece.commands.push_back({piece.next.type, bytes});
  piece.bytes = bytes.size();
  return piece;
}

Outcome Link::perform(const WritePiece& write) {
  select(Side::Target, write.database);
  std::vector<Command> commands;
  const std::string& key = node(Side::Target).piece_key;
  if (write.is_first) commands.push_back({.kind = Command::Kind::Unlink, .key = key});
  for (const Words& words : write.commands) {
    Command& command = commands.emplace_back();
    command.kind = Command::Kind::Piece;
    command.key = key;
    command.value = words[1];
    command.copy.exists = words[0] == "stream";
  }
  for (const Reply& reply : call(Side::Target, std::move(commands))) {
    if (reply.text != "OK") return PieceWritten{fate_of(reply.text), reply.text};
  }
  return PieceWritten{};
}

Outcome Link::perform(const Publish& publish) {
  select(Side::Source, publish.database);
  select(Side::Target, publish.database);
  const auto copy = look(Side::Target, node(Side::Target).piece_key);
  const auto entry = look(Side::Source, publish.key);
  const bool is_whole = entry && copy && entry->value.size() == copy->value.size() &&
                        entry->is_stream == (publish.type == "stream");
  if (!entry || (!is_whole && !world_.publishes_unchecked)) {
    return Published{WriteFate::Incomplete, "it is not whole"};
  }
  Command command{.kind = Command::Kind::Publish, .key = publish.key};
  command.expire_at_ms = entry->expire_at_ms;
  command.copy.large_bytes = entry->groups;
  const Reply reply = call(Side::Target, {command})[0];
  return Published{fate_of(reply.text), reply.text};
}

Outcome Link::perform(const RenewGroups& renew) {
  select(Side::Source, renew.database);
  select(Side::Target, renew.database);
  const auto entry = look(Side::Source, renew.key);
  const auto copy = look(Side::Target, renew.key);
  if (!entry || !copy || entry->value.size() != copy->value.size()) {
    return GroupsRenewed{WriteFate::Incomplete, "its copy has other entries"};
  }
  GroupsRenewed renewed{.read_at_ms = static_cast<std::int64_t>(world_.now_ms())};
  if (entry->groups == copy->groups) return renewed;
  if (renew.pending_max < 1'000'000'000 && random_.chance(10)) {
    return GroupsRenewed{WriteFate::Incomplete, "too much has changed"};
  }
  Command command{.kind = Command::Kind::SetGroups, .key = renew.key};
  command.copy.large_bytes = entry->groups;
  const Reply reply = call(Side::Target, {command})[0];
  renewed.fate = fate_of(reply.text);
  renewed.text = reply.text;
  return renewed;
}

Outcome Link::perform(const CatchFeeds&) {
  Caught caught;
  for (Side side : {Side::Source, Side::Target}) {
    const Reply reply = call(side, {{.kind = Command::Kind::Barrier}})[0];
    (side == Side::Source ? caught.databases.source : caught.databases.target) = reply.databases;
    feed(side).is_all_due = true;
  }
  return caught;
}

Outcome Link::perform(const Fence& fence) {
  check(Side::Source);
  Host& host = world_.host();
  host.begin_fence(fence.slots, fence.limit_ms);
  auto answer = host.take_fence_answer();
  while (!answer) {
    world_.tick();
    if (world_.fails(0.5)) {
      host.lift_fence();
      return NotFenced{"the proxy ends"};
    }
    answer = host.take_fence_answer();
  }
  if (!*answer) return NotFenced{answer->error().message};
  for (ConnectionId id : (*answer)->lost_client_ids) {
    world_.some_ticks(2);
    check(Side::Source);
    node(Side::Source).kill(id);
  }
  host.hold_fence(fence.slots);
  const auto begun =
      std::chrono::duration_cast<std::chrono::milliseconds>((*answer)->begun.time_since_epoch());
  const std::uint64_t held_ms = world_.now_ms() - static_cast<std::uint64_t>(begun.count());
  fenced_until_ms_ = world_.now_ms() - held_ms + fence.limit_ms;
  return Fenced{held_ms};
}

Outcome Link::perform(const LiftFence&) {
  world_.some_ticks(2);
  fenced_until_ms_ = 0;
  world_.host().lift_fence();
  return Lifted{};
}

Outcome Link::perform(const PutMarker& put) {
  select(Side::Target, 0);
  const auto replies = call(Side::Target, {{.kind = Command::Kind::Mark,
                                            .key = node(Side::Target).marker_key,
                                            .value = std::to_string(put.number)}});
  if (replies[0].text != "OK") throw Lost{Side::Target, replies[0].text};
  return MarkerPut{};
}

Outcome Link::perform(const Commit& commit) {
  Host& host = world_.host();
  world_.some_ticks(3);
  ring_alarm();
  fenced_until_ms_ = 0;
  if (world_.fails(3)) {
    host.lift_fence();
    return NotCommitted{"the map is being changed", false};
  }
  if (world_.fails(1.5)) {
    host.lose_journal(commit.slots, commit.marker, commit.target_run_id);
    return NotCommitted{"the journal can't be written", true};
  }
  world_.maybe_crash_proxy();
  const auto epoch = host.commit(commit.slots, commit.marker, commit.target_run_id);
  if (!epoch) return NotCommitted{epoch.error().message, false};
  world_.maybe_crash_proxy();
  while (!host.is_applied()) world_.tick();
  world_.some_ticks(4);
  return Committed{*epoch};
}

Outcome Link::perform(const AskDurability&) {
  world_.some_ticks(4);
  check(Side::Target);
  const Node& target = node(Side::Target);
  return Durability{target.synced() >= target.marker_history(), "the next sync"};
}

Outcome Link::perform(const Vouch& vouch) {
  world_.some_ticks(4);
  world_.host().vouch(vouch.target_run_id);
  return Noted{};
}

Outcome Link::perform(const GiveBack& give_back) {
  world_.some_ticks(4);
  world_.maybe_crash_proxy();
  const auto epoch = world_.host().give_back(give_back.slots);
  if (!epoch) return NotGivenBack{epoch.error().message};
  world_.maybe_crash_proxy();
  while (!world_.host().is_applied()) world_.tick();
  return GaveBack{*epoch};
}

Outcome Link::perform(const Collected& collected) {
  world_.maybe_crash_proxy();
  world_.host().collected(collected.slots);
  world_.maybe_crash_proxy();
  return Noted{};
}

Outcome Link::perform(const Wait& wait) {
  world_.pass(wait.ms);
  return Waited{};
}

Outcome Link::perform(const Finish&) { return Started{}; }

}  // namespace sim
