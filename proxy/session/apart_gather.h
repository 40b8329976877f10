// ApartGather: requests to nodes on connections of their own, beside those that all sessions share:
// for what must not wait behind a script that runs (SCRIPT KILL), and for long work that others
// must not wait behind (reading a slot).
//
// Like Gather, but it works in rounds: the replies of one are gone when the next is asked for. The
// session's next request waits until it is through. Its earlier ones are overtaken, but for those
// that ask_in_order() comes behind.
//
// Thread:  one worker's. It destroys itself after the reply, whether the session still lives or
//          not.
// Limits:  limits.large_connections per node; beyond that the reply is an error that says so. The
//          replies of a round together hold limits.merged_reply bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/session/client_session.h"

namespace proxy::session {

class ApartGather : public backend::TicketOwner, public backend::PendingReply {
 public:
  ApartGather(const ApartGather&) = delete;
  ApartGather& operator=(const ApartGather&) = delete;

  // Required once, after the last ask() of the first round; the ApartGather may be gone when it
  // returns.
  void asked_all();

  void on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) final;
  void on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) final;
  void on_lost(backend::Ticket* ticket, std::string_view error) final;
  void on_retiring(backend::Ticket*) final {}
  void abandon() final { session_ = nullptr; }

 protected:
  explicit ApartGather(ClientSession& session);
  virtual ~ApartGather();

  // A request of this round. `slot` is for error texts. In finish(), the node that was asked last
  // is asked on the same connection again.
  void ask(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes);

  // The same over the connection that all sessions share: its reply says that the node has executed
  // what this session asked it before.
  void ask_in_order(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes);

  // `replies`: whole RESP replies, in the order asked. Writes the reply, RESP, into the empty
  // `out`. False: it asked for another round instead. Not called for a session that has left.
  virtual bool finish(const std::vector<std::string>& replies, std::string& out) = 0;

  [[nodiscard]] ClientSession& session() { return *session_; }

 private:
  void end_fragment(backend::BackendConnection* connection);
  void complete();
  std::vector<std::string> take_replies();
  backend::Ticket* add_ticket(slots::SlotId slot);
  void submit(backend::BackendConnection* connection, backend::Ticket* ticket,
              std::string_view bytes);
  void refuse(backend::Ticket* ticket, std::string_view error);

  WorkerCore& core_;
  ClientSession* session_;  // Null: the client has left.
  backend::Ticket* place_;
  backend::Channel channel_;
  bool asked_all_ = false;
  bool too_large_ = false;
  std::size_t waiting_ = 0;
  std::size_t bytes_ = 0;
  backend::BackendConnection* connection_ =
      nullptr;  // Inside finish(): the one that answered last, if it can go on.
  std::vector<backend::Ticket*> tickets_;  // Of this round.
};

}  // namespace proxy::session
