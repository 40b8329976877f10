// ChangeFeed: one connection of a worker to a node, by which the node says which keys were changed,
// whoever changed them: a client, a script, expiry, eviction, a move.
//
//   Idle -> Connecting -> Greeting -> Ready      (lost) -> Connecting, or Waiting first
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
//          changed. A node that can't be reached is tried again for as long as its table says that
//          it is up.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "proxy/pubsub/feed_connection.h"
#include "proxy/routing_table.h"

namespace proxy::tracking {

class ChangeFeed;

// What a feed needs of its worker, and what the worker hears from it.
class FeedHost {
 public:
  [[nodiscard]] virtual uv_loop_t* loop() = 0;
  [[nodiscard]] virtual std::span<char> read_buffer() = 0;
  [[nodiscard]] virtual const std::string& connection_name() const = 0;
  [[nodiscard]] virtual const conf::Timeouts& timeouts() const = 0;
  virtual void bury(std::unique_ptr<net::Socket> socket) = 0;

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

class ChangeFeed final : private pubsub::FeedOwner {
 public:
  enum class Kind : std::uint8_t { Own, OfReaders, OfBroadcasts };

  ChangeFeed(FeedHost& host, std::string node, Kind kind)
      : host_(host), node_(std::move(node)), kind_(kind) {}
  ~ChangeFeed();
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  [[nodiscard]] const std::string& node() const { return node_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  // What a table says of the node. Connects when it is up, and is lost when it is not any more.
  void follow(const NodeRoute& route);
  void tick(std::uint64_t now_ms);

  [[nodiscard]] bool is_ready() const { return state_ == State::Ready; }
  // Whether it makes sense to wait until it is ready.
  [[nodiscard]] bool is_counted_on() const { return is_up_ && !is_given_up_; }
  [[nodiscard]] std::uint64_t client_id() const { return client_id_; }  // At the node.

 private:
  enum class State : std::uint8_t { Idle, Connecting, Greeting, Ready, Waiting };
  enum class Awaited : std::uint8_t { Login, Hello, Ignored, Identity, Tracking, Pong };

  void on_open() override;
  void on_value(std::string_view value) override;
  void on_read_end() override { host_.on_read_end(); }
  void on_lost(const std::string& why) override;
  [[nodiscard]] bool may_read() const override { return true; }

  void connect();
  void disconnect();
  void fail(const std::string& why);
  void ask(Awaited what, std::initializer_list<std::string_view> request);
  void take_push(std::string_view push);
  void take_reply(std::string_view reply);
  void become_ready();

  FeedHost& host_;
  std::string node_;
  Kind kind_;
  NodeRoute route_;
  State state_ = State::Idle;
  bool is_up_ = false;
  bool is_given_up_ = false;  // The last attempt failed.
  bool ping_is_out_ = false;
  std::uint64_t client_id_ = 0;
  std::uint64_t retry_at_ms_ = 0;
  std::uint64_t back_off_ms_ = 0;
  std::uint64_t heard_ms_ = 0;  // When it last said anything.
  std::string last_why_;
  std::unique_ptr<pubsub::FeedConnection> connection_;
  std::deque<Awaited> expected_;  // Replies, the oldest first.
};

}  // namespace proxy::tracking
