#include "proxy/pubsub/node_feed.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"

namespace proxy::pubsub {

namespace {

constexpr std::uint64_t kBackOffFirstMs = 50;
constexpr std::uint64_t kBackOffMostMs = 1000;

std::string error_text(std::string_view error) {
  return std::string(error.substr(1, error.find('\r') - 1));
}

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

bool agree(const NodeRoute& a, const NodeRoute& b) {
  return a.address == b.address && a.username == b.username && a.password == b.password;
}

std::optional<Kind> kind_of_message(std::string_view word) {
  for (Kind kind : {Kind::Channel, Kind::Pattern, Kind::Sharded}) {
    if (word == words_of(kind).message) return kind;
  }
  return std::nullopt;
}

}  // namespace

NodeFeed::~NodeFeed() { disconnect(); }

void NodeFeed::follow(const NodeRoute& route, bool is_used) {
  leaves_at_ms_ = 0;
  const bool is_elsewhere = !agree(route, route_);
  const bool was_up = is_up_;
  route_ = route;
  is_up_ = route.state == NodeState::Up;
  const bool is_gone = route.state == NodeState::Down || route.state == NodeState::Refused;
  if (connection_ != nullptr && (is_elsewhere || is_gone))
    fail(is_gone ? "the node " + route.reason : "its address or password has changed");
  // Whoever says that it is up has just spoken to it: no reason to wait any longer.
  if (is_used && is_up_ && (!was_up || is_elsewhere || state_ == State::Idle)) {
    retry_at_ms_ = back_off_ms_ = 0;
    is_given_up_ = false;
    if (connection_ == nullptr) connect();
  }
}

void NodeFeed::start() {
  if (is_up_ && state_ == State::Idle) connect();
}

void NodeFeed::connect() {
  state_ = State::Connecting;
  expected_.clear();
  asked_.clear();
  ping_is_out_ = false;
  FeedOwner& owner = *this;
  connection_ = std::make_unique<FeedConnection>(host_.loop(), owner, host_.read_buffer());
  connection_->connect(route_.address, host_.timeouts().connect);
}

void NodeFeed::disconnect() {
  if (connection_ == nullptr) return;
  FeedConnection::end(std::move(connection_), [this](std::unique_ptr<net::Socket> socket) {
    host_.bury(std::move(socket));
  });
}

void NodeFeed::on_open() {
  state_ = State::Greeting;
  heard_ms_ = uv_now(host_.loop());
  if (!route_.password.empty()) {
    if (route_.username.empty()) {
      ask(Awaited::Login, {"AUTH", route_.password});
    } else {
      ask(Awaited::Login, {"AUTH", route_.username, route_.password});
    }
  }
  ask(Awaited::Name, {"CLIENT", "SETNAME", host_.connection_name()});
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
    connection_->send(bytes);
  }
}

// Everything in one write: 10,000 subscriptions are no 10,000 system calls.
void NodeFeed::sync() {
  state_ = State::Syncing;
  is_gathering_ = true;
  host_.subscribe_all(*this);
  ask(Awaited::Synced, {"PING"});
  is_gathering_ = false;
  connection_->send(std::exchange(gathered_, {}));
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
  if (connection_ == nullptr || !may_read()) return;
  // It was not listened to: silence is no fault of its own.
  if (connection_->resume_reading()) heard_ms_ = uv_now(host_.loop());
}

void NodeFeed::on_value(std::string_view value) {
  heard_ms_ = uv_now(host_.loop());
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
    return fail(error_text(reply));
  switch (expected.what) {
    case Awaited::Login:
      if (is_error) fail("did not accept the proxy's password: " + error_text(reply));
      return;
    case Awaited::Identity:
      return take_identity(reply);
    case Awaited::Subscribed:
      if (asked_.erase(expected.id) == 0) return;  // Unsubscribed since.
      return is_error ? host_.on_refused(expected.id,
                                         fmt::format("{} (node {})", error_text(reply), name_))
                      : host_.on_confirmed(expected.id);
    case Awaited::Synced:
      state_ = State::Ready;
      is_given_up_ = false;
      back_off_ms_ = 0;
      last_why_.clear();
      if (std::exchange(was_ready_, true))
        spdlog::info("node {}: what clients have subscribed is in force there again", name_);
      return host_.on_feed_changed(*this);
    case Awaited::Pong:
      ping_is_out_ = false;
      return;
    case Awaited::Barrier:
      return host_.on_barrier(*this, expected.id);
    case Awaited::Name:
    case Awaited::Unsubscribed:
      return;
  }
}

void NodeFeed::take_identity(std::string_view reply) {
  auto identity = resp::ReplyCursor(reply).read_bulk();
  if (reply.front() == '-') return fail(error_text(reply));
  if (identity && !route_.identity.empty() && *identity != route_.identity)
    return fail("is another server than before: its identity key differs");
  sync();
}

void NodeFeed::fail(const std::string& why) {
  disconnect();
  on_lost(why);
}

void NodeFeed::on_lost(const std::string& why) {
  disconnect();
  if (has_caught_up()) {
    spdlog::warn(
        "node {}: the connection that clients' subscriptions share was lost ({}); what is "
        "published there until it is back reaches none of them",
        name_, why);
  } else if (why != last_why_) {
    spdlog::warn("node {}: can't be subscribed to: {}", name_, why);
  }
  const bool was_there = has_caught_up();
  last_why_ = why;
  state_ = State::Waiting;
  is_given_up_ = !was_there;
  expected_.clear();
  asked_.clear();
  if (was_there) {
    retry_at_ms_ = 0;  // Now, or when it is up again.
  } else {
    back_off_ms_ = std::clamp(2 * back_off_ms_, kBackOffFirstMs, kBackOffMostMs);
    retry_at_ms_ = uv_now(host_.loop()) + back_off_ms_;
  }
  host_.on_feed_changed(*this);
}

void NodeFeed::tick(std::uint64_t now_ms) {
  if (state_ == State::Waiting && is_up_ && now_ms >= retry_at_ms_ && !is_leaving())
    return connect();
  if (connection_ == nullptr || state_ == State::Connecting || !may_read()) return;
  const auto limit = static_cast<std::uint64_t>(host_.timeouts().node_silent.count());
  const std::uint64_t silent_for = now_ms - std::min(now_ms, heard_ms_);
  if (silent_for > limit && (ping_is_out_ || state_ != State::Ready))
    return fail("silent for timeouts.node_silent");
  if (state_ == State::Ready && !ping_is_out_ && silent_for > limit / 3) {
    ping_is_out_ = true;
    ask(Awaited::Pong, {"PING"});
  }
}

}  // namespace proxy::pubsub
