// NodeLink: a mover's connection to a node: commands out, replies in, and the node's change feed.
//
// The feed (CLIENT TRACKING ON BCAST NOLOOP, RESP3) comes over the same connection as the replies:
// whoever has an answer knows that the feed is whole up to there, and the end of the one is the end
// of the other. NOLOOP: what this connection itself changes is not reported.
//
// Thread:  one, the mover's; calls block it, within the limits.
// Owns:    its socket. A link that ends while the node may still have commands of it is entered in
//          LostClients; the next open() to that node ends it there for certain.
// Limits:  `silence`: so long no byte may come or go while something is awaited, what the feed says
//          not counted: a node that takes no more commands may report changes all the same.
//          Connecting, resolving the name and greeting take at most `connect_timeout` together.
// Errors:  Timeout and Unavailable (also when `interrupt` says so): the link is closed then, and
//          whether the commands under way are executed is not known. Error replies are replies;
//          only open() makes errors of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/lost_clients.h"
#include "proxy/mover/move_host.h"
#include "proxy/mover/transfer.h"
#include "proxy/resp/reply_parser.h"
#include "slots/result.h"

namespace proxy::mover {

struct LinkOptions {
  std::string name_prefix;  // "slotproxy:<cluster>:"
  std::string incarnation;  // Of this process: connections of others with that prefix are ended.
  conf::Milliseconds connect_timeout{1000};
  conf::Milliseconds silence{3000};
  int interrupt = -1;  // A descriptor; readable: everything ends now. -1: none.
};

// What the node said of itself at the greeting.
struct NodeTraits {
  std::string run_id;
  bool knows_expire_time = false;  // PEXPIRETIME: from 7.0 on.
  bool may_evict_any_key = false;  // maxmemory with an allkeys-* policy.
  Databases databases = {};        // That hold keys.
};

class NodeLink {
 public:
  using Clock = std::chrono::steady_clock;
  using Replies = std::span<const std::string_view>;  // Whole replies, as the node sent them.

  NodeLink(LinkOptions options, LostClients& lost_clients);
  ~NodeLink() { close(); }
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Closes what was open. Returns with a link whose node is the right one, a primary, with tracking
  // switched on, and on which nothing runs any more of earlier links, or of earlier processes.
  [[nodiscard]] slots::Status open(const NodeAccess& access);
  void close();
  [[nodiscard]] bool is_open() const { return socket_ >= 0; }
  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] const NodeTraits& traits() const { return traits_; }

  // What is added from now on means this database (0 at first). Costs no round trip: the node is
  // told with the next exchange(). When it refuses, what followed has run in another database, and
  // the link ends: whoever copies has to begin anew.
  void select(Database database);
  // Gathers a command for the next exchange().
  void add(std::initializer_list<std::string_view> command);
  void add(std::span<const std::string_view> command);
  // Sends what the socket takes now, without waiting.
  [[nodiscard]] slots::Status send();
  // Sends what was added and waits for a reply to each. They are good until the next call.
  [[nodiscard]] slots::Result<Replies> exchange();
  // Takes what the feed has sent, without waiting. Not between add() and exchange().
  [[nodiscard]] slots::Status read_feed();

  [[nodiscard]] bool has_notices() const { return notices_.all || !notices_.keys.empty(); }
  [[nodiscard]] Notices take_notices() { return std::exchange(notices_, {}); }
  // Bytes sent and received since this was last asked.
  [[nodiscard]] std::uint64_t take_bytes() { return std::exchange(bytes_, 0); }

  // Rings once, from inside an exchange() that is still waiting at `at`.
  void set_alarm(Clock::time_point at, std::function<void()> ring);
  void clear_alarm() { alarm_ = nullptr; }

 private:
  [[nodiscard]] slots::Status greet(const NodeAccess& access);
  [[nodiscard]] slots::Status take_greeting(const NodeAccess& access, Replies replies);
  [[nodiscard]] slots::Status end_others(std::string_view client_list);
  [[nodiscard]] slots::Status start_feed();
  [[nodiscard]] slots::Status await(short events, Clock::time_point deadline, bool& timed_out);
  [[nodiscard]] slots::Status write_some();
  [[nodiscard]] slots::Status read_some();
  [[nodiscard]] slots::Status parse();
  void take_push(std::string_view push);
  void forget_replies();
  void reserve_input();
  [[nodiscard]] std::unexpected<slots::Error> lose(slots::Errc code, const std::string& why);

  LinkOptions options_;
  LostClients& lost_clients_;
  std::string node_;
  int socket_ = -1;
  std::uint64_t client_id_ = 0;  // 0: not known yet.
  NodeTraits traits_;

  Database database_ = 0;
  std::vector<std::size_t> selects_;  // Their places among what was added.

  std::string output_;
  std::size_t written_ = 0;         // Of output_.
  std::size_t replies_wanted_ = 0;  // Commands added, less replies read.

  std::unique_ptr<char[]> input_;
  std::size_t capacity_ = 0;
  std::size_t filled_ = 0;
  std::size_t parsed_ = 0;
  std::size_t begin_ = 0;  // Of the reply that is under way.
  resp::ReplyParser parser_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // Of replies in input_: begin, size.
  std::vector<std::string_view> replies_;

  Notices notices_;
  std::uint64_t bytes_ = 0;
  std::uint64_t pushed_bytes_ = 0;  // Of whole pushes, ever.
  Clock::time_point greeting_deadline_ = Clock::time_point::max();
  Clock::time_point alarm_at_;
  std::function<void()> alarm_;
};

// --- replies

[[nodiscard]] inline bool is_error(std::string_view reply) { return reply.starts_with('-'); }
// "ERR no such key", without '-' and line end.
[[nodiscard]] std::string_view error_text(std::string_view reply);

}  // namespace proxy::mover
