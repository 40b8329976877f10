#include "proxy/pubsub/kept_feed.h"

#include <algorithm>
#include <utility>

namespace proxy::pubsub {

namespace {

constexpr std::uint64_t kBackOffFirstMs = 50;
constexpr std::uint64_t kBackOffMostMs = 1000;

bool agree(const NodeRoute& a, const NodeRoute& b) {
  return a.address == b.address && a.username == b.username && a.password == b.password;
}

}  // namespace

void KeptFeed::follow_route(const NodeRoute& route, bool is_wanted) {
  const bool is_elsewhere = !agree(route, route_);
  const bool was_up = is_up_;
  route_ = route;
  is_up_ = route.state == NodeState::Up;
  const bool is_gone = route.state == NodeState::Down || route.state == NodeState::Refused;
  if (connection_ != nullptr && (is_elsewhere || is_gone))
    fail(is_gone ? "the node " + route.reason : "its address or password has changed");
  // Whoever says that it is up has just spoken to it: no reason to wait any longer.
  if (is_wanted && is_up_ && (!was_up || is_elsewhere || state_ == State::Idle)) {
    retry_at_ms_ = back_off_ms_ = 0;
    is_given_up_ = false;
    if (connection_ == nullptr) connect();
  }
}

void KeptFeed::connect() {
  state_ = State::Connecting;
  ping_is_out_ = false;
  forget();
  FeedOwner& owner = *this;
  connection_ = std::make_unique<FeedConnection>(loop_.loop(), owner, loop_.read_buffer());
  connection_->connect(route_.address, loop_.timeouts().connect);
}

void KeptFeed::disconnect() {
  if (connection_ == nullptr) return;
  FeedConnection::end(std::move(connection_), [this](std::unique_ptr<net::Socket> socket) {
    loop_.bury(std::move(socket));
  });
}

void KeptFeed::on_open() {
  state_ = State::Greeting;
  heard_ms_ = now_ms();
  greet();
}

void KeptFeed::on_value(std::string_view value) {
  heard_ms_ = now_ms();
  take(value);
}

void KeptFeed::become_ready() {
  state_ = State::Ready;
  is_given_up_ = false;
  back_off_ms_ = 0;
  last_why_.clear();
}

void KeptFeed::resume_reading() {
  if (connection_ != nullptr && connection_->resume_reading()) heard_ms_ = now_ms();
}

void KeptFeed::fail(const std::string& why) {
  disconnect();
  on_lost(why);
}

void KeptFeed::on_lost(const std::string& why) {
  disconnect();
  const bool was_ready = is_ready();
  if (was_ready || why != last_why_) tell_lost(was_ready, why);
  last_why_ = why;
  state_ = State::Waiting;
  is_given_up_ = !was_ready;
  forget();
  if (was_ready) {
    retry_at_ms_ = 0;  // Now, or when it is up again.
  } else {
    back_off_ms_ = std::clamp(2 * back_off_ms_, kBackOffFirstMs, kBackOffMostMs);
    retry_at_ms_ = now_ms() + back_off_ms_;
  }
  on_gone(was_ready);
}

void KeptFeed::tick(std::uint64_t now_ms) {
  if (state_ == State::Waiting && is_up_ && now_ms >= retry_at_ms_ && is_kept()) return connect();
  if (connection_ == nullptr || state_ == State::Connecting || !may_read()) return;
  const auto limit = static_cast<std::uint64_t>(loop_.timeouts().node_silent.count());
  const std::uint64_t silent_for = now_ms - std::min(now_ms, heard_ms_);
  if (silent_for > limit && (ping_is_out_ || !is_ready()))
    return fail("silent for timeouts.node_silent");
  if (is_ready() && !ping_is_out_ && silent_for > limit / 3) {
    ping_is_out_ = true;
    ping();
  }
}

}  // namespace proxy::pubsub
