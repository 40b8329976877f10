// Trackers: client-side caching of one worker's clients: who has read what, what nodes say has
// changed, and who is told of it.
//
//   client                    Trackers                       nodes
//     |-- CLIENT TRACKING ----> |-- a feed to each ----------> |   while anybody tracks
//     |-- GET k --------------> |   notes k, then sends it     |
//     |<-- reply -------------- |                              |
//     |                         |<-- k has changed ----------- |   whoever changed it
//     |<-- invalidate k ------- |   behind the replies that may show it as it was
//
// **Nothing stale stays.** A feed (tracking::ChangeFeed) tells of every change at its node, so it
// does not matter where a key lies, or whether its slot moves: the copy at the target and the
// deletion at the source are changes as well. What is read at a node whose feed does not work is
// taken back as soon as it is answered; when a feed is lost, everybody is told that everything has
// changed.
//
// **NOLOOP.** A node names a key once, however many have changed it in a turn of its loop, so that
// the feed alone can't tell a client's own changes from others'. Clients that do not want to hear
// of their own send their requests over quiet connections (backend::Quiet), of which they and their
// like are the only ones. Those have others' changes redirected to a feed of their own: without
// BCAST of keys that were read there, as far as nobody has changed them since, with BCAST of all.
// What the first feed says of a key that such a client has written there, it is not told; what the
// other one says, it is. A write of its like on these connections counts as nobody's own from the
// moment it is sent. Whatever is not certain, it is told.
//
// Thread:  one worker's.
// Limits:  limits.tracked_keys per worker; beyond it the clients are told that the oldest ones have
//          changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proxy/session/client_session.h"
#include "proxy/session/tracking.h"
#include "proxy/tracking/change_feed.h"
#include "proxy/tracking/key_table.h"

namespace proxy::session {

class Sessions;

// What CONFIG SET tracking-table-max-keys said, for all workers.
struct TrackedKeysMax {
  std::atomic<std::uint64_t> keys{0};  // 0: it said nothing, or that there is no limit.
};

class Trackers final : private tracking::FeedHost, public backend::QuietWatcher {
 public:
  Trackers(WorkerCore& core, Sessions& sessions, TrackedKeysMax& max)
      : core_(core), sessions_(sessions), max_(max) {
    core.quiet_watcher = this;
  }
  ~Trackers();
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;

  // The session is told from now on. `done` is called once all nodes that can be reached tell of
  // their changes, perhaps at once.
  void turn_on(ClientSession& session, const TrackingWords& words, std::function<void()> done);
  void turn_off(ClientSession& session);

  // Executes a request of a session that tracks.
  void dispatch(ClientSession& session, Request& request);

  // As CONFIG SET tracking-table-max-keys says it; 0: no limit but limits.tracked_keys.
  void set_keys_max(std::uint64_t keys) { max_.keys.store(keys, std::memory_order_relaxed); }
  void follow_table();  // The worker routes by the next table.
  void tick();          // About ten times a second.
  void close();         // The worker ends.

  // What a client of this worker is told on behalf of another one. False: there is none.
  bool tell_redirected(std::uint64_t id, std::string_view keys);

  // Whether some connection of the quiet kind was lost.
  void on_quiet_lost() override;

 private:
  struct Node {
    std::unique_ptr<tracking::ChangeFeed> own;
    std::unique_ptr<tracking::ChangeFeed> of_readers;     // Null: nobody wants NOLOOP.
    std::unique_ptr<tracking::ChangeFeed> of_broadcasts;  // With BCAST.
  };
  [[nodiscard]] static std::vector<tracking::ChangeFeed*> feeds_of(const Node& node);
  // Of a session that tracks: which kind of connections it would like.
  [[nodiscard]] static backend::Quiet quiet_wanted(const ClientSession& session);
  // To a client of another worker.
  struct Redirected {
    std::uint64_t from;
    std::uint64_t to;
    std::string keys;
  };
  // Who waits until the feeds are ready.
  struct Waiting {
    backend::Quiet quiet;  // Which feeds beside the nodes' own.
    std::function<void()> done;
  };

  // --- FeedHost
  uv_loop_t* loop() override { return core_.loop; }
  std::span<char> read_buffer() override {
    return {core_.read_buffer.get(), WorkerCore::kReadBytes};
  }
  const std::string& connection_name() const override { return core_.connection_name; }
  const conf::Timeouts& timeouts() const override { return core_.table->timeouts; }
  void bury(std::unique_ptr<net::Socket> socket) override {
    core_.graveyard.push_back(std::move(socket));
  }
  void on_changes(tracking::ChangeFeed& feed, std::string_view keys) override;
  void on_all_changed(tracking::ChangeFeed& feed) override;
  void on_read_end() override { send_redirected(); }
  void on_feed_ready(tracking::ChangeFeed& feed) override;
  void on_feed_lost(tracking::ChangeFeed& feed, bool was_ready) override;

  // --- trackers.cc: whom it concerns
  void note_request(ClientSession& session, const Request& request, bool is_under_way,
                    bool is_shared);
  void note_sent(ClientSession& session, NamedKeys keys, bool is_shared);
  void note_own(ClientSession& session, const NamedKeys& keys, bool is_shared);
  void make_room();
  void add_prefixes(ClientSession& session, const std::vector<std::string>& prefixes);
  void remove_prefixes(ClientSession& session);
  void count();

  // --- trackers_feeds.cc: what nodes say
  void open_feeds();
  void close_feeds();
  void follow_feeds();
  void follow_quiet();
  void set_target(const tracking::ChangeFeed& feed, std::uint64_t client_id);
  void end_waits();
  [[nodiscard]] bool is_settled(backend::Quiet quiet) const;
  [[nodiscard]] bool is_quiet_ready(backend::Quiet quiet) const;
  [[nodiscard]] bool is_heard(std::string_view key) const;
  void tell_broadcast(bool is_own_feed, const std::vector<std::string_view>& keys);
  void tell_readers(bool is_own_feed, std::string_view key);
  void tell(ClientSession& session, std::string_view keys, std::span<const KeyHash> hashes);
  void tell_all(ClientSession& session);
  void tell_everybody();
  void redirect(ClientSession& session, std::string_view keys);
  void send_redirected();
  void on_redirect_broken(std::uint64_t from, std::uint64_t to);

  WorkerCore& core_;
  Sessions& sessions_;
  TrackedKeysMax& max_;
  std::map<std::string, Node> nodes_;  // By name; empty while nobody tracks.
  tracking::KeyTable table_;
  std::unordered_set<ClientSession*> trackers_;
  std::unordered_set<ClientSession*> quiet_;  // Of them those with NOLOOP.
  std::unordered_set<ClientSession*> held_up_;
  std::map<std::string, std::vector<ClientSession*>, std::less<>> by_prefix_;
  std::vector<Waiting> waiting_;
  std::vector<Redirected> redirected_;         // Of the read of now.
  std::shared_ptr<const slots::SlotMap> map_;  // Of the last table.
  std::uint64_t unused_since_ms_ = 0;  // Since when feeds are open and nobody tracks; 0: not so.
};

}  // namespace proxy::session
