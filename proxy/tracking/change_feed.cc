#include "proxy/tracking/change_feed.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"

namespace proxy::tracking {

namespace {

constexpr std::uint64_t kBackOffFirstMs = 50;
constexpr std::uint64_t kBackOffMostMs = 1000;

std::string error_text(std::string_view error) {
  return std::string(error.substr(1, error.find('\r') - 1));
}

// 0: HELLO's reply does not say it.
std::uint64_t client_id_in(std::string_view hello) {
  constexpr std::string_view kField = "\r\nid\r\n:";
  const std::size_t at = hello.find(kField);
  if (at == std::string_view::npos) return 0;
  hello.remove_prefix(at + kField.size());
  std::uint64_t id = 0;
  std::from_chars(hello.data(), hello.data() + hello.size(), id);
  return id;
}

bool agree(const NodeRoute& a, const NodeRoute& b) {
  return a.address == b.address && a.username == b.username && a.password == b.password;
}

}  // namespace

ChangeFeed::~ChangeFeed() { disconnect(); }

void ChangeFeed::follow(const NodeRoute& route) {
  const bool is_elsewhere = !agree(route, route_);
  const bool was_up = is_up_;
  route_ = route;
  is_up_ = route.state == NodeState::Up;
  const bool is_gone = route.state == NodeState::Down || route.state == NodeState::Refused;
  if (connection_ != nullptr && (is_elsewhere || is_gone))
    fail(is_gone ? "the node " + route.reason : "its address or password has changed");
  // Whoever says that it is up has just spoken to it: no reason to wait any longer.
  if (!is_up_ || (was_up && !is_elsewhere && state_ != State::Idle)) return;
  retry_at_ms_ = back_off_ms_ = 0;
  is_given_up_ = false;
  if (connection_ == nullptr) connect();
}

void ChangeFeed::connect() {
  state_ = State::Connecting;
  expected_.clear();
  ping_is_out_ = false;
  pubsub::FeedOwner& owner = *this;
  connection_ = std::make_unique<pubsub::FeedConnection>(host_.loop(), owner, host_.read_buffer());
  connection_->connect(route_.address, host_.timeouts().connect);
}

void ChangeFeed::disconnect() {
  if (connection_ == nullptr) return;
  pubsub::FeedConnection::end(std::move(connection_), [this](std::unique_ptr<net::Socket> socket) {
    host_.bury(std::move(socket));
  });
}

void ChangeFeed::on_open() {
  state_ = State::Greeting;
  heard_ms_ = uv_now(host_.loop());
  if (!route_.password.empty()) {
    if (route_.username.empty()) {
      ask(Awaited::Login, {"AUTH", route_.password});
    } else {
      ask(Awaited::Login, {"AUTH", route_.username, route_.password});
    }
  }
  ask(Awaited::Hello, {"HELLO", "3"});
  ask(Awaited::Ignored, {"CLIENT", "SETNAME", host_.connection_name()});
  // So that the server does not drop this connection first when clients use too much memory
  // (maxmemory-clients); servers before 7.0 don't know it.
  ask(Awaited::Ignored, {"CLIENT", "NO-EVICT", "ON"});
  ask(Awaited::Identity, {"GET", resp::kIdentityKey});
  if (kind_ == Kind::Own) ask(Awaited::Tracking, {"CLIENT", "TRACKING", "ON", "BCAST"});
}

void ChangeFeed::ask(Awaited what, std::initializer_list<std::string_view> request) {
  expected_.push_back(what);
  std::string bytes;
  resp::append_request(bytes, request);
  connection_->send(bytes);
}

void ChangeFeed::on_value(std::string_view value) {
  heard_ms_ = uv_now(host_.loop());
  value.front() == '>' ? take_push(value) : take_reply(value);
}

// ">2 invalidate [names]", or a null for every name.
void ChangeFeed::take_push(std::string_view push) {
  resp::ReplyCursor cursor(push);
  const auto header = cursor.read_header();
  if (!header || header->count != 2 || cursor.read_bulk() != "invalidate") return;
  const std::string_view keys = cursor.read_raw();
  // What comes before all that was asked for is confirmed, nobody relies on.
  if (!is_ready() || keys.empty()) return;
  keys.front() == '*' ? host_.on_changes(*this, keys) : host_.on_all_changed(*this);
}

void ChangeFeed::take_reply(std::string_view reply) {
  if (expected_.empty()) return fail("protocol error (a reply that nobody asked for)");
  const Awaited what = expected_.front();
  expected_.pop_front();
  const bool is_error = reply.front() == '-';
  if (is_error && (reply.starts_with("-LOADING") || reply.starts_with("-NOAUTH")))
    return fail(error_text(reply));
  switch (what) {
    case Awaited::Login:
      if (is_error) fail("did not accept the proxy's password: " + error_text(reply));
      return;
    case Awaited::Hello:
      client_id_ = client_id_in(reply);
      if (is_error || client_id_ == 0) fail("does not speak RESP3, which tracking needs");
      return;
    case Awaited::Identity: {
      const auto identity = resp::ReplyCursor(reply).read_bulk();
      if (identity && !route_.identity.empty() && *identity != route_.identity)
        return fail("is another server than before: its identity key differs");
      if (kind_ != Kind::Own) become_ready();
      return;
    }
    case Awaited::Tracking:
      return is_error ? fail(error_text(reply)) : become_ready();
    case Awaited::Pong:
      ping_is_out_ = false;
      return;
    case Awaited::Ignored:
      return;
  }
}

void ChangeFeed::become_ready() {
  state_ = State::Ready;
  is_given_up_ = false;
  back_off_ms_ = 0;
  last_why_.clear();
  host_.on_feed_ready(*this);
}

void ChangeFeed::fail(const std::string& why) {
  disconnect();
  on_lost(why);
}

void ChangeFeed::on_lost(const std::string& why) {
  disconnect();
  const bool was_ready = is_ready();
  if (was_ready) {
    spdlog::warn("node {}: the connection that says which keys change was lost ({})", node_, why);
  } else if (why != last_why_) {
    spdlog::warn("node {}: changes of keys can't be followed: {}", node_, why);
  }
  last_why_ = why;
  state_ = State::Waiting;
  is_given_up_ = !was_ready;
  expected_.clear();
  if (was_ready) {
    retry_at_ms_ = 0;  // Now, or when it is up again.
  } else {
    back_off_ms_ = std::clamp(2 * back_off_ms_, kBackOffFirstMs, kBackOffMostMs);
    retry_at_ms_ = uv_now(host_.loop()) + back_off_ms_;
  }
  host_.on_feed_lost(*this, was_ready);
}

void ChangeFeed::tick(std::uint64_t now_ms) {
  if (state_ == State::Waiting && is_up_ && now_ms >= retry_at_ms_) return connect();
  if (connection_ == nullptr || state_ == State::Connecting) return;
  const auto limit = static_cast<std::uint64_t>(host_.timeouts().node_silent.count());
  const std::uint64_t silent_for = now_ms - std::min(now_ms, heard_ms_);
  if (silent_for > limit && (ping_is_out_ || !is_ready()))
    return fail("silent for timeouts.node_silent");
  if (is_ready() && !ping_is_out_ && silent_for > limit / 3) {
    ping_is_out_ = true;
    ask(Awaited::Pong, {"PING"});
  }
}

}  // namespace proxy::tracking
