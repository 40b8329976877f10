// Trackers: the feeds from the nodes, and how clients are told what they say.

#include <algorithm>
#include <utility>

#include "proxy/backend/backends.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/sessions.h"
#include "proxy/session/subscribers.h"
#include "proxy/session/trackers.h"
#include "slots/key_slot.h"

namespace proxy::session {

using backend::Quiet;
using tracking::ChangeFeed;

// --- feeds

std::vector<ChangeFeed*> Trackers::feeds_of(const Node& node) {
  std::vector<ChangeFeed*> feeds;
  for (const auto* feed : {&node.own, &node.of_readers, &node.of_broadcasts}) {
    if (*feed != nullptr) feeds.push_back(feed->get());
  }
  return feeds;
}

void Trackers::open_feeds() {
  tracking::FeedHost& host = *this;
  for (const NodeRoute& route : core_.table->nodes) {
    Node& node = nodes_[route.name];
    auto open = [&](std::unique_ptr<ChangeFeed>& feed, ChangeFeed::Kind kind) {
      if (feed == nullptr) feed = std::make_unique<ChangeFeed>(host, route.name, kind);
    };
    open(node.own, ChangeFeed::Kind::Own);
    for (const ClientSession* session : quiet_) {
      if (quiet_wanted(*session) == Quiet::All) {
        open(node.of_broadcasts, ChangeFeed::Kind::OfBroadcasts);
      } else {
        open(node.of_readers, ChangeFeed::Kind::OfReaders);
      }
    }
  }
  follow_feeds();
}

void Trackers::close_feeds() {
  unused_since_ms_ = 0;
  table_.clear();
  for (std::size_t i = 0; i < core_.backends->count(); ++i) {
    backend::NodeBackend& node = core_.backends->node(static_cast<slots::NodeIndex>(i));
    for (const Quiet quiet : {Quiet::Reads, Quiet::All}) node.set_quiet_target(quiet, 0);
  }
  nodes_.clear();
  map_ = nullptr;
  count();
}

void Trackers::follow_feeds() {
  map_ = core_.table->map;
  for (const NodeRoute& route : core_.table->nodes) {
    for (ChangeFeed* feed : feeds_of(nodes_.at(route.name))) feed->follow(route);
  }
}

void Trackers::follow_table() {
  if (nodes_.empty()) return;
  const auto before = map_;
  // What a node that has left the map may still have had to say is not heard any more.
  const bool has_left = std::erase_if(nodes_, [&](const auto& each) {
                          return !core_.table->map->find(each.first);
                        }) > 0;
  open_feeds();
  bool is_unheard = false;
  if (before != map_) {
    for (std::size_t i = 0; i < core_.table->nodes.size(); ++i) {
      const bool owns_any = !map_->slots_of(static_cast<slots::NodeIndex>(i)).empty();
      is_unheard |= owns_any && !nodes_.at(core_.table->nodes[i].name).own->is_ready();
    }
  }
  if (has_left || is_unheard) tell_everybody();
  follow_quiet();
  end_waits();
}

bool Trackers::is_heard(std::string_view key) const {
  const RoutingTable& table = *core_.table;
  auto node = nodes_.find(table.nodes[table.map->owner(slots::slot_of_key(key))].name);
  return node != nodes_.end() && node->second.own->is_ready();
}

bool Trackers::is_settled(Quiet quiet) const {
  auto is_done = [](const std::unique_ptr<ChangeFeed>& feed) {
    return feed == nullptr || feed->is_ready() || !feed->is_counted_on();
  };
  return std::ranges::all_of(nodes_, [&](const auto& each) {
    const Node& node = each.second;
    return is_done(node.own) && (quiet != Quiet::Reads || is_done(node.of_readers)) &&
           (quiet != Quiet::All || is_done(node.of_broadcasts));
  });
}

void Trackers::end_waits() {
  std::vector<Waiting> waiting = std::exchange(waiting_, {});
  for (Waiting& each : waiting) {
    if (is_settled(each.quiet)) {
      each.done();
    } else {
      waiting_.push_back(std::move(each));
    }
  }
  follow_quiet();
}

bool Trackers::is_quiet_ready(Quiet quiet) const {
  return std::ranges::all_of(nodes_, [&](const auto& each) {
    const Node& node = each.second;
    const ChangeFeed* feed = quiet == Quiet::All ? node.of_broadcasts.get() : node.of_readers.get();
    return feed != nullptr && feed->is_ready();
  });
}

// Quiet connections are used while every node has somewhere to redirect to.
void Trackers::follow_quiet() {
  if (quiet_.empty()) return;
  const bool has_reads = is_quiet_ready(Quiet::Reads);
  const bool has_all = is_quiet_ready(Quiet::All);
  for (ClientSession* session : quiet_) {
    const Quiet wanted = quiet_wanted(*session);
    const bool is_ready = wanted == Quiet::All ? has_all : has_reads;
    session->set_channel(session->channel().with(is_ready ? wanted : Quiet::No));
  }
}

void Trackers::set_target(const ChangeFeed& feed, std::uint64_t client_id) {
  const Quiet quiet = feed.kind() == ChangeFeed::Kind::OfBroadcasts ? Quiet::All : Quiet::Reads;
  if (auto index = core_.table->map->find(feed.node()))
    core_.backends->node(*index).set_quiet_target(quiet, client_id);
}

void Trackers::on_feed_ready(ChangeFeed& feed) {
  if (feed.kind() != ChangeFeed::Kind::Own) set_target(feed, feed.client_id());
  end_waits();
}

void Trackers::on_feed_lost(ChangeFeed& feed, bool was_ready) {
  if (feed.kind() == ChangeFeed::Kind::Own) {
    if (was_ready) tell_everybody();
  } else {
    set_target(feed, 0);
    if (was_ready) on_quiet_lost();
  }
  end_waits();
}

// What others wrote meanwhile over keys that these have written may have been missed.
void Trackers::on_quiet_lost() {
  for (ClientSession* session : quiet_) {
    session->tracking_if_any()->forget_own();
    tell_all(*session);
  }
  send_redirected();
}

// --- what changed

void Trackers::on_changes(ChangeFeed& feed, std::string_view keys) {
  thread_local std::vector<std::string_view> changed;
  changed.clear();
  resp::ReplyCursor cursor(keys);
  const auto header = cursor.read_header();
  for (std::int64_t i = 0; header && i < header->count; ++i) {
    const auto key = cursor.read_bulk();
    if (key && !resp::is_reserved_key(*key)) changed.push_back(*key);
  }
  const bool is_own_feed = feed.kind() == ChangeFeed::Kind::Own;
  if (feed.kind() != ChangeFeed::Kind::OfReaders) tell_broadcast(is_own_feed, changed);
  if (feed.kind() == ChangeFeed::Kind::OfBroadcasts || table_.empty()) return;
  std::erase_if(changed, [&](std::string_view key) { return table_.number_of(key) == 0; });
  // A node names them in no order of its own: what was asked for last is told first.
  std::ranges::stable_sort(changed, std::greater<>(),
                           [&](std::string_view key) { return table_.number_of(key); });
  for (const std::string_view key : changed) tell_readers(is_own_feed, key);
  count();
}

// One message per prefix, as Redis does.
void Trackers::tell_broadcast(bool is_own_feed, const std::vector<std::string_view>& keys) {
  std::vector<KeyHash> hashes;
  for (const auto& [prefix, sessions] : by_prefix_) {
    for (ClientSession* session : sessions) {
      const Tracking& tracking = *session->tracking_if_any();
      if (!is_own_feed && !tracking.options.no_loop) continue;
      hashes.clear();
      std::string names;
      for (const std::string_view key : keys) {
        if (!key.starts_with(prefix)) continue;
        const KeyHash hash = hash_of(key);
        const bool is_own = tracking.options.no_loop && tracking.has_written(hash);
        if (is_own == is_own_feed) continue;
        hashes.push_back(hash);
        resp::append_bulk(names, key);
      }
      if (hashes.empty()) continue;
      std::string array;
      resp::append_array_header(array, hashes.size());
      tell(*session, array.append(names), hashes);
    }
  }
}

void Trackers::tell_readers(bool is_own_feed, std::string_view key) {
  const KeyHash hash = hash_of(key);
  table_.visit(key, [&](std::uint64_t reader) {
    ClientSession* session = sessions_.find(reader);
    const Tracking* tracking = session == nullptr ? nullptr : session->tracking_if_any();
    if (tracking == nullptr || tracking->options.is_broadcast) return false;
    const bool is_own = tracking->options.no_loop && tracking->has_written(hash);
    if (is_own == is_own_feed) return true;
    std::string keys;
    resp::append_request(keys, {key});
    tell(*session, keys, {&hash, 1});
    return false;
  });
}

void Trackers::on_all_changed(ChangeFeed& feed) {
  if (feed.kind() == ChangeFeed::Kind::Own) tell_everybody();
}

void Trackers::tell_everybody() {
  table_.clear();
  for (ClientSession* session : trackers_) tell_all(*session);
  send_redirected();
  count();
}

// --- telling

namespace {

std::string invalidation(std::string_view keys) {
  std::string push = ">2\r\n";
  resp::append_bulk(push, "invalidate");
  return push.append(keys);
}

}  // namespace

void Trackers::tell(ClientSession& session, std::string_view keys,
                    std::span<const KeyHash> hashes) {
  Tracking& tracking = *session.tracking_if_any();
  if (tracking.options.redirect != 0) return redirect(session, keys);
  if (!session.resp3()) return;  // As Redis: there is no way to tell it.
  backend::Ticket* ticket = tracking.last_with(session, hashes);
  // Its answer may be there in a moment, or never.
  if (ticket != nullptr && session.blocked_call() != nullptr) {
    tracking.held_up += invalidation(keys);
    held_up_.insert(&session);
    return;
  }
  session.push_after(ticket, invalidation(keys));
}

void Trackers::tell_all(ClientSession& session) {
  Tracking& tracking = *session.tracking_if_any();
  // Each node tells of a FLUSHALL; a client has nothing to forget twice. Answers that are under way
  // come before this, unless it is blocked.
  const bool is_blocked = session.blocked_call() != nullptr;
  if (!std::exchange(tracking.may_have_cached, is_blocked)) return;
  const std::string_view all = session.resp3() ? "_\r\n" : "$-1\r\n";
  if (tracking.options.redirect != 0) return redirect(session, all);
  if (!session.resp3()) return;
  session.push_after(is_blocked ? nullptr : session.newest_ticket(), invalidation(all));
}

void Trackers::redirect(ClientSession& session, std::string_view keys) {
  const std::uint64_t to = session.tracking_if_any()->options.redirect;
  if (tell_redirected(to, keys)) return;
  redirected_.push_back({session.id(), to, std::string(keys)});
}

bool Trackers::tell_redirected(std::uint64_t id, std::string_view keys) {
  ClientSession* session = sessions_.find(id);
  if (session == nullptr) return false;
  if (session->resp3()) {
    session->push(invalidation(keys));
  } else if (session->takes_messages_only()) {
    std::string message = "*3\r\n";
    resp::append_bulk(message, "message");
    resp::append_bulk(message, "__redis__:invalidate");
    session->push(message.append(keys));
  }
  return true;
}

// Those that are told instead, and are not clients of this worker.
void Trackers::send_redirected() {
  if (redirected_.empty()) return;
  auto messages = std::make_shared<const std::vector<Redirected>>(std::exchange(redirected_, {}));
  sessions_.others().ask_all(
      [messages](Sessions& sessions) {
        std::string found;
        for (const Redirected& each : *messages)
          found += sessions.trackers().tell_redirected(each.to, each.keys) ? '1' : '0';
        return found;
      },
      [this, messages](const std::vector<std::string>& answers) {
        for (std::size_t i = 0; i < messages->size(); ++i) {
          const bool is_there = std::ranges::any_of(
              answers, [&](const std::string& found) { return found[i] == '1'; });
          if (!is_there) on_redirect_broken((*messages)[i].from, (*messages)[i].to);
        }
      });
}

void Trackers::on_redirect_broken(std::uint64_t from, std::uint64_t to) {
  ClientSession* session = sessions_.find(from);
  Tracking* tracking = session == nullptr ? nullptr : session->tracking_if_any();
  if (tracking == nullptr || tracking->options.redirect != to) return;
  tracking->is_redirect_broken = true;
  if (!session->resp3()) return;
  std::string push;
  resp::ReplyWriter writer(push, true);
  writer.raw(">2\r\n");
  writer.bulk("tracking-redir-broken");
  writer.integer(static_cast<std::int64_t>(to));
  session->push(push);
}

}  // namespace proxy::session
