// Ticket: one request's place in a backend connection's queue, and its reply's place in a session's
// order.
//
// Every reply of a node pops exactly one ticket. A client that vanishes leaves its tickets without
// an owner: their replies are read and dropped, so nobody else ever gets them.
//
// Thread:  one worker's.
// Owns:    a ticket belongs to its connection from submit() until on_reply() or on_lost(), then to
// its owner, who gives
//          it back to the pool. A ticket without an owner is the connection's to free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "proxy/net/byte_chain.h"
#include "slots/slot.h"

namespace proxy::backend {

struct Ticket;
class BackendConnection;

// Who waits for replies. Calls come from the connection, never from inside submit().
class TicketOwner {
 public:
  // The next bytes of a reply that is not whole yet; never of an error.
  virtual void on_part(Ticket* ticket, const char* bytes, std::size_t count) = 0;
  // The reply's last piece; all of it when no part came before.
  virtual void on_reply(Ticket* ticket, const char* bytes, std::size_t count) = 0;
  // No reply will come, or what came is no business of a client's. `error`: a whole error reply,
  // '-' and CRLF included, which names the node.
  virtual void on_lost(Ticket* ticket, std::string_view error) = 0;
  // The ticket's connection takes no new requests; later ones of the same client must wait for this
  // reply, else they could overtake it on another connection.
  virtual void on_retiring(Ticket* ticket) = 0;

 protected:
  ~TicketOwner() = default;
};

// What fills a place in a session's order other than a node's reply (a merge, an answer from
// another thread).
class PendingReply {
 public:
  virtual void abandon() = 0;  // The session is gone: the place may not be touched any more.

 protected:
  ~PendingReply() = default;
};

// A client's pipeline keeps thousands of tickets under way, more than the processor's first cache
// holds. What every request needs therefore lies in the first of two cache lines; the second is
// touched only when a reply has to wait.
struct alignas(64) Ticket {
  static constexpr std::size_t kInline = 56;

  TicketOwner* owner = nullptr;
  Ticket* next_in_connection = nullptr;
  Ticket* next_in_session = nullptr;
  BackendConnection* connection = nullptr;  // That answers, or answered it.
  PendingReply* pending = nullptr;          // Null: the reply comes from a connection.
  std::uint64_t reply_bytes = 0;            // Seen so far.
  std::uint32_t request_bytes = 0;
  std::uint32_t submitted_ms = 0;  // Low bits of the loop's time.
  slots::SlotId slot = 0;
  bool done : 1 = false;
  bool retiring : 1 = false;
  bool begun : 1 = false;   // A part of the reply is on its way to the client.
  bool silent : 1 = false;  // The client does not want this reply (CLIENT REPLY).
  // The proxy's own: nobody waits for the reply, but others count on its effect.
  bool sent_ahead : 1 = false;
  bool large : 1 = false;  // A streamed request, on a connection of its own.
  bool once : 1 =
      false;  // Means this process of the server: never sent again on another connection.
  bool runs_script : 1 = false;  // May take as long as it likes, and what is behind it waits.
  bool tracked : 1 = false;      // A request of a client that tracks; its session knows the keys.

  Ticket() : inline_{} {}

  // Reply bytes that can't be passed on yet.
  void store(net::BlockPool& pool, const char* from, std::size_t count) {
    if (!is_chained_ && inline_size_ + count <= kInline) {
      std::memcpy(inline_ + inline_size_, from, count);
      inline_size_ = static_cast<std::uint8_t>(inline_size_ + count);
    } else {
      store_in_chain(pool, from, count);
    }
  }
  void drop_stored(net::BlockPool& pool) {
    if (is_chained_) [[unlikely]]
      chain_.release(pool);
    is_chained_ = false;
    inline_size_ = 0;
  }
  [[nodiscard]] std::size_t stored_bytes() const {
    return is_chained_ ? chain_.size() : inline_size_;
  }
  [[nodiscard]] std::string_view view(std::string& scratch) const {
    return is_chained_ ? chain_.contiguous(scratch) : inline_bytes();
  }
  // Where they lie: in the chain, or inline when that is null.
  [[nodiscard]] net::ByteChain* chain() { return is_chained_ ? &chain_ : nullptr; }
  [[nodiscard]] std::string_view inline_bytes() const { return {inline_, inline_size_}; }

 private:
  void store_in_chain(net::BlockPool& pool, const char* from, std::size_t count);

  bool is_chained_ : 1 = false;
  std::uint8_t inline_size_ = 0;
  // Private like the union, which clang-tidy does not see.
  // NOLINTBEGIN(readability-identifier-naming)
  union {
    char inline_[kInline];
    net::ByteChain chain_;
  };
  // NOLINTEND(readability-identifier-naming)
};
static_assert(sizeof(Ticket) == 128);

class TicketPool {
 public:
  Ticket* take() { return pool_.take(); }
  // Requires drop_stored() before.
  void give(Ticket* ticket) {
    ticket->owner = nullptr;
    ticket->next_in_session = nullptr;
    ticket->pending = nullptr;
    ticket->reply_bytes = 0;
    ticket->begun = ticket->done = ticket->retiring = ticket->silent = ticket->sent_ahead =
        ticket->large = ticket->once = ticket->runs_script = ticket->tracked = false;
    pool_.give(ticket);
  }
  void trim() { pool_.trim(); }  // See SlabPool.
  [[nodiscard]] std::size_t slabs() const { return pool_.slabs(); }

 private:
  net::SlabPool<Ticket, sizeof(Ticket), &Ticket::next_in_connection> pool_;
};

}  // namespace proxy::backend
