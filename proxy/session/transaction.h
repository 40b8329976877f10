// Transaction: what a client has queued between MULTI and EXEC. ExecReplies: what becomes of it
// once it was sent. QueueReplies: what a node says of one command before that, if it may refuse it.
//
// The requests are kept as one: MULTI, what was queued, EXEC. They go to the node's shared
// connection in one piece with one ticket, so that nothing of others gets between them, and the
// transaction is sent whole, again whole, or not at all.
//
// Thread:  one worker's.
// Limits:  limits.buffered_request bytes of requests.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/backend/backend_connection.h"
#include "proxy/routing_table.h"
#include "proxy/session/client_pause.h"
#include "proxy/session/script_cache.h"
#include "slots/slot.h"

namespace proxy::session {

class ClientSession;

class Transaction {
 public:
  Transaction();

  // Whole requests in RESP, which are copied.
  void add_for_node(std::string_view bytes);
  void add_for_proxy(std::string_view bytes);
  [[nodiscard]] bool has_room(std::string_view bytes, std::size_t limit) const {
    return bytes_.size() + bytes_of_own_ + bytes.size() <= limit;
  }
  void set_slot(slots::SlotId slot) { slot_ = slot; }
  // A script may be asked for by its name: the node has to know it before.
  void needs_script(const ScriptId& id) { scripts_.push_back(id); }
  // Something among its requests names no keys and may write any.
  void writes_any_key() { writes_any_key_ = true; }
  // What it says of writing; `name`: of the script or function that it calls.
  void note_writing(MayWrite may, std::string_view name);
  // Looks at all requests again, in their order: those that `judge` has a whole reply for are not
  // executed, and get it.
  void withdraw(const std::function<std::string(resp::Args)>& judge);
  // Its requests behind are executed as somebody else, maybe.
  void note_login() { logs_in_ = true; }
  [[nodiscard]] bool logs_in() const { return logs_in_; }
  // Whose rights its requests were judged by.
  void set_users(std::shared_ptr<const acl::Users> users) { users_ = std::move(users); }
  [[nodiscard]] const std::shared_ptr<const acl::Users>& users() const { return users_; }
  // A request could not be queued: EXEC will refuse the others too, which are forgotten.
  void spoil();

  // Held until the transaction is over, however it ends.
  void keep(std::shared_ptr<void> something) { kept_.push_back(std::move(something)); }

  [[nodiscard]] bool is_spoiled() const { return is_spoiled_; }
  // Of all keys; nothing: there are none yet.
  [[nodiscard]] std::optional<slots::SlotId> slot() const { return slot_; }
  [[nodiscard]] const std::vector<ScriptId>& scripts() const { return scripts_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t size_at_node() const { return count_ - own_.size(); }
  [[nodiscard]] bool is_kept_back_by(const Fence& fence) const {
    return !is_spoiled_ && (writes_any_key_ || (slot_ && fence.slots.contains(*slot_)));
  }

  // A script or a function whose source or flags say whether it may write.
  struct Call {
    MayWrite may_write;
    std::string name;
  };
  // For a pause: whether something in it does, whatever is called.
  [[nodiscard]] bool may_write() const { return may_write_; }
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }

  struct Own {
    std::size_t place;  // Among all that was queued.
    std::string text;   // The request, and once it is answered, the reply.
    bool is_answered = false;
  };
  [[nodiscard]] std::vector<Own>& own() { return own_; }
  // MULTI, the requests for the node, EXEC.
  [[nodiscard]] std::string take_bytes();
  // Calls visit(bytes) for each request in its place; `bytes` begins with it, and what visit
  // returns is its size.
  template <class Visit>
  void for_each_request(Visit visit) const {
    std::string_view rest = bytes_;
    rest.remove_prefix(begin_);
    auto own = own_.begin();
    for (std::size_t place = 0; place < count_; ++place) {
      if (own != own_.end() && own->place == place) {
        visit(std::string_view(own->text));
        ++own;
      } else {
        rest.remove_prefix(visit(rest));
      }
    }
  }

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // Where the first request begins there.
  std::vector<Own> own_;
  std::vector<ScriptId> scripts_;
  std::vector<Call> calls_;
  std::vector<std::shared_ptr<void>> kept_;
  std::shared_ptr<const acl::Users> users_;
  std::optional<slots::SlotId> slot_;
  std::size_t bytes_of_own_ = 0;
  std::size_t count_ = 0;
  bool writes_any_key_ = false;
  bool may_write_ = false;
  bool is_spoiled_ = false;
  bool logs_in_ = false;
};

// EXEC's reply with the proxy's own answers put into their places; a reply that is no array of the
// node's part stays as it is. `size`: of both parts together.
[[nodiscard]] std::string with_own_answers(std::string_view reply, std::size_t size,
                                           const std::vector<Transaction::Own>& own);

// MULTI and what follows it on its way through a node, in one piece with one ticket. That comes
// back to the connection until the last reply, since each request has one; the client gets one.
//
// Owns itself; gone after the last reply, whether the session still lives or not.
class MultiReplies : public backend::TicketOwner, public backend::PendingReply {
 public:
  // `bytes`: `loads` requests of the proxy's own, whose replies are dropped, MULTI, `requests`
  // requests, and the one that ends it.
  void send(backend::BackendConnection& connection, slots::SlotId slot, std::string_view bytes,
            std::size_t loads, std::size_t requests);

  void on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_lost(backend::Ticket* ticket, std::string_view error) override;
  void on_retiring(backend::Ticket* ticket) override;
  void abandon() override { session_ = nullptr; }

 protected:
  // Takes the next place in the session's order.
  explicit MultiReplies(ClientSession& session);
  virtual ~MultiReplies() = default;

  // Whether the last reply is the client's as it is, of whatever size.
  [[nodiscard]] virtual bool is_last_reply_its_own() const = 0;
  // The client's reply, made of the last one; not called for a session that has left.
  [[nodiscard]] virtual std::string final_reply(std::string_view last, const std::string& node) = 0;
  // The same after the connection was lost, as the error says.
  [[nodiscard]] virtual std::string lost_reply(std::string_view error) = 0;

  [[nodiscard]] ClientSession& session() { return *session_; }
  [[nodiscard]] std::size_t largest_reply() const { return core_.table->limits.merged_reply; }
  [[nodiscard]] bool is_too_large() const { return too_large_; }
  // The first error before the last reply, without '-' and CRLF.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  void swallow(backend::Ticket* ticket, std::string_view reply);
  void hand_over(backend::Ticket* ticket);
  void settle_place(backend::Ticket* ticket);

  WorkerCore& core_;
  ClientSession* session_;  // Null: the client has left.
  backend::Ticket* place_;
  std::size_t loads_ = 0;
  std::size_t to_swallow_ = 0;  // Replies before the last one.
  bool too_large_ = false;
  std::string refusal_;
};

// A whole transaction. EXEC's reply is passed on as any other, unless the proxy has to change it.
class ExecReplies final : public MultiReplies {
 public:
  ExecReplies(ClientSession& session, std::size_t size, std::vector<Transaction::Own> answered)
      : MultiReplies(session), size_(size), answered_(std::move(answered)) {}

 private:
  [[nodiscard]] bool is_last_reply_its_own() const override {
    return answered_.empty() && refusal().empty();
  }
  [[nodiscard]] std::string final_reply(std::string_view last, const std::string& node) override;
  [[nodiscard]] std::string lost_reply(std::string_view error) override {
    return std::string(error);
  }

  std::size_t size_;
  std::vector<Transaction::Own> answered_;
};

// A command that is queued while its node may refuse it (backend/refusals.h): queued there as well,
// for its answer alone, and discarded. The reply is QUEUED, or the refusal, which spoils the
// transaction.
class QueueReplies final : public MultiReplies {
 public:
  [[nodiscard]] static bool are_needed(ClientSession& session, slots::NodeIndex node);

  // Holds the session until the node has answered.
  explicit QueueReplies(ClientSession& session);
  void ask(backend::BackendConnection& connection, slots::SlotId slot, std::string_view request);

 private:
  [[nodiscard]] bool is_last_reply_its_own() const override { return false; }
  [[nodiscard]] std::string final_reply(std::string_view last, const std::string& node) override;
  [[nodiscard]] std::string lost_reply(std::string_view error) override;
};

}  // namespace proxy::session
