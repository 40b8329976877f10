// KeptFeed: keeps one connection to a node for as long as its table says that the node is up. What
// is asked and heard over it is the subclass's business.
//
//   Idle -> Connecting -> Greeting -> Ready      (lost) -> Connecting, or Waiting first
//
// A connection that was ready is opened anew as soon as it can be; attempts that fail are repeated
// at growing intervals. A PING now and then tells a silent node from a quiet one.
//
// Thread:  its loop's.
// Owns:    the connection.
// Errors:  on_gone(), for whatever ends a connection or an attempt.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "proxy/pubsub/feed_connection.h"
#include "proxy/routing_table.h"

namespace proxy::pubsub {

// What feeds need of whoever owns their loop.
class FeedLoop {
 public:
  [[nodiscard]] virtual uv_loop_t* loop() = 0;
  [[nodiscard]] virtual std::span<char> read_buffer() = 0;
  [[nodiscard]] virtual const std::string& connection_name() const = 0;
  [[nodiscard]] virtual const conf::Timeouts& timeouts() const = 0;
  virtual void bury(std::unique_ptr<net::Socket> socket) = 0;

 protected:
  ~FeedLoop() = default;
};

class KeptFeed : private FeedOwner {
 public:
  KeptFeed(const KeptFeed&) = delete;
  KeptFeed& operator=(const KeptFeed&) = delete;

  [[nodiscard]] const std::string& node() const { return node_; }
  void tick(std::uint64_t now_ms);

 protected:
  enum class State : std::uint8_t { Idle, Connecting, Greeting, Ready, Waiting };

  KeptFeed(FeedLoop& loop, std::string node) : loop_(loop), node_(std::move(node)) {}
  virtual ~KeptFeed() { disconnect(); }

  // What a table says of the node. `is_wanted`: connects when it is up.
  void follow_route(const NodeRoute& route, bool is_wanted);
  void connect();
  void fail(const std::string& why);
  void become_ready();
  void send(std::string_view bytes) { connection_->send(bytes); }
  void note_pong() { ping_is_out_ = false; }
  // It was not listened to: silence is no fault of its own.
  void resume_reading();

  [[nodiscard]] const NodeRoute& route() const { return route_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_ready() const { return state_ == State::Ready; }
  [[nodiscard]] bool is_up() const { return is_up_; }
  // Up, and the last attempt has not failed.
  [[nodiscard]] bool is_promising() const { return is_up_ && !is_given_up_; }
  [[nodiscard]] const std::string& connection_name() const { return loop_.connection_name(); }

 private:
  // Nothing of a connection before counts any more.
  virtual void forget() = 0;
  // The connection is open: asks what it has to ask first. Ends in become_ready() or fail().
  virtual void greet() = 0;
  virtual void take(std::string_view value) = 0;
  virtual void ping() = 0;  // note_pong() follows.
  // Whether one that was lost is to be opened anew.
  [[nodiscard]] virtual bool is_kept() const { return true; }
  // Into the log; not twice for the same reason.
  virtual void tell_lost(bool was_ready, const std::string& why) = 0;
  // `was_ready`: what it should have heard meanwhile is missed; else an attempt has failed.
  virtual void on_gone(bool was_ready) = 0;

  void on_open() final;
  void on_value(std::string_view value) final;
  void on_lost(const std::string& why) final;
  [[nodiscard]] bool may_read() const override { return true; }

  void disconnect();
  [[nodiscard]] std::uint64_t now_ms() const { return uv_now(loop_.loop()); }

  FeedLoop& loop_;
  std::string node_;
  NodeRoute route_;
  State state_ = State::Idle;
  bool is_up_ = false;
  bool is_given_up_ = false;
  bool ping_is_out_ = false;
  std::uint64_t retry_at_ms_ = 0;
  std::uint64_t back_off_ms_ = 0;
  std::uint64_t heard_ms_ = 0;  // When it last said anything.
  std::string last_why_;
  std::unique_ptr<FeedConnection> connection_;
};

}  // namespace proxy::pubsub
