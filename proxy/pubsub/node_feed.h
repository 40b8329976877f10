// NodeFeed: a node, and the one connection over which this process is subscribed there.
//
//   Idle -> Connecting -> Greeting -> Syncing -> Ready     (lost) -> Connecting, or Waiting first
//
// A new connection greets the node (AUTH, CLIENT SETNAME, its identity key: messages of another
// server at the same address reach nobody), subscribes all that is wanted there, and has caught up
// once the node has confirmed that. It speaks RESP2, which every server knows and whose messages
// RESP2 clients get as they are. A PING now and then tells a silent node from a quiet one.
//
// Thread:  the Hub's.
// Owns:    the connection.
// Errors:  a node that can't be reached, or that refuses to be subscribed to for the time being
//          (LOADING, BUSY), is tried again for as long as its table says that it is up. Nobody is
//          kept waiting for it meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "proxy/pubsub/feed_connection.h"
#include "proxy/pubsub/topic.h"
#include "proxy/routing_table.h"

namespace proxy::pubsub {

using TopicId = std::uint64_t;  // Above 0, and never used again.

class NodeFeed;

// What a NodeFeed needs of the Hub, and what the Hub hears from it.
class FeedHost {
 public:
  [[nodiscard]] virtual uv_loop_t* loop() = 0;
  [[nodiscard]] virtual std::span<char> read_buffer() = 0;
  [[nodiscard]] virtual const std::string& connection_name() const = 0;
  [[nodiscard]] virtual const conf::Timeouts& timeouts() const = 0;
  [[nodiscard]] virtual bool has_room() const = 0;  // For more messages.
  virtual void bury(std::unique_ptr<net::Socket> socket) = 0;
  // Calls feed.subscribe() for all that is wanted at the node.
  virtual void subscribe_all(NodeFeed& feed) = 0;

  virtual void on_message(Kind kind, std::string_view name, std::string_view message) = 0;
  virtual void on_read_end() = 0;
  virtual void on_confirmed(TopicId id) = 0;
  virtual void on_refused(TopicId id, const std::string& why) = 0;
  virtual void on_barrier(NodeFeed& feed, std::uint64_t barrier) = 0;
  // It has caught up, was lost or has been given up for now.
  virtual void on_feed_changed(NodeFeed& feed) = 0;

 protected:
  ~FeedHost() = default;
};

class NodeFeed final : private FeedOwner {
 public:
  NodeFeed(FeedHost& host, std::string name) : host_(host), name_(std::move(name)) {}
  ~NodeFeed();
  NodeFeed(const NodeFeed&) = delete;
  NodeFeed& operator=(const NodeFeed&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  // What a table says of the node. `is_used`: there is something to subscribe.
  void follow(const NodeRoute& route, bool is_used);
  void start();  // There is now.
  // The node is in no table any more; it is heard until then.
  void leave(std::uint64_t until_ms) { leaves_at_ms_ = until_ms; }
  [[nodiscard]] bool is_leaving() const { return leaves_at_ms_ != 0; }
  [[nodiscard]] bool has_left(std::uint64_t now_ms) const {
    return leaves_at_ms_ != 0 && now_ms >= leaves_at_ms_;
  }
  void tick(std::uint64_t now_ms);

  void subscribe(TopicId id, Kind kind, std::string_view name);
  void unsubscribe(TopicId id, Kind kind, std::string_view name);
  // Host::on_barrier() once the node has said all that it had to say until now. False: it is not
  // connected, and nothing is to come.
  [[nodiscard]] bool send_barrier(std::uint64_t barrier);
  // Not read from, while any pause lasts.
  void pause() { ++pauses_; }
  void resume();
  void go_on_reading();

  // Whether anybody has to wait until things are in force here.
  [[nodiscard]] bool is_counted_on() const {
    return is_up_ && !is_given_up_ && !is_leaving() && state_ != State::Idle;
  }
  [[nodiscard]] bool has_caught_up() const { return state_ == State::Ready; }
  [[nodiscard]] bool holds(TopicId id) const { return has_caught_up() && !asked_.contains(id); }

 private:
  enum class State : std::uint8_t { Idle, Connecting, Greeting, Syncing, Ready, Waiting };
  enum class Awaited : std::uint8_t {
    Login,
    Name,
    Identity,
    Subscribed,
    Unsubscribed,
    Synced,
    Pong,
    Barrier
  };
  struct Expected {
    Awaited what;
    std::uint64_t id = 0;
  };

  void on_open() override;
  void on_value(std::string_view value) override;
  void on_read_end() override { host_.on_read_end(); }
  void on_lost(const std::string& why) override;
  [[nodiscard]] bool may_read() const override { return pauses_ == 0 && host_.has_room(); }

  void connect();
  void disconnect();
  void fail(const std::string& why);
  void take_reply(std::string_view reply);
  void take_identity(std::string_view reply);
  void ask(Awaited what, std::initializer_list<std::string_view> request, std::uint64_t id = 0);
  void sync();
  [[nodiscard]] bool is_past_greeting() const {
    return state_ == State::Syncing || state_ == State::Ready;
  }

  FeedHost& host_;
  std::string name_;
  NodeRoute route_;
  State state_ = State::Idle;
  bool is_up_ = false;
  bool is_given_up_ = false;  // The last attempt failed.
  bool was_ready_ = false;    // Since it was followed first.
  bool ping_is_out_ = false;
  int pauses_ = 0;
  std::uint64_t leaves_at_ms_ = 0;
  std::uint64_t retry_at_ms_ = 0;
  std::uint64_t back_off_ms_ = 0;
  std::uint64_t heard_ms_ = 0;  // When it last said anything.
  std::string last_why_;
  std::unique_ptr<FeedConnection> connection_;
  std::deque<Expected> expected_;      // Replies, the oldest first.
  std::unordered_set<TopicId> asked_;  // And not confirmed.
  std::string gathered_;               // Requests of sync(), sent as one.
  bool is_gathering_ = false;
};

}  // namespace proxy::pubsub
