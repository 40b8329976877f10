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

struct Ticket {
  static constexpr std::size_t kInline = 56;

  TicketOwner* owner = nullptr;
  Ticket* next_in_connection = nullptr;
  Ticket* next_in_session = nullptr;
  BackendConnection* connection = nullptr;  // That answers, or answered it.
  PendingReply* pending = nullptr;          // Null: the reply comes from a connection.
  std::uint64_t end_offset =
      0;  // Of the request's last byte among all bytes ever given to the connection.
  net::ByteChain stored;  // Reply bytes that can't be passed on yet; short ones lie in `bytes`.
  std::uint64_t reply_bytes = 0;  // Seen so far.
  std::uint32_t request_bytes = 0;
  std::uint32_t submitted_ms = 0;  // Low bits of the loop's time.
  slots::SlotId slot = 0;
  bool done = false;
  bool retiring = false;
  bool begun = false;   // A part of the reply is on its way to the client.
  bool silent = false;  // The client does not want this reply (CLIENT REPLY).
  bool sent_ahead =
      false;  // The proxy's own: nobody waits for the reply, but others count on its effect.
  bool large = false;  // A streamed request, on a connection of its own.
  std::uint8_t inline_size = 0;
  char bytes[kInline];

  void store(net::BlockPool& pool, const char* from, std::size_t count) {
    if (stored.empty() && inline_size + count <= kInline) {
      std::memcpy(bytes + inline_size, from, count);
      inline_size = static_cast<std::uint8_t>(inline_size + count);
      return;
    }
    if (inline_size > 0) {
      stored.append(pool, bytes, inline_size);
      inline_size = 0;
    }
    stored.append(pool, from, count);
  }
  [[nodiscard]] std::size_t stored_bytes() const { return inline_size + stored.size(); }
  [[nodiscard]] std::string_view view(std::string& scratch) const {
    return inline_size > 0 ? std::string_view(bytes, inline_size) : stored.contiguous(scratch);
  }
};

class TicketPool {
 public:
  Ticket* take() { return pool_.take(); }
  // Requires that the ticket's stored bytes are released.
  void give(Ticket* ticket) {
    ticket->owner = nullptr;
    ticket->next_in_session = nullptr;
    ticket->pending = nullptr;
    ticket->reply_bytes = 0;
    ticket->inline_size = 0;
    ticket->begun = ticket->done = ticket->retiring = ticket->silent = ticket->sent_ahead =
        ticket->large = false;
    pool_.give(ticket);
  }
  void trim() { pool_.trim(); }  // See SlabPool.
  [[nodiscard]] std::size_t slabs() const { return pool_.slabs(); }

 private:
  net::SlabPool<Ticket, sizeof(Ticket), &Ticket::next_in_connection> pool_;
};

}  // namespace proxy::backend
