// ChangeFeed: one connection of a worker to a node, by which the node says which keys were changed,
// whoever changed them: a client, a script, expiry, eviction, a move.
//
// Of two kinds: one of Kind::Own asks for every change itself (CLIENT TRACKING ON BCAST). To the
// others, of one kind each, other connections of the worker have redirected what they hear.
//
// A node writes to its feeds about a change before it writes the answer to the command that made
// it; over two connections they may arrive the other way round.
//
// Thread:  one worker's.
// Owns:    the connection.
// Errors:  a lost feed has missed changes: whoever relies on it has to assume that everything has
//          changed. See KeptFeed for when it is opened, and opened anew.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "proxy/pubsub/kept_feed.h"
#include "proxy/routing_table.h"

namespace proxy::tracking {

class ChangeFeed;

// What a feed needs of its worker, and what the worker hears from it.
class FeedHost : public pubsub::FeedLoop {
 public:
  // `keys`: a RESP array of names; valid during the call only.
  virtual void on_changes(ChangeFeed& feed, std::string_view keys) = 0;
  virtual void on_all_changed(ChangeFeed& feed) = 0;  // FLUSHALL, FLUSHDB.
  virtual void on_read_end() = 0;
  virtual void on_feed_ready(ChangeFeed& feed) = 0;
  // `was_ready`: changes were missed; else an attempt has failed.
  virtual void on_feed_lost(ChangeFeed& feed, bool was_ready) = 0;

 protected:
  ~FeedHost() = default;
};

class ChangeFeed final : public pubsub::KeptFeed {
 public:
  enum class Kind : std::uint8_t { Own, OfReaders, OfBroadcasts };

  ChangeFeed(FeedHost& host, std::string node, Kind kind)
      : KeptFeed(host, std::move(node)), host_(host), kind_(kind) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  // What a table says of the node. Connects when it is up, and is lost when it is not any more.
  void follow(const NodeRoute& route) { follow_route(route, /*is_wanted=*/true); }

  using KeptFeed::is_ready;
  // Whether it makes sense to wait until it is ready.
  [[nodiscard]] bool is_counted_on() const { return is_promising(); }
  [[nodiscard]] std::uint64_t client_id() const { return client_id_; }  // At the node.

 private:
  enum class Awaited : std::uint8_t { Login, Hello, Ignored, Identity, Tracking, Pong };

  void forget() override { expected_.clear(); }
  void greet() override;
  void take(std::string_view value) override;
  void ping() override { ask(Awaited::Pong, {"PING"}); }
  void tell_lost(bool was_ready, const std::string& why) override;
  void on_gone(bool was_ready) override { host_.on_feed_lost(*this, was_ready); }
  void on_read_end() override { host_.on_read_end(); }

  void ask(Awaited what, std::initializer_list<std::string_view> request);
  void take_push(std::string_view push);
  void take_reply(std::string_view reply);
  void begin();

  FeedHost& host_;
  Kind kind_;
  std::uint64_t client_id_ = 0;
  std::deque<Awaited> expected_;  // Replies, the oldest first.
};

}  // namespace proxy::tracking
