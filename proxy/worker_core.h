// WorkerCore: what everything on one worker's thread shares: loop, buffers, tickets, the snapshot,
// counters.
//
// Thread:  the worker's. Only the counters may be read by others.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/backend/ticket.h"
#include "proxy/counter.h"
#include "proxy/net/byte_chain.h"
#include "proxy/net/socket.h"
#include "proxy/resp/request_parser.h"
#include "proxy/routing_table.h"
#include "proxy/slot_traffic.h"
#include "slots/top_keys.h"

namespace proxy {

namespace backend {
class Backends;
class QuietWatcher;
class Refusals;
}  // namespace backend
namespace pubsub {
class Hub;
}
namespace session {
class ScriptCache;
}

struct WorkerStats {
  Counter clients;              // Sessions now.
  Counter clients_total;        // Accepted since the start.
  Counter clients_refused;      // Beyond limits.clients or out of descriptors.
  Counter requests;             // Of clients, whole.
  Counter redirects;            // MOVED answers.
  Counter errors;               // Error replies of the proxy's own.
  Counter outcome_unknown;      // Requests whose connection was lost after they were sent.
  Counter stalled_clients;      // Closed: no progress for timeouts.stalled_client.
  Counter overflowing_clients;  // Closed: limits.unread_replies_total.
  Counter slow_subscribers;     // Closed: limits.unread_messages.
  Counter backend_connects;
  Counter backend_failures;  // Connections to nodes that failed or were lost.
  Counter flushes;           // FLUSHALL and FLUSHDB of clients.
  Counter lost_flushes;      // Of them, those that a node may still execute, at any time.
  Counter fenced_clients;    // Sessions now whose next request waits for the end of a fence.
  Counter blocked_clients;   // Sessions now that wait at a node (BLPOP), or for CLIENT PAUSE's end.
  Counter blocking_refused;  // Of limits.blocking_connections: those that might not wait.
  Counter tracking_clients;  // Sessions now with CLIENT TRACKING ON.
  Counter tracked_keys;      // That some of them has read, now.
  Counter tracked_items;     // The same, each counted once for each reader.
  Counter tracked_prefixes;  // Of those with BCAST, now.
  Counter unread_bytes;      // Replies that clients have not read, now.
  Counter bytes_from_clients;
  Counter bytes_to_clients;
};

// What is flushed at the end of the loop turn.
class Flushable {
 public:
  virtual void flush() = 0;

 protected:
  ~Flushable() = default;
};

struct WorkerCore {
  // A value of 64 KB with its frame is read at once, and passed on uncopied.
  static constexpr std::size_t kReadBytes = 72 * 1024;
  static constexpr std::uint32_t kLatencyEveryMs = 100;

  WorkerCore() : read_buffer(new char[kReadBytes]) {
    dirty_connections.reserve(64);
    dirty_sessions.reserve(1024);
  }

  uv_loop_t* loop = nullptr;
  unsigned worker = 0;
  std::uint64_t started_ms = 0;  // On the loop's clock.
  std::string connection_name;   // CLIENT SETNAME of connections to nodes.
  std::shared_ptr<const RoutingTable> table;
  std::unique_ptr<char[]> read_buffer;  // Every read of this worker lands here first.
  net::BlockPool blocks;
  backend::TicketPool tickets;
  backend::Backends* backends = nullptr;
  backend::QuietWatcher* quiet_watcher = nullptr;
  session::ScriptCache* scripts = nullptr;  // Shared by all workers.
  pubsub::Hub* pubsub = nullptr;            // Too.
  backend::Refusals* refusals = nullptr;    // Too.
  std::uint64_t flushes_under_way = 0;  // FLUSHALL and FLUSHDB that not all nodes have answered.
  resp::FrameState frame;               // Scratch of whoever parses now.
  std::string scratch;  // Scratch for a reply or a request being built; never held across calls.
  // To be flushed at the turn's end. Requests leave before replies: a client that has its answer
  // finds that what it asked along with it is on its way too.
  std::vector<Flushable*> dirty_connections;
  std::vector<Flushable*> dirty_sessions;
  std::vector<std::unique_ptr<net::Socket>>
      graveyard;  // Closed before libuv knew them; freed at the turn's end.
  WorkerStats stats;
  std::unique_ptr<SlotTraffic> traffic = std::make_unique<SlotTraffic>();
  std::unique_ptr<slots::TopKeys> hot_keys;  // Null: nobody asks for them.
  // A connection to a node measures how long answers take no more often than this.
  std::uint32_t latency_every_ms = kLatencyEveryMs;

  [[nodiscard]] std::uint64_t now_ms() const { return uv_now(loop); }
};

}  // namespace proxy
