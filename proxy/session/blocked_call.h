// BlockedCall: a request of a client that may wait at a node for as long as the client likes.
// BlockedCalls: those of one worker.
//
// The session waits too: nothing overtakes the request, and it is begun only once all before it are
// answered, since it goes over another connection.
//
// Thread:  one worker's.
// Owns:    a call owns itself, and is gone once its session has the answer or has left. What it
//          holds at nodes lives on until it is taken back there (NodeWait).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proxy/backend/node_wait.h"
#include "proxy/resp/command_spec.h"
#include "proxy/session/client_session.h"

namespace proxy::session {

// Why a call is to end, or to begin anew, before the node answers. A later one prevails.
enum class TakenBack : std::uint8_t {
  No,
  Moved,       // Its slot changes hands: it goes on at whoever owns it then.
  Unblocked,   // CLIENT UNBLOCK.
  ProxyEnds,   // SIGTERM.
  ClientLeft,  // It has ended its side, and may still read.
};

class BlockedCalls;

class BlockedCall : public backend::PendingReply {
 public:
  BlockedCall(const BlockedCall&) = delete;
  BlockedCall& operator=(const BlockedCall&) = delete;

  [[nodiscard]] slots::SlotId slot() const { return slot_; }  // Of all its keys; kNoSlot: none.
  [[nodiscard]] const resp::CommandSpec& command() const { return command_; }
  // CLIENT UNBLOCK; false: it is over already.
  [[nodiscard]] bool unblock(backend::UnblockReply reply);
  void take_back(TakenBack why);

  void abandon() final;
  // From BlockedCalls: at the turn's end, after add_due(); after a new snapshot; at a fence's end.
  virtual void run() = 0;
  virtual void follow_map() {}
  virtual void on_fence_ended() {}

 protected:
  // Takes the next place in the session's order; requires that all before it is answered.
  BlockedCall(ClientSession& session, const Request& request, slots::SlotId slot);
  ~BlockedCall();

  // The reason has changed, from `before` to why().
  virtual void on_taken_back(TakenBack before) = 0;
  // The client has vanished: it destroys itself.
  virtual void leave() = 0;

  [[nodiscard]] ClientSession& session() { return *session_; }
  [[nodiscard]] TakenBack why() const { return why_; }
  [[nodiscard]] backend::UnblockReply unblock_reply() const { return unblock_reply_; }
  void forget_why() { why_ = TakenBack::No; }
  // It has been sent: from now on it counts in INFO's blocked_clients.
  void note_begun();
  void run_at_turns_end();
  // The answer for a reason other than Moved, from the proxy itself. Requires such a reason.
  [[nodiscard]] std::string own_answer() const;
  // The same when limits.blocking_connections to the node are in use; counted.
  [[nodiscard]] std::string refused_by_limit(const backend::NodeBackend& node);
  // Answers the client, with one whole reply or nothing. Neither session nor place may be used
  // afterwards.
  void answer(std::string_view reply);
  void pass_on_part(backend::Ticket& ticket, const char* bytes, std::size_t count);
  void pass_on_reply(backend::Ticket& ticket, const char* bytes, std::size_t count);
  void pass_on_loss(std::string_view error);

 private:
  ClientSession& let_go();
  void prepare_place(const backend::Ticket& ticket);

  BlockedCalls& calls_;
  WorkerCore& core_;
  ClientSession* session_;
  backend::Ticket* place_;
  resp::CommandSpec command_;
  slots::SlotId slot_;
  std::uint32_t counted_bytes_;  // In flight.
  TakenBack why_ = TakenBack::No;
  backend::UnblockReply unblock_reply_ = backend::UnblockReply::Timeout;
  bool is_counted_ = false;  // In WorkerStats::blocked_clients.
  bool is_due_ = false;

  friend class BlockedCalls;
};

class BlockedCalls {
 public:
  // Those that wait for keys of these slots are taken back, to go on when the fence is over.
  void begin_fence(const slots::SlotSet& slots);
  void end_fence();
  // Ownership may have changed without a fence.
  void follow_map();
  [[nodiscard]] bool has_due() const { return !due_.empty(); }
  void run_due();

 private:
  friend class BlockedCall;

  std::unordered_set<BlockedCall*> calls_;
  std::vector<BlockedCall*> due_;  // Null: gone meanwhile.
};

}  // namespace proxy::session
