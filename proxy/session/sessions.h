// Sessions: the client sessions of one worker, from acceptance to the end.
//
// Thread:  one worker's; OtherWorkers carries questions to the other workers' threads.
// Owns:    the sessions.
// Limits:  limits.clients over all workers (a shared counter), limits.unread_replies_total over all
// workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proxy/acl/denial_log.h"
#include "proxy/acl/login_guard.h"
#include "proxy/session/blocked_call.h"
#include "proxy/session/client_session.h"
#include "proxy/session/delayed_logins.h"
#include "proxy/session/monitors.h"
#include "proxy/session/paused_clients.h"
#include "proxy/session/subscribers.h"
#include "proxy/session/trackers.h"

namespace proxy::session {

// What all workers have counted since the start, together.
struct WorkerTotals {
  std::uint64_t requests = 0;
  std::uint64_t clients = 0;
  std::uint64_t errors = 0;
  std::uint64_t blocked_clients = 0;  // Now.
  std::uint64_t tracking_clients = 0;
  std::uint64_t tracked_keys = 0;
  std::uint64_t tracked_items = 0;
  std::uint64_t tracked_prefixes = 0;
};

// Asks something of every worker's sessions; the answers come back to the worker that asked.
class OtherWorkers {
 public:
  [[nodiscard]] virtual WorkerTotals totals() const = 0;
  // Runs `ask` on every worker's thread, this one's included, then `answer` on the calling
  // worker's, with the answers in the order of the workers. `answer` never runs inside this call,
  // and not at all when the proxy ends first.
  virtual void ask_all(std::function<std::string(Sessions&)> ask,
                       std::function<void(std::vector<std::string>)> answer) = 0;
  // Runs it on every worker's thread, this one's included, but never inside this call.
  virtual void tell_all(std::function<void(Sessions&)> tell) = 0;

 protected:
  ~OtherWorkers() = default;
};

// Shared by the workers of a proxy.
struct SessionCounts {
  std::atomic<std::uint64_t> clients{0};
  std::atomic<std::uint64_t> next_id{1};
  std::atomic<std::uint64_t> unread_bytes{
      0};  // Of clients that do not take all of their replies at once.
  ClientPause pause;
  acl::DenialLog denials;
  acl::LoginGuard logins;
  // What had been counted at the last CONFIG RESETSTAT.
  std::atomic<std::uint64_t> requests_before{0};
  std::atomic<std::uint64_t> clients_before{0};
  std::atomic<std::uint64_t> errors_before{0};
  TrackedKeysMax tracked_keys_max;
};

class Sessions {
 public:
  Sessions(WorkerCore& core, OtherWorkers& others, SessionCounts& counts, unsigned workers)
      : core_(core),
        others_(others),
        counts_(counts),
        workers_(workers),
        paused_(core, counts.pause),
        subscribers_(core),
        monitors_(core, *this),
        trackers_(core, *this, counts.tracked_keys_max) {}
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Takes an accepted, non-blocking descriptor over.
  void adopt(int descriptor, std::shared_ptr<const ListenerFacts> listener);

  [[nodiscard]] OtherWorkers& others() { return others_; }
  [[nodiscard]] PausedClients& paused() { return paused_; }
  [[nodiscard]] Subscribers& subscribers() { return subscribers_; }
  // Since the start, or the last CONFIG RESETSTAT.
  [[nodiscard]] WorkerTotals totals() const;
  void reset_totals();
  [[nodiscard]] Trackers& trackers() { return trackers_; }
  [[nodiscard]] Monitors& monitors() { return monitors_; }
  [[nodiscard]] unsigned workers() const { return workers_; }
  [[nodiscard]] acl::DenialLog& denials() { return counts_.denials; }
  [[nodiscard]] acl::LoginGuard& login_guard() { return counts_.logins; }
  [[nodiscard]] DelayedLogins& delayed_logins() { return delayed_logins_; }
  [[nodiscard]] BlockedCalls& blocked_calls() { return blocked_calls_; }
  [[nodiscard]] std::size_t size() const { return sessions_.size(); }
  [[nodiscard]] std::uint64_t clients_of_all_workers() const {
    return counts_.clients.load(std::memory_order_relaxed);
  }
  [[nodiscard]] ClientSession* find(std::uint64_t id);  // Null: none of this worker's.
  // `visit` may close the session it is given.
  void for_each(const std::function<void(ClientSession&)>& visit);

  void drain();      // Each ends at a reply boundary.
  void close_all();  // Now, for the worker ends.
  // The snapshot has changed: sessions that watch keys of slots with another owner now lose them,
  // those that are blocked for such keys go on there.
  void follow_map();
  // So have the users, if they are others than those of `before`.
  void follow_users(const RoutingTable& before);
  // Those that are blocked for keys of the fence's slots are taken back.
  void begin_fence(const Fence& fence) { blocked_calls_.begin_fence(fence.slots); }
  // Sessions that were held for the fence go on, in the order in which they came upon it. A client
  // that has hung up meanwhile leaves its request unexecuted.
  void end_fence(const std::shared_ptr<const Fence>& fence);
  void tick();  // About ten times a second: stalled clients, the sum of unread replies.

  // From sessions. `change` is modulo 2^64.
  void count_unread(std::uint64_t change) {
    core_.stats.unread_bytes.add(change);
    counts_.unread_bytes.fetch_add(change, std::memory_order_relaxed);
  }
  void remove(ClientSession* session);
  void add_fenced(ClientSession* session) {
    fenced_.push_back(session);
    core_.stats.fenced_clients.add();
  }
  void add_watching(ClientSession* session) { watching_.insert(session); }
  void remove_watching(ClientSession* session) { watching_.erase(session); }
  void add_resumable(ClientSession* session) { resumables_.push_back(session); }
  // Goes on with sessions that were held; at the end of the turn, before the flush.
  void resume_all();
  [[nodiscard]] bool has_resumables() const {
    return !resumables_.empty() || blocked_calls_.has_due();
  }

 private:
  void close_the_most_unread();

  WorkerCore& core_;
  OtherWorkers& others_;
  SessionCounts& counts_;
  unsigned workers_;
  BlockedCalls blocked_calls_;
  PausedClients paused_;
  Subscribers subscribers_;
  DelayedLogins delayed_logins_;
  Monitors monitors_;
  Trackers trackers_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ClientSession>> sessions_;
  std::unordered_set<ClientSession*> watching_;
  std::vector<ClientSession*> resumables_;
  std::vector<ClientSession*> fenced_;  // Held for a fence; null: has left.
  std::uint64_t ticks_ = 0;
};

}  // namespace proxy::session
