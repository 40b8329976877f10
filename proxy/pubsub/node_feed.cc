#include "proxy/pubsub/node_feed.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "proxy/resp/handshake.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"

namespace proxy::pubsub {

namespace {

// The node would do it at another time.
bool is_for_now(std::string_view error) {
  return error.starts_with("-BUSY") || error.starts_with("-LOADING");
}

// A keyspace event about a key of the proxy's own, which clients don't see otherwise either.
bool is_about_own_key(std::string_view channel, std::string_view payload) {
  if (channel.starts_with("__keyevent@")) return resp::is_reserved_key(payload);
  if (!channel.starts_with("__keyspace@")) return false;
  const std::size_t colon = channel.find(':');
  return colon != std::string_view::npos && resp::is_reserved_key(channel.substr(colon + 1));
}

std::optional<Kind> kind_of_message(std::string_view word) {
  for (Kind kind : {Kind::Channel, Kind::Pattern, Kind::Sharded}) {
    if (word == words_of(kind).message) return kind;
  }
  return std::nullopt;
}

}  // namespace

void NodeFeed::follow(const NodeRoute& route, bool is_used) {
  leaves_at_ms_ = 0;
  follow_route(route, is_used);
}

void NodeFeed::start() {
  if (is_up() && state() == State::Idle) connect();
}

void NodeFeed::forget() {
  is_syncing_ = false;
  expected_.clear();
  asked_.clear();
}

void NodeFeed::greet() {
  std::string login;
  resp::append_login(login, route().username, route().password);
  if (!login.empty()) {
    expected_.push_back({Awaited::Login});
    send(login);
  }
  ask(Awaited::Name, {"CLIENT", "SETNAME", connection_name()});
  ask(Awaited::Identity, {"GET", resp::kIdentityKey});
}

void NodeFeed::ask(Awaited what, std::initializer_list<std::string_view> request,
                   std::uint64_t id) {
  expected_.push_back({what, id});
  std::string bytes;
  resp::append_request(bytes, request);
  if (is_gathering_) {
    gathered_.append(bytes);
  } else {
    send(bytes);
  }
}

// Everything in one write: 10,000 subscriptions are no 10,000 system calls.
void NodeFeed::sync() {
  is_syncing_ = true;
  is_gathering_ = true;
  host_.subscribe_all(*this);
  ask(Awaited::Synced, {"PING"});
  is_gathering_ = false;
  send(std::exchange(gathered_, {}));
}

void NodeFeed::subscribe(TopicId id, Kind kind, std::string_view name) {
  if (!is_past_greeting()) return;  // With sync().
  asked_.insert(id);
  ask(Awaited::Subscribed, {words_of(kind).subscribe, name}, id);
}

void NodeFeed::unsubscribe(TopicId id, Kind kind, std::string_view name) {
  if (!is_past_greeting()) return;
  asked_.erase(id);
  ask(Awaited::Unsubscribed, {words_of(kind).unsubscribe, name}, id);
}

bool NodeFeed::send_barrier(std::uint64_t barrier) {
  if (!is_past_greeting()) return false;
  ask(Awaited::Barrier, {"PING"}, barrier);
  return true;
}

void NodeFeed::resume() {
  --pauses_;
  go_on_reading();
}

void NodeFeed::go_on_reading() {
  if (may_read()) resume_reading();
}

void NodeFeed::take(std::string_view value) {
  if (value.front() == '*') {
    resp::ReplyCursor cursor(value);
    cursor.read_header();
    auto word = cursor.read_bulk();
    if (auto kind = kind_of_message(word.value_or(""))) {
      auto name = cursor.read_bulk();
      auto channel = *kind == Kind::Pattern ? cursor.read_bulk() : name;
      auto payload = cursor.read_bulk();
      if (!payload) return fail("protocol error (a broken message)");
      if (!is_about_own_key(*channel, *payload)) host_.on_message(*kind, *name, value);
      return;
    }
  }
  take_reply(value);
}

void NodeFeed::take_reply(std::string_view reply) {
  if (expected_.empty()) return fail("protocol error (a reply that nobody asked for)");
  const Expected expected = expected_.front();
  expected_.pop_front();
  const bool is_error = reply.front() == '-';
  if (is_error && is_for_now(reply) && expected.what != Awaited::Pong)
    return fail(resp::error_text(reply));
  switch (expected.what) {
    case Awaited::Login:
      if (is_error) fail("did not accept the proxy's password: " + resp::error_text(reply));
      return;
    case Awaited::Identity:
      return take_identity(reply);
    case Awaited::Subscribed:
      if (asked_.erase(expected.id) == 0) return;  // Unsubscribed since.
      return is_error ? host_.on_refused(expected.id, fmt::format("{} (node {})",
                                                                  resp::error_text(reply), node()))
                      : host_.on_confirmed(expected.id);
    case Awaited::Synced:
      is_syncing_ = false;
      become_ready();
      if (std::exchange(was_ready_, true))
        spdlog::info("node {}: what clients have subscribed is in force there again", node());
      return host_.on_feed_changed(*this);
    case Awaited::Pong:
      return note_pong();
    case Awaited::Barrier:
      return host_.on_barrier(*this, expected.id);
    case Awaited::Name:
    case Awaited::Unsubscribed:
      return;
  }
}

void NodeFeed::take_identity(std::string_view reply) {
  auto identity = resp::ReplyCursor(reply).read_bulk();
  if (reply.front() == '-') return fail(resp::error_text(reply));
  if (identity && !route().identity.empty() && *identity != route().identity)
    return fail("is another server than before: its identity key differs");
  sync();
}

void NodeFeed::tell_lost(bool was_ready, const std::string& why) {
  if (was_ready) {
    spdlog::warn(
        "node {}: the connection that clients' subscriptions share was lost ({}); what is "
        "published there until it is back reaches none of them",
        node(), why);
  } else {
    spdlog::warn("node {}: can't be subscribed to: {}", node(), why);
  }
}

}  // namespace proxy::pubsub
