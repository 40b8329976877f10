// Gather: one request of a client that asks several nodes, and the one reply made of their replies.
//
// A subclass sends its fragments, says sent_all(), and writes the reply in finish() once the last
// has answered. It destroys itself then, whether the session still lives or not. One that has
// nobody to ask (an endpoint whose node has left the map) answers just that.
//
// Thread:  one worker's.
// Limits:  the replies together hold limits.merged_reply bytes; beyond that they are dropped and
// is_too_large() says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/session/client_session.h"

namespace proxy::session {

class Gather : public backend::TicketOwner, public backend::PendingReply {
 public:
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  // A request to a node; `bytes` are copied. `slot` is for error texts. False: a node that can't be
  // used answers at once with its error.
  bool send(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes);
  // Required once, after the last send() of the beginning; the Gather may be gone when it returns.
  // finish() may send() more and return false: then it is called again after those.
  void sent_all();

  void on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) final;
  void on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) final;
  void on_lost(backend::Ticket* ticket, std::string_view error) final;
  void on_retiring(backend::Ticket* ticket) final;
  void abandon() final { session_ = nullptr; }

 protected:
  struct Fragment {
    slots::NodeIndex node = 0;  // In the snapshot under which it was sent.
    slots::SlotId slot = 0;
    std::string_view reply;  // One whole RESP reply; valid in finish().
    std::string said_by;     // The node whose error the reply is; empty: no error, or the proxy's.

    [[nodiscard]] bool is_error() const { return reply.starts_with('-'); }
  };

  // Takes the next place in the session's order.
  explicit Gather(ClientSession& session);
  virtual ~Gather();

  // Writes the reply, RESP, into the empty `out`. False: it sent more fragments instead. Not called
  // for a session that has left.
  virtual bool finish(std::string& out) = 0;

  [[nodiscard]] const std::vector<Fragment>& fragments() const { return fragments_; }
  // Before the first send(): another database than the session's. What the session sends before and
  // after it goes over other connections then.
  void use_database(unsigned database) { channel_ = channel_.at(database); }
  [[nodiscard]] bool is_too_large() const { return too_large_; }
  // Of some fragment nobody knows whether its node has executed it, or will.
  [[nodiscard]] bool is_any_lost() const { return is_any_lost_; }
  [[nodiscard]] bool resp3() const { return resp3_; }
  [[nodiscard]] ClientSession& session() { return *session_; }
  // The error of a fragment with the node's name, as a whole RESP error: "-READONLY ... (node
  // inv-bcn, slot 5)".
  [[nodiscard]] std::string named_error(const Fragment& fragment) const;
  // Whether the client has sent requests behind this one: what is done again now would come after
  // them.
  [[nodiscard]] bool has_followers() const { return place_->next_in_session != nullptr; }
  void write_too_large(std::string& out, std::string_view advice) const;

 private:
  void end_fragment(backend::Ticket* ticket);
  void add_bytes(std::size_t count);
  void complete();

  WorkerCore& core_;
  ClientSession* session_;  // Null: the client has left.
  backend::Ticket* place_;
  backend::Channel channel_;
  bool resp3_;
  bool all_sent_ = false;
  bool too_large_ = false;
  bool is_any_lost_ = false;
  std::size_t waiting_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Fragment> fragments_;
  std::vector<backend::Ticket*> tickets_;  // Beside fragments_.
  std::vector<std::string> scratch_;       // Replies that lie in several blocks, in one piece.
};

}  // namespace proxy::session
