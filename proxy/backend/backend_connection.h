// BackendConnection: one connection of a worker to a node; many sessions share it.
//
// Requests leave in the order of submit(), replies come back in that order, each pops the oldest
// ticket. A connection greets the node first (AUTH, HELLO, CLIENT SETNAME), asks which process it
// leads to (INFO), checks that it is the right server (identity key, ROLE), and selects its
// database; requests wait until then, so a wrong server never gets one, nor a wrong database.
//
// Thread:  one worker's.
// Owns:    its tickets (see ticket.h). NodeBackend owns the connection.
// Errors:  a lost connection tells every ticket: a request of which nothing was written is given
// back to NodeBackend to
//          be sent again; any other is lost with "outcome unknown".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/backend/channel.h"
#include "proxy/backend/ticket.h"
#include "proxy/net/connector.h"
#include "proxy/net/loop_timer.h"
#include "proxy/net/socket.h"
#include "proxy/resp/reply_parser.h"
#include "proxy/worker_core.h"
#include "slots/key_slot.h"

namespace proxy::backend {

class NodeBackend;

// Told when a quiet connection ends, however it does: others' changes may go unheard of.
class QuietWatcher {
 public:
  virtual void on_quiet_lost() = 0;

 protected:
  ~QuietWatcher() = default;
};

enum class ConnectionUse : std::uint8_t {
  Shared,    // Requests of all sessions.
  Large,     // One streamed request at a time.
  Pinned,    // One session's, while the server remembers something of it (WATCH).
  Blocking,  // One request at a time that may wait at the node (NodeWait).
};

// What each reply to a greeting answers.
enum class GreetingStep : std::uint8_t {
  Auth,
  Hello,
  SetName,
  Server,
  Identity,
  Role,
  Select,
  Quiet,
};

// What the server at the other end calls itself and this connection.
struct ServerSide {
  std::string run_id;           // Of the process; empty: not known, as while a script runs.
  std::uint64_t client_id = 0;  // For CLIENT KILL ID; 0: not known, as of servers before 6.0.
};

// Told about room in a connection's output, while a streamed request is under way.
class StreamSource {
 public:
  virtual void on_room() = 0;

 protected:
  ~StreamSource() = default;
};

// Who has a connection for itself.
class PinHolder {
 public:
  // It ended, and with it whatever the server remembered; not called once it was given back.
  virtual void on_pin_lost() = 0;
  virtual void on_pin_tick() {}  // About ten times a second.

 protected:
  ~PinHolder() = default;
};

class BackendConnection final : public net::Socket, public Flushable {
 public:
  // Larger pieces of requests go to the kernel uncopied, when nothing waits before them.
  static constexpr std::size_t kDirectWrite = 16 * 1024;

  enum class State : std::uint8_t { Connecting, Greeting, Ready, Closed };

  BackendConnection(WorkerCore& core, NodeBackend& node, Channel channel, ConnectionUse use);
  ~BackendConnection() override;

  void connect();

  // Queues a whole request, or the first bytes of a streamed one; append() adds the rest of that.
  void submit(Ticket* ticket, const char* bytes, std::size_t count) {
    ticket->next_in_connection = nullptr;
    (tail_ == nullptr ? head_ : tail_->next_in_connection) = ticket;
    tail_ = ticket;
    ticket->connection = this;
    ticket->submitted_ms = static_cast<std::uint32_t>(core_.now_ms());
    ticket->request_bytes = static_cast<std::uint32_t>(count);
    if (count < kDirectWrite) [[likely]] {
      append(bytes, count);
    } else {
      append_now(bytes, count);
    }
  }
  void append(const char* bytes, std::size_t count) {
    out_.append(core_.blocks, bytes, count);
    appended_ += count;
    if (!dirty_) mark_dirty();
  }

  // As append(), but into the kernel at once when nothing is queued before.
  void append_now(const char* bytes, std::size_t count);

  // From the owner of a ticket whose reply it gets now: more replies to its request are to come.
  void put_back(Ticket* ticket);

  // Ends the connection; every ticket is told. `why` says what happened, as in "connection lost".
  void fail(const std::string& why);
  void flush() override;

  // A reply above limits.stream_reply waits for its reader: see ClientSession. Reading goes on once
  // there is room, or the session has left.
  void pause_reading();
  void resume_reading();
  void set_stream_source(StreamSource* source) { stream_source_ = source; }
  void set_pin_holder(PinHolder* holder) { pin_holder_ = holder; }
  [[nodiscard]] PinHolder* pin_holder() { return pin_holder_; }
  [[nodiscard]] bool is_pinned() const { return pin_holder_ != nullptr; }
  // Takes no new requests from now on; ends once its tickets are answered.
  void retire();

  // Frees the connection once libuv and this turn of the loop are through with it; its tickets must
  // be gone.
  void destroy(std::unique_ptr<BackendConnection> self);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] Channel channel() const { return channel_; }
  // Of requests, ever.
  [[nodiscard]] std::uint64_t bytes_submitted() const { return appended_; }
  [[nodiscard]] ConnectionUse use() const { return use_; }
  [[nodiscard]] bool is_retiring() const { return retiring_; }
  [[nodiscard]] bool is_idle() const { return head_ == nullptr && out_.empty(); }
  [[nodiscard]] bool has_followers() const { return head_ != tail_; }
  // A request was broken off in the middle: no other may follow it.
  void break_off() { retiring_ = true; }
  // What was submitted until now is what a fence waits for.
  void set_mark() { mark_ = appended_; }
  // What is under way touches keys of no slot but this one (kNoSlot: none at all), and may take
  // until then, whatever timeouts.request says.
  void begin_wait(slots::SlotId slot, std::uint64_t until_ms) {
    is_waiting_ = true;
    wait_slot_ = slot;
    wait_until_ms_ = until_ms;
  }
  void set_wait_limit(std::uint64_t until_ms) { wait_until_ms_ = until_ms; }
  void end_wait() { is_waiting_ = false; }
  // Nothing on it concerns these slots, however long it takes.
  [[nodiscard]] bool waits_outside(const slots::SlotSet& slots) const {
    return is_waiting_ && (wait_slot_ == slots::kNoSlot || !slots.contains(wait_slot_));
  }
  // Whether all that was submitted before the mark is answered. By replies: a request that was sent
  // and not answered may still be executed.
  [[nodiscard]] bool is_past_mark() const { return answered_ >= mark_; }
  [[nodiscard]] std::size_t queued_bytes() const { return out_.size(); }
  // Whether the oldest request waits since before `ms` (timeouts.request).
  [[nodiscard]] bool is_overdue(std::uint64_t limit_ms) const;
  // And whether a client's script is what takes so long.
  [[nodiscard]] bool is_kept_by_script(std::uint64_t limit_ms) const;
  [[nodiscard]] NodeBackend& node() { return node_; }
  [[nodiscard]] const ServerSide& server_side() const { return server_side_; }

 private:
  static constexpr std::uint64_t kNotMeasured = ~std::uint64_t{0};

  void on_ready(bool readable, bool writable, bool broken) override;
  void mark_dirty() {
    dirty_ = true;
    core_.dirty_connections.push_back(this);
  }
  void begin_measurement();
  void end_measurement();
  void greet();
  bool take_greeting(std::string_view reply);
  void read_replies();
  void take_part(const char* bytes, std::size_t count);
  bool take_reply(const char* bytes, std::size_t count);
  void give_error(Ticket* ticket, const char* bytes, std::size_t count);
  Ticket* pop();
  void watch_now();

  WorkerCore& core_;
  NodeBackend& node_;
  Ticket* head_ = nullptr;
  Ticket* tail_ = nullptr;
  net::ByteChain out_;
  std::uint64_t appended_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t answered_ = 0;  // Up to the oldest request that is not.
  std::uint64_t mark_ = 0;
  // Now and then the time from a flush to the answer of all that was sent by then is taken.
  std::uint64_t measured_end_ = kNotMeasured;  // In the count of written_; answered_ reaches it.
  std::uint64_t measured_from_ns_ = 0;
  std::uint32_t measured_ms_ = 0;  // When it was last tried; low bits of the loop's time.
  resp::ReplyParser parser_;
  State state_ = State::Connecting;
  Channel channel_;
  ConnectionUse use_;
  bool dirty_ = false;
  bool retiring_ = false;
  bool write_blocked_ = false;
  bool read_paused_ = false;
  bool is_waiting_ = false;
  slots::SlotId wait_slot_ = slots::kNoSlot;
  std::uint64_t wait_until_ms_ = 0;
  std::string greeting_;                      // Bytes of the greeting not written yet.
  std::vector<GreetingStep> greeting_steps_;  // What each awaited reply of the greeting answers.
  std::size_t greeting_next_ = 0;
  std::string greeting_reply_;
  ServerSide server_side_;
  StreamSource* stream_source_ = nullptr;
  PinHolder* pin_holder_ = nullptr;
  net::Connector connector_;
  net::LoopTimer connect_timer_;
};

}  // namespace proxy::backend
