// ClientSession: a client's connection. Frames its requests, routes them, and answers in their
// order.
//
//  client        ClientSession           parse_request()    handler / forward() BackendConnection
//  node
//    |--bytes-->  on_ready()  ---------->  frame  -------->  NodeIndex, slot  ---->  submit(ticket)
//    --bytes-->  | |            push_ticket()            Request           snapshot's map tickets,
//    oldest first       |
//    |<-bytes---  flush(), once a turn <-- on_reply() <----- oldest ticket  <------  ReplyParser
//    <--bytes-- |
//
// Order: every request takes a ticket in the session's list; a reply is sent when its ticket is at
// the head, and waits in its ticket until then. A session that may not go on (too much in flight,
// too much unread, a streamed request, a connection that was taken over by a large reply) is held:
// nothing behind the request overtakes it, and the client is not read from.
//
// Thread:  one worker's. Sessions own what they allocate; Sessions (sessions.h) owns them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "conf/password_hash.h"
#include "proxy/backend/backends.h"
#include "proxy/net/input_buffer.h"
#include "proxy/resp/command_spec.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/session/request_stream.h"
#include "proxy/worker_core.h"

namespace proxy::acl {
class User;
}

namespace proxy::session {

class BlockedCall;
class Sessions;
class Subscriptions;
class Tracking;
class Transaction;
class Watch;

// What a listener says to its sessions; shared by them and kept up to date with the snapshot.
struct ListenerFacts {
  bool is_redirect = false;
  std::string node_name;                   // Redirect: the node whose endpoint this is.
  slots::NodeIndex node = slots::kNoNode;  // Its index in the snapshot.
  std::uint16_t port = 0;
  std::string address;  // As configured, for INFO and CLIENT LIST.
  bool is_tcp = true;
};

// One request as received. Valid during its execution only.
struct Request {
  resp::Args args;
  std::string_view bytes;  // The whole frame in RESP, as it may be forwarded.
  const resp::CommandSpec* spec = nullptr;
};

enum class ReplyMode : std::uint8_t { On, Off, SkipNext, Skip };

// What only some clients have; made when first needed.
struct SessionNotes {
  std::string name;
  std::string library_name;
  std::string library_version;
  std::string last_command;
};

// Reasons why a session's next request waits; any of them holds.
enum class Hold : std::uint8_t {
  InFlight = 1,  // limits.inflight_requests or inflight_bytes.
  Unread = 2,    // limits.unread_replies.
  Stream = 4,    // A request on a connection of its own: it waits for its turn, or for its reply.
  Retiring = 8,  // Replies of a connection that takes no new requests.
  Answer = 16,   // An answer that later requests must not overtake (scripts being flushed, CLIENT
                 // KILL...).
  Fence = 32,    // The next request is one that the snapshot's fence keeps back.
  Pause = 64,    // The next request waits for the end of a CLIENT PAUSE.
};

class ClientSession final : public net::Socket,
                            public Flushable,
                            public backend::TicketOwner,
                            public backend::StreamSource {
 public:
  ClientSession(WorkerCore& core, Sessions& sessions, std::shared_ptr<const ListenerFacts> listener,
                std::uint64_t id);
  ~ClientSession() override;

  void start(int descriptor);
  // Ends the session now; its requests in flight are answered to nobody.
  void close_now();
  // Ends it once what it has asked is answered and sent; reads no more.
  void close_after_replies();
  // SIGTERM: as close_after_replies(), but whole requests that were received are still executed,
  // unless a CLIENT PAUSE holds them.
  void drain();

  // --- for command handlers ---
  [[nodiscard]] WorkerCore& core() { return core_; }
  [[nodiscard]] Sessions& sessions() { return sessions_; }
  [[nodiscard]] const RoutingTable& table() const { return *core_.table; }
  [[nodiscard]] const ListenerFacts& listener() const { return *listener_; }
  [[nodiscard]] bool is_redirect() const { return listener_->is_redirect; }
  [[nodiscard]] bool resp3() const { return channel_.protocol() == backend::Protocol::Resp3; }
  // Its protocol version and its database: over which of a node's connections it goes.
  [[nodiscard]] backend::Channel channel() const { return channel_; }
  void set_channel(backend::Channel channel);
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] SessionNotes& notes();
  [[nodiscard]] const SessionNotes* notes_if_any() const { return notes_.get(); }
  [[nodiscard]] bool is_authenticated() const { return authenticated_; }
  // Of the snapshot of now; "default" until it logs in.
  [[nodiscard]] const acl::User& user() const { return *user_; }
  [[nodiscard]] bool may_do_everything() const { return may_do_everything_; }
  // Logs in; what the hash is of was checked. False: as many connections as the user may have are.
  [[nodiscard]] bool become(const acl::User& user, const conf::PasswordHash& password);
  [[nodiscard]] ReplyMode reply_mode() const { return reply_mode_; }
  void set_reply_mode(ReplyMode mode);
  void reset();  // RESET: as on connect.
  // Between MULTI and EXEC; else null.
  [[nodiscard]] Transaction* transaction() { return transaction_.get(); }
  [[nodiscard]] const Transaction* transaction_if_any() const { return transaction_.get(); }
  void set_transaction(std::unique_ptr<Transaction> transaction);
  std::unique_ptr<Transaction> take_transaction();
  // The keys that it watches; null: none.
  [[nodiscard]] Watch* watch_if_any() { return watch_.get(); }
  void set_watch(std::unique_ptr<Watch> watch);
  std::unique_ptr<Watch> take_watch();
  // The request that waits at a node for as long as the client likes; null: none.
  [[nodiscard]] BlockedCall* blocked_call() { return blocked_call_; }
  void set_blocked_call(BlockedCall* call) { blocked_call_ = call; }
  [[nodiscard]] bool is_draining() const { return draining_; }
  // What it has subscribed; null: nothing yet.
  [[nodiscard]] Subscriptions* subscriptions_if_any() { return subscriptions_.get(); }
  Subscriptions& subscriptions();
  void on_subscriptions_changed() { note_plainness(); }
  void on_monitoring_changed() { note_plainness(); }
  // What it is told of changes; null: nothing. From Trackers.
  [[nodiscard]] Tracking* tracking_if_any() const { return tracking_.get(); }
  void set_tracking(std::unique_ptr<Tracking> tracking);
  // Its requests that are not answered, in their order.
  [[nodiscard]] backend::Ticket* oldest_ticket() const { return head_; }
  [[nodiscard]] backend::Ticket* newest_ticket() const { return tail_; }
  // In RESP2 nothing but subscribing is for clients that have subscribed something: replies and
  // messages could not be told apart.
  [[nodiscard]] bool takes_messages_only() const;
  [[nodiscard]] std::uint64_t created_ms() const { return created_ms_; }
  [[nodiscard]] std::uint64_t last_active_ms() const { return last_active_ms_; }
  [[nodiscard]] std::size_t unread_bytes() const { return unread_; }
  [[nodiscard]] std::size_t input_bytes() const { return input_ ? input_->bytes.size() : 0; }

  // Answers the request of now; `reply` is one whole RESP reply.
  void reply(std::string_view reply);
  void reply_error(std::string_view text);
  // The same, but as a push: whatever CLIENT REPLY says, and messages come behind it.
  void reply_push(std::string_view reply);
  // A message to it, whole, between replies and behind what was pushed before. A client that has
  // not read limits.unread_messages is closed at the end of the turn.
  void push(std::string_view message);
  // The same, but right behind the reply that `ticket` waits for; null: before all that have not
  // begun.
  void push_after(backend::Ticket* ticket, std::string_view message);
  // Whether messages come behind all requests of now, or before the answers that have not begun.
  void push_behind(bool yes) { pushes_behind_ = yes; }
  // An error that keeps the request from being queued: EXEC will refuse the rest of the transaction
  // too, if there is one.
  void reject(std::string_view text);
  // Replies go to `out` from now on; null: to the client.
  void capture_replies(std::string* out) { captured_ = out; }
  [[nodiscard]] bool is_capturing() const { return captured_ != nullptr; }
  // Whether the client has to ask at another endpoint. Not for what a fence has kept back: that is
  // executed at the owner of now, wherever it is.
  [[nodiscard]] bool is_elsewhere(slots::SlotId slot, slots::NodeIndex owner) const {
    return is_redirect() && owner != listener_->node && !was_kept_back(slot);
  }
  void redirect(slots::SlotId slot, slots::NodeIndex owner);  // -MOVED
  // Sends the request of now to a node; bytes are copied before it returns.
  void forward(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes);
  // The same for a request that may keep the node for long.
  void forward_script(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes);
  // The same over a connection that is the session's own.
  void forward_over(backend::BackendConnection& connection, slots::SlotId slot,
                    std::string_view bytes) {
    backend::Ticket* ticket = push_ticket();
    ticket->owner = this;
    ticket->slot = slot;
    connection.submit(ticket, bytes.data(), bytes.size());
    count_in_flight(bytes.size());
  }
  // All that it has asked is answered: what it sends now to whichever connection comes behind.
  [[nodiscard]] bool is_quiet() const { return head_ == nullptr; }
  // The request of now waits until then, and is executed anew.
  void put_off();
  [[nodiscard]] bool is_put_off() const { return is_put_off_; }
  // A request of the proxy's own, beside one of the client's on the same connection; its reply is
  // dropped. Whether limits.node_queue lets it through is the caller's to know from that other one.
  void send_ahead(slots::NodeIndex node, backend::Channel channel, std::string_view bytes);
  // A place in the order that `pending` fills later with fill(); the ticket is the session's.
  backend::Ticket* push_pending(backend::PendingReply* pending);
  void fill(backend::Ticket* place, std::string_view reply);
  void hold(Hold reason) { holds_ |= static_cast<std::uint8_t>(reason); }
  void release(Hold reason);
  [[nodiscard]] bool is_held_for(Hold reason) const {
    return (holds_ & static_cast<std::uint8_t>(reason)) != 0;
  }
  // What a node that can't be used makes of a request: the error, ready to send.
  std::string node_error(slots::NodeIndex node, slots::SlotId slot,
                         const std::string& reason) const;
  // A fragment of a gather is on a connection that takes no new requests (or not any more).
  void count_retiring(int change);
  void count_in_flight(std::size_t bytes);
  void uncount_in_flight(std::size_t bytes, std::size_t reply_bytes);

  // --- from the worker ---
  // Goes on with requests that were held; called at the end of the turn.
  void resume();
  // From Sessions, once the snapshot has changed, while it watches keys.
  void follow_map();
  // From Sessions, when the snapshot has other users than the one before, which still is there.
  void follow_users();
  // From Sessions: the session was held for it.
  void on_fence_ended(std::shared_ptr<const Fence> fence);
  // From PausedClients: the session was held for a pause.
  void on_pause_ended();
  // Whether the client has not taken a byte for `limit_ms`, while there are some, or not sent one
  // of a request that it has begun. A client that others wait behind (its large reply fills a
  // connection that they share) gets kStallBeforeOthersMs at most.
  [[nodiscard]] bool is_stalled(std::uint64_t now_ms, std::uint64_t limit_ms);
  // From Sessions, which let go of it: the last step of close_now().
  void end(std::unique_ptr<ClientSession> self) { close(std::move(self)); }

  // --- Flushable, TicketOwner, StreamSource ---
  void flush() override;
  void on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_lost(backend::Ticket* ticket, std::string_view error) override;
  void on_retiring(backend::Ticket* ticket) override;
  void on_room() override;

 private:
  struct Input {
    Input(net::BlockPool& pool, const resp::FrameState& begun) : bytes(pool), frame(begun) {}

    net::InputBuffer bytes;  // Received and not executed.
    resp::FrameState frame;  // Of the request at their beginning.
    // The fence that what was received until its end was kept back by; null: none, or that is done.
    std::shared_ptr<const Fence> kept_back_by;
  };

  void on_ready(bool readable, bool writable, bool broken) override;
  void on_hung_up() override;
  void take_input(const char* bytes, std::size_t count);
  std::size_t process(const char* bytes, std::size_t size, resp::FrameState& frame);
  bool process_inline(const char* bytes, std::size_t size, std::size_t& consumed);
  void process_kept_input();
  void execute(resp::Args args, std::string_view bytes);
  void execute_slowly(Request& request);
  // While a fence or a pause holds requests back, or somebody asks which keys come most often.
  [[nodiscard]] bool is_watched() const;
  // Required before execute() while is_watched(). False: the fence or the pause of now keeps the
  // request back; the session is held then.
  bool may_pass(resp::Args args);
  [[nodiscard]] bool is_kept_back(const Fence& fence, resp::Args args) const;
  void hold_for_fence();
  void hold_for_pause();
  void go_on_after(Hold reason);
  [[nodiscard]] bool was_kept_back(slots::SlotId slot) const {
    return input_ != nullptr && input_->kept_back_by != nullptr &&
           input_->kept_back_by->slots.contains(slot);
  }
  // Nothing that changes how a request is taken: no AUTH to come, a user that may do everything, no
  // CLIENT REPLY, no transaction, no watched keys, no tracking, no subscriptions in RESP2, nobody
  // who monitors.
  [[nodiscard]] bool is_plain() const { return is_plain_; }
  // Whether a request of it may be streamed. What a client's rights are judged by has to be seen
  // whole, and of one that tracks what it reads.
  [[nodiscard]] bool may_stream(const resp::CommandSpec& spec) const;
  void note_plainness();
  void begin_as_default();
  void give_place();
  [[nodiscard]] bool may_keep_subscriptions();
  void protocol_error(std::string_view text);

  bool begin_stream(const char* bytes, std::size_t size, resp::FrameState& frame,
                    std::size_t& consumed);
  std::size_t feed_stream(const char* bytes, std::size_t size);

  backend::Ticket* push_ticket();
  void pop_head();
  void advance();
  void emit(const char* bytes, std::size_t count);
  void emit_stored(backend::Ticket* ticket);
  void drop_stored(backend::Ticket* ticket);
  void settle(backend::Ticket* ticket);
  void add_unread(std::size_t count);
  void cut_off();
  void report_unread();
  void on_nothing_waiting();
  void end_large(backend::Ticket* ticket);
  void end_stream();
  void break_stream();
  void refuse_stream();
  void resume_node_reading();
  void mark_dirty() {
    if (dirty_) return;
    dirty_ = true;
    core_.dirty_sessions.push_back(this);
  }
  void watch_now();
  void abandon_tickets();

  WorkerCore& core_;
  Sessions& sessions_;
  std::shared_ptr<const ListenerFacts> listener_;
  std::uint64_t id_;
  const acl::User* user_ = nullptr;  // Of the snapshot of now.

  backend::Ticket* head_ = nullptr;  // In request order.
  backend::Ticket* tail_ = nullptr;
  net::ByteChain out_;
  std::unique_ptr<Input> input_;
  std::unique_ptr<RequestStream> stream_;  // A streamed request under way.
  std::unique_ptr<SessionNotes> notes_;
  std::unique_ptr<Transaction> transaction_;
  std::unique_ptr<Watch> watch_;
  BlockedCall* blocked_call_ = nullptr;
  std::unique_ptr<Subscriptions> subscriptions_;
  std::unique_ptr<Tracking> tracking_;
  std::string* captured_ = nullptr;                  // Where replies go instead of to the client.
  std::vector<backend::BackendConnection*> paused_;  // Whose replies wait for this client to read.

  std::size_t unread_ = 0;           // Bytes in out_ and in tickets.
  std::size_t unread_reported_ = 0;  // Of them counted in the worker's sum.
  std::uint32_t in_flight_ = 0;
  std::uint32_t retiring_ = 0;
  std::size_t in_flight_bytes_ = 0;
  std::uint32_t window_ = 128;       // Requests in flight now allowed; follows the size of replies.
  std::uint32_t reply_average_ = 0;  // Bytes.
  std::uint64_t created_ms_;
  std::uint64_t last_active_ms_;
  std::uint64_t progress_ms_ = 0;  // When the client last took bytes, while it is behind.

  int unsent_seen_ = 0;  // Bytes in the kernel's send queue, when last looked at.

  static constexpr std::uint32_t kNoPassword = ~0U;
  std::uint32_t password_ = kNoPassword;  // Which of its user's it has given.

  std::uint8_t holds_ = 0;
  backend::Channel channel_{backend::Protocol::Resp2};
  ReplyMode reply_mode_ = ReplyMode::On;
  bool authenticated_ = false;
  bool may_do_everything_ = false;  // Its user is unrestricted.
  bool is_plain_ = true;
  bool is_put_off_ = false;     // The request that was executed last.
  bool pushes_behind_ = false;  // Messages take tickets at the end, until none is left.
  bool dirty_ = false;
  bool write_blocked_ = false;
  bool read_stopped_ = false;
  bool closing_ = false;  // No more requests; ends when all is answered.
  bool draining_ = false;
  bool broken_ = false;     // The connection failed inside a call that can't close it.
  bool resumable_ = false;  // In Sessions' list for the end of the turn.
};

}  // namespace proxy::session
