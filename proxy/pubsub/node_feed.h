// NodeFeed: a node, and the one connection over which this process is subscribed there.
//
// A new connection greets the node (AUTH, CLIENT SETNAME, its identity key: messages of another
// server at the same address reach nobody), subscribes all that is wanted there, and has caught up
// once the node has confirmed that. It speaks RESP2, which every server knows and whose messages
// RESP2 clients get as they are. See KeptFeed for when it is opened, and opened anew.
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

#include "proxy/pubsub/kept_feed.h"
#include "proxy/pubsub/topic.h"
#include "proxy/routing_table.h"

namespace proxy::pubsub {

using TopicId = std::uint64_t;  // Above 0, and never used again.

class NodeFeed;

// What a NodeFeed needs of the Hub, and what the Hub hears from it.
class FeedHost : public FeedLoop {
 public:
  [[nodiscard]] virtual bool has_room() const = 0;  // For more messages.
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

class NodeFeed final : public KeptFeed {
 public:
  NodeFeed(FeedHost& host, std::string node) : KeptFeed(host, std::move(node)), host_(host) {}

  // What a table says of the node. `is_used`: there is something to subscribe.
  void follow(const NodeRoute& route, bool is_used);
  void start();  // There is now.
  // The node is in no table any more; it is heard until then.
  void leave(std::uint64_t until_ms) { leaves_at_ms_ = until_ms; }
  [[nodiscard]] bool is_leaving() const { return leaves_at_ms_ != 0; }
  [[nodiscard]] bool has_left(std::uint64_t now_ms) const {
    return leaves_at_ms_ != 0 && now_ms >= leaves_at_ms_;
  }

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
    return is_promising() && !is_leaving() && state() != State::Idle;
  }
  [[nodiscard]] bool has_caught_up() const { return is_ready(); }
  [[nodiscard]] bool holds(TopicId id) const { return has_caught_up() && !asked_.contains(id); }

 private:
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

  void forget() override;
  void greet() override;
  void take(std::string_view value) override;
  void ping() override { ask(Awaited::Pong, {"PING"}); }
  [[nodiscard]] bool is_kept() const override { return !is_leaving(); }
  void tell_lost(bool was_ready, const std::string& why) override;
  void on_gone(bool) override { host_.on_feed_changed(*this); }
  void on_read_end() override { host_.on_read_end(); }
  [[nodiscard]] bool may_read() const override { return pauses_ == 0 && host_.has_room(); }

  void take_reply(std::string_view reply);
  void take_identity(std::string_view reply);
  void ask(Awaited what, std::initializer_list<std::string_view> request, std::uint64_t id = 0);
  void sync();
  [[nodiscard]] bool is_past_greeting() const { return is_syncing_ || is_ready(); }

  FeedHost& host_;
  bool is_syncing_ = false;  // All that is wanted is subscribed, and not confirmed.
  bool was_ready_ = false;   // Since it was followed first.
  int pauses_ = 0;
  std::uint64_t leaves_at_ms_ = 0;
  std::deque<Expected> expected_;      // Replies, the oldest first.
  std::unordered_set<TopicId> asked_;  // And not confirmed.
  std::string gathered_;               // Requests of sync(), sent as one.
  bool is_gathering_ = false;
};

}  // namespace proxy::pubsub
