// Subscriptions: what a session has subscribed. Subscribers: who of a worker's sessions gets which
// message, and whose SUBSCRIBE or
// UNSUBSCRIBE waits for nodes.
//
// Thread:  one worker's. What all workers together want is in the Hub's Registry.
// Owns:    the names, one copy for all sessions of the worker.
// Limits:  limits.subscribed_names bytes per session, limits.unread_messages of unread output.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/pubsub/hub.h"
#include "proxy/session/client_session.h"

namespace proxy::session {

// A topic and those sessions of the worker that have subscribed it.
struct Audience {
  pubsub::Kind kind = pubsub::Kind::Channel;
  std::string_view name;
  std::vector<ClientSession*> sessions;
};

class Subscribers;

class Subscriptions {
 public:
  // What a subscription costs beside its name, about.
  static constexpr std::size_t kOverhead = 128;

  Subscriptions(Subscribers& subscribers, ClientSession& session)
      : subscribers_(subscribers), session_(session) {}
  ~Subscriptions() { leave_all(); }
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  enum class Added : std::uint8_t { Already, InForce, NotYet };
  Added add(pubsub::Kind kind, std::string_view name);
  [[nodiscard]] bool contains(pubsub::Kind kind, std::string_view name);
  // It will be removed once everything is heard that was published before, and counts no more for
  // what is published from now on. Nothing, if it is not subscribed.
  void set_leaving(pubsub::Kind kind, std::string_view name);
  // False: it had not.
  bool remove(pubsub::Kind kind, std::string_view name);
  void leave_all();

  // In the order in which they were subscribed.
  [[nodiscard]] std::vector<std::string> names(pubsub::Kind kind) const;
  [[nodiscard]] std::size_t count(pubsub::Kind kind) const {
    return counts_[static_cast<std::size_t>(kind)];
  }
  // As replies say it: sharded channels are counted apart from the rest.
  [[nodiscard]] std::size_t count_for_reply(pubsub::Kind kind) const {
    return kind == pubsub::Kind::Sharded
               ? count(kind)
               : count(pubsub::Kind::Channel) + count(pubsub::Kind::Pattern);
  }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  friend class Subscribers;

  struct Place {
    std::size_t index = 0;     // In the audience's sessions.
    std::uint64_t number = 0;  // Grows: the order of subscribing.
    bool is_leaving = false;
  };
  using Places = std::unordered_map<Audience*, Place>;

  // Its place, if it has subscribed it.
  [[nodiscard]] Places::iterator find(pubsub::Kind kind, std::string_view name);
  // Leaves the worker's lists; whether nobody in the process wants the topic any more.
  [[nodiscard]] bool leave(Places::iterator place);

  Subscribers& subscribers_;
  ClientSession& session_;
  Places places_;
  std::array<std::size_t, pubsub::kKinds> counts_{};
  std::size_t bytes_ = 0;
  std::uint64_t last_number_ = 0;
};

// Keeps topics wanted that nobody gets the messages of yet: what a transaction will subscribe.
class Reservation {
 public:
  Reservation(const WorkerCore& core, pubsub::Kind kind) : core_(core), kind_(kind) {}
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Whether it is in force.
  [[nodiscard]] bool add(std::string_view name);

 private:
  const WorkerCore& core_;
  pubsub::Kind kind_;
  std::vector<std::string> names_;
};

class Subscribers final : public pubsub::Receiver {
 public:
  explicit Subscribers(WorkerCore& core);
  ~Subscribers();
  Subscribers(const Subscribers&) = delete;
  Subscribers& operator=(const Subscribers&) = delete;

  // What a request that has waited answers. `error`: in words for a client; empty: none.
  using Finish = std::function<std::string(ClientSession&, const std::string& error)>;

  // The answer once all of `missing` is in force, or can't be. Replies to SUBSCRIBE are pushes.
  void wait_in_force(ClientSession& session, pubsub::Kind kind, std::vector<std::string> missing,
                     bool is_push, Finish finish);
  // The answer, a push, once everything that was published before has been handed out, which comes
  // before it. Requires that the session is quiet.
  void wait_heard(ClientSession& session, Finish finish);
  // The worker routes by the next table.
  void follow_table();

  void on_messages(const pubsub::Batch& batch) override;
  void on_settled(std::uint64_t wish, const std::string& error) override;
  void on_slots_moved(std::uint64_t table_version) override;

 private:
  friend class Subscriptions;
  class Wait;

  [[nodiscard]] std::uint64_t wait(ClientSession& session, bool is_push, Finish finish);
  void end_moved_channels();

  WorkerCore& core_;
  pubsub::ByTopic<Audience> audiences_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Wait>> waits_;
  std::uint64_t last_wish_ = 0;
  std::uint64_t moved_at_ = 0;  // A version that the table of now has not reached; 0: none.
};

// "subscribe", its channel and the count, as a push in RESP3. A null name: there was nothing to
// unsubscribe.
void write_subscription(std::string& out, bool resp3, std::string_view word,
                        const std::string_view* name, std::size_t count);

}  // namespace proxy::session
