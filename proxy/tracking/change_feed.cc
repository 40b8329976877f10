#include "proxy/tracking/change_feed.h"

#include <spdlog/spdlog.h>

#include "proxy/resp/handshake.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"

namespace proxy::tracking {

void ChangeFeed::greet() {
  std::string login;
  resp::append_login(login, route().username, route().password);
  if (!login.empty()) {
    expected_.push_back(Awaited::Login);
    send(login);
  }
  ask(Awaited::Hello, {"HELLO", "3"});
  ask(Awaited::Ignored, {"CLIENT", "SETNAME", connection_name()});
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
  send(bytes);
}

void ChangeFeed::take(std::string_view value) {
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
    return fail(resp::error_text(reply));
  switch (what) {
    case Awaited::Login:
      if (is_error) fail("did not accept the proxy's password: " + resp::error_text(reply));
      return;
    case Awaited::Hello:
      client_id_ = resp::client_id_in(reply);
      if (is_error || client_id_ == 0) fail("does not speak RESP3, which tracking needs");
      return;
    case Awaited::Identity: {
      const auto identity = resp::ReplyCursor(reply).read_bulk();
      if (identity && !route().identity.empty() && *identity != route().identity)
        return fail("is another server than before: its identity key differs");
      if (kind_ != Kind::Own) begin();
      return;
    }
    case Awaited::Tracking:
      return is_error ? fail(resp::error_text(reply)) : begin();
    case Awaited::Pong:
      return note_pong();
    case Awaited::Ignored:
      return;
  }
}

void ChangeFeed::begin() {
  become_ready();
  host_.on_feed_ready(*this);
}

void ChangeFeed::tell_lost(bool was_ready, const std::string& why) {
  if (was_ready) {
    spdlog::warn("node {}: the connection that says which keys change was lost ({})", node(), why);
  } else {
    spdlog::warn("node {}: changes of keys can't be followed: {}", node(), why);
  }
}

}  // namespace proxy::tracking
