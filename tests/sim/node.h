// Node: a Redis server in memory, as far as moves can tell: values, streams whose groups change
// without notice, expiry, eviction, flushes, connections whose commands may run long after their
// sender is gone, the change feed, a history of which a restart keeps a prefix.
//
// A key of another database than 0 is written "3>name" here; connections say SELECT before they use
// it, clients as part of the name.
//
// Within a turn of its loop a server runs commands; at the turn's end it sends one push with all
// keys that changed, merged and sorted, and only then the replies.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/mover/transfer.h"
#include "tests/sim/random.h"

namespace sim {

struct Entry {
  std::string value;
  bool is_stream = false;
  std::uint64_t groups = 0;  // Of a stream: what XGROUP and XACK change.
  std::int64_t expire_at_ms = -1;

  friend bool operator==(const Entry&, const Entry&) = default;
};
using Dict = std::map<std::string, Entry>;
std::string in_database(proxy::mover::Database database, const std::string& name);
proxy::mover::Database database_of(const std::string& key);
std::string name_of(const std::string& key);
std::string to_string(const Entry& entry);
bool is_live(const Entry& entry, std::uint64_t now_ms);

struct Command {
  enum class Kind : std::uint8_t {
    // Of clients.
    Get,
    Set,
    SetFor,  // With an expiry.
    Append,
    Del,
    Persist,
    XAdd,
    XGroup,
    Flush,  // Of all databases, or of the one that the key is in.
    // Of the mover.
    Select,
    Dump,
    Copy,
    Unlink,
    Piece,    // Appends to the hidden copy.
    Measure,  // What is there, as Dump.
    Publish,  // The hidden copy takes the key's name, and an expiry.
    SetGroups,
    Mark,
    Barrier,
  };
  Kind kind = Kind::Get;
  std::string key = {};
  std::string value = {};
  std::int64_t expire_at_ms = -1;
  std::uint64_t id = 0;
  proxy::mover::KeyValue copy = {};
};
std::string to_string(const Command& command);
bool is_of_client(const Command& command);

struct Effect {
  std::string reply = {};
  bool has_changed = false;
  bool is_announced = false;
};
// What a client's command on one key does to the data, and answers.
Effect apply(Dict& dict, const Command& command, std::uint64_t now_ms);

// How an entry travels: the RDB type, then the rest.
std::string dump(const Entry& entry);
Entry restore(const proxy::mover::KeyValue& value);

class Node;
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  virtual void on_client_command(Node& node, const Command& command, const std::string& reply) = 0;
  virtual void on_mover_command(Node& node, const Command& command) = 0;
  virtual void on_evicted(Node& node, const std::string& key) = 0;
};

struct Reply {
  std::uint64_t id = 0;
  std::string text;
  proxy::mover::KeyValue value;            // Of Dump and Measure.
  proxy::mover::Databases databases = {};  // Of Barrier: those that hold keys.
};

struct Push {
  std::vector<std::string> keys;
  bool all = false;
};

using ConnectionId = std::uint64_t;

class Node {
 public:
  Node(std::string name, const std::uint64_t& now_ms, NodeObserver& observer)
      : name_(std::move(name)), now_ms_(now_ms), observer_(observer) {}

  // --- as its peers see it
  ConnectionId connect(bool is_mover);
  void send(ConnectionId id, Command command);
  std::vector<Reply> replies(ConnectionId id);  // Those of ended turns.
  // Its peer is gone: what was sent may still run, the last of it may never arrive.
  void lose(ConnectionId id, Random& random);
  void kill(ConnectionId id);  // CLIENT KILL ID, answered.
  void kill_all(bool movers);
  bool is_lost(ConnectionId id) const { return connections_.at(id).is_lost; }
  void open_feed();
  void close_feed() { feed_.reset(); }
  bool has_feed() const { return feed_.has_value(); }
  std::optional<Push> next_push();
  // Keys in an order of their own, from a cursor on; a new key may come where the scan has been.
  std::vector<std::string> scan(ConnectionId id, std::uint64_t& cursor, std::size_t count);
  proxy::mover::Databases databases() const;  // That hold keys.
  std::uint64_t marker() const;
  std::size_t marker_history() const { return marker_history_; }  // With the marker last put.

  // --- as chance wants it
  std::vector<ConnectionId> busy_connections() const;
  void run_one(ConnectionId id);
  void end_turn();
  void expire_due();
  void evict(const std::string& key);
  void sync() { synced_ = history_.size(); }
  void crash();
  std::size_t restart(Random& random);  // How much of its history is left.

  // --- as it is
  const std::string& name() const { return name_; }
  bool is_up() const { return is_up_; }
  std::string run_id() const { return name_ + std::to_string(run_); }
  const Dict& dict() const { return dict_; }
  std::optional<Entry> find(const std::string& key) const;
  std::size_t history_size() const { return history_.size(); }
  std::size_t synced() const { return synced_; }
  void load(const std::string& key, Entry entry);  // Before the first turn.

  bool is_stalled = false;      // Stopped: it runs nothing until it goes on.
  bool refuses_writes = false;  // MISCONF and the like.
  bool is_full = false;         // OOM for whatever adds.
  std::string marker_key;
  std::string piece_key;

 private:
  struct Connection {
    bool is_mover = false;
    bool is_lost = false;
    proxy::mover::Database database = 0;
    std::deque<Command> input;
    std::vector<Reply> turn;
    std::vector<Reply> replies;
  };
  struct Change {
    std::string key;
    std::optional<Entry> entry;  // Nothing: removed. An empty key: all of them,
    std::optional<proxy::mover::Database> database = {};  // or of this database.
  };

  Reply run(const Command& command, Connection& connection);
  void flush(std::optional<proxy::mover::Database> database);
  void set(const std::string& key, std::optional<Entry> entry);
  bool expire(const std::string& key);
  void announce(const std::string& key) { changed_.insert(name_of(key)); }

  std::string name_;
  const std::uint64_t& now_ms_;
  NodeObserver& observer_;
  bool is_up_ = true;
  unsigned run_ = 1;
  Dict dict_;
  std::vector<Change> history_;
  std::size_t synced_ = 0;
  std::size_t marker_history_ = 0;
  std::map<ConnectionId, Connection> connections_;
  ConnectionId next_id_ = 1;
  std::optional<std::deque<Push>> feed_;
  std::set<std::string> changed_;  // In this turn.
  bool is_flushed_ = false;        // In this turn.
};

}  // namespace sim
