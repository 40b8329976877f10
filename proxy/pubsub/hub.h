// Hub: this process's subscriptions at the nodes, one for each topic and node, however many clients
// share it; and the way of messages from there to the workers.
//
// Channels and patterns are subscribed at every node, since scripts, transactions and keyspace
// events publish wherever they run. Each message is published at one node, so each arrives once.
// A sharded channel is subscribed at the owner of its slot.
//
//   worker                    Hub                         nodes
//     |-- want(topics) ------> |-- SUBSCRIBE ------------> |     unless it is in force already
//     |                        |<------------- confirmed --|
//     |<- on_settled() --------|     once that holds at all nodes that are up
//     |<- on_messages(batch) --|<---------------- message -|     one batch for all workers
//     |-- hear_out() --------> |-- PING ----------------> |     before UNSUBSCRIBE is confirmed
//     |<- on_settled() --------|<------------------ PONG -|
//     |-- let_go(topics) ----> |-- UNSUBSCRIBE ----------> |     if nobody wants them any more
//
// Why one for the process and not one per worker: a node then has one connection and one copy of
// each message for a proxy, and all messages of a node come in one order to all clients. It has a
// thread of its own, since reading for all workers is none's business, and the control thread may
// wait for a disk.
//
// A node that was lost is subscribed to again when it is back; what is published there meanwhile
// reaches nobody, as with a subscriber of that node itself. When a slot moves, its channels are
// subscribed at the target before the fence is acknowledged; what the target says is read only
// after everything that the source has said.
//
// Thread:  public functions: any, after start(). Everything else runs on its own.
// Owns:    its thread, its loop, a NodeFeed per node.
// Limits:  kUnderWayMax bytes of messages that workers have not handled; beyond it nodes are not
//          read from, and end the connection at their own client-output-buffer-limit pubsub.
#pragma once

#include <uv.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proxy/net/mailbox.h"
#include "proxy/pubsub/batch.h"
#include "proxy/pubsub/node_feed.h"
#include "proxy/pubsub/registry.h"
#include "proxy/pubsub/topic.h"
#include "proxy/routing_table.h"

namespace proxy::pubsub {

// A worker's side; called on its thread.
class Receiver {
 public:
  virtual void on_messages(const Batch& batch) = 0;
  // What want() or hear_out() asked for with this number is so. `error`: it is not, and will not
  // be, in words for a client; else empty.
  virtual void on_settled(std::uint64_t wish, const std::string& error) = 0;
  // Slots have other owners as of the table of this version, and what the former ones had to say
  // has been handed over.
  virtual void on_slots_moved(std::uint64_t table_version) = 0;

 protected:
  ~Receiver() = default;
};

struct HubOptions {
  unsigned workers = 1;
  std::string connection_name;
  // Runs the work on that worker's thread.
  std::function<void(unsigned worker, std::function<void(Receiver&)> work)> to_worker;
  // As WorkerOptions::on_fenced; the Hub counts as the worker behind the last one.
  std::function<void(FenceAck)> on_fenced;
};

class Hub final : private FeedHost {
 public:
  static constexpr std::size_t kUnderWayMax = 64'000'000;

  explicit Hub(HubOptions options);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  void start();
  // Ends everything and joins the thread, if there is one. Workers may not be there any more, and
  // are not called after it.
  void stop();

  [[nodiscard]] Registry& registry() { return registry_; }
  void install(std::shared_ptr<const RoutingTable> table);
  // The worker has added these to the registry, which said that they are not in force.
  // `table_version`: of the worker's table.
  void want(unsigned worker, std::uint64_t wish, Kind kind, std::vector<std::string> names,
            std::uint64_t table_version);
  // on_settled() once everything that nodes have published before this call was handed over.
  void hear_out(unsigned worker, std::uint64_t wish);
  // The registry said that these had their last subscriber.
  void let_go(std::vector<Topic> topics);

 private:
  // Whoever waits until things are in force.
  struct Wish {
    unsigned worker = 0;
    std::uint64_t number = 0;
    std::size_t left = 0;  // Topics.
    std::string error;
  };
  struct State {
    TopicId id = 0;
    Kind kind = Kind::Channel;
    std::string_view name;
    std::string refusal;  // Of a node; empty: none.
    std::vector<std::shared_ptr<Wish>> waiting;
    // Sharded channels only.
    slots::SlotId slot = 0;
    NodeFeed* owner = nullptr;
    NodeFeed* next_owner = nullptr;  // While a fence is about its slot.
  };
  struct LateWish {
    unsigned worker;
    std::uint64_t wish;
    Kind kind;
    std::vector<std::string> names;
    std::uint64_t table_version;
  };
  // Slots have left a node: what it has said about them is to be heard before what others say.
  struct Departure {
    std::uint64_t barrier = 0;
    NodeFeed* from = nullptr;
    NodeFeed* paused = nullptr;
    std::vector<std::string> names;
  };
  // Those who wait until all nodes have been heard, together.
  struct Hearing {
    std::uint64_t barrier = 0;
    std::vector<NodeFeed*> waiting_for;
    std::vector<std::pair<unsigned, std::uint64_t>> wishes;  // Worker, number.
  };
  struct Pause {
    NodeFeed* feed = nullptr;
    std::uint64_t since_ms = 0;
  };

  // --- FeedHost
  uv_loop_t* loop() override { return &loop_; }
  std::span<char> read_buffer() override { return read_buffer_; }
  const std::string& connection_name() const override { return options_.connection_name; }
  const conf::Timeouts& timeouts() const override { return table_->timeouts; }
  bool has_room() const override {
    return under_way_->load(std::memory_order_relaxed) < kUnderWayMax;
  }
  void bury(std::unique_ptr<net::Socket> socket) override;
  void subscribe_all(NodeFeed& feed) override;
  void on_message(Kind kind, std::string_view name, std::string_view message) override;
  void on_read_end() override;
  void on_confirmed(TopicId id) override;
  void on_refused(TopicId id, const std::string& why) override;
  void on_barrier(NodeFeed& feed, std::uint64_t barrier) override;
  void on_feed_changed(NodeFeed& feed) override;

  // --- hub.cc
  void apply(std::shared_ptr<const RoutingTable> table);
  void follow_nodes();
  void take_wish(const LateWish& wish);
  State& state_of(Kind kind, const std::string& name);
  void forget(const Topic& topic);
  void ask_again(State& state);
  [[nodiscard]] static bool is_at(const State& state, const NodeFeed& feed);
  [[nodiscard]] NodeFeed* find_feed(std::string_view name);
  [[nodiscard]] bool is_in_force(const State& state) const;
  [[nodiscard]] static bool is_owner_heard(const State& state);
  void settle(State& state);
  void settle_all();
  void note_reach();
  void hand_over();
  void start_feeds();
  void tick();
  void close();
  void begin_hearing();
  void note_heard(NodeFeed& feed);
  void end_hearing();

  // --- hub_moves.cc
  [[nodiscard]] NodeFeed* owner_of(slots::SlotId slot);
  void place(State& state);
  void follow_fence();
  void follow_slots(NodeFeed* paused);
  [[nodiscard]] bool follow_slot(State& state, NodeFeed* owner, NodeFeed* next);
  [[nodiscard]] NodeFeed* take_pause();
  void depart(NodeFeed* from, NodeFeed* paused, std::vector<std::string> names);
  void end_departure(const Departure& departure);
  void end_departures_from(NodeFeed& feed);
  void acknowledge_fence();
  void tell_of_moves();
  void forget_feed(NodeFeed& feed);

  HubOptions options_;
  Registry registry_;
  uv_loop_t loop_{};
  net::Mailbox mailbox_;
  uv_timer_t ticker_{};
  std::array<char, 64 * 1024> read_buffer_{};
  std::shared_ptr<const RoutingTable> table_;  // Null until the first install().
  std::vector<std::unique_ptr<NodeFeed>> feeds_;
  ByTopic<State> topics_;
  std::unordered_map<TopicId, State*> by_id_;
  std::unordered_set<State*> unsettled_;  // Somebody waits for them, or their nodes have changed.
  std::vector<LateWish> late_wishes_;     // Of workers whose table is newer.
  TopicId last_id_ = 0;
  std::shared_ptr<std::atomic<std::size_t>> under_way_ =
      std::make_shared<std::atomic<std::size_t>>(0);
  std::shared_ptr<Batch> batch_;  // Not handed over; null: none.
  bool is_applying_ = false;

  std::shared_ptr<const Fence> fence_;  // That has begun.
  bool is_fence_acknowledged_ = false;
  std::optional<Pause> pause_;  // Of the fence's target.
  std::vector<Departure> departures_;
  std::uint64_t last_barrier_ = 0;
  Hearing hearing_;  // Under way, if it waits for somebody.
  std::vector<std::pair<unsigned, std::uint64_t>> next_to_hear_;  // Behind it.
  std::uint64_t moved_at_ = 0;  // A table's version that workers are still to be told of; or 0.

  std::thread thread_;
};

}  // namespace proxy::pubsub
