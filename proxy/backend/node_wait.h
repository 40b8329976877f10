// NodeWait: one request that may wait at a node for as long as its client likes (BLPOP, WAIT), on a
// connection of its own.
//
// A wait that nobody wants any more is taken back: CLIENT UNBLOCK goes over the connection that all
// share, and the wait's own reply is read. The server has then either given an element, which is
// passed on, or it gives none any more. To close the connection instead would lose what was popped
// for it a moment before. The server may meet the UNBLOCK before the request itself, and answer
// that nobody waits: it is sent again until the wait has its reply. And it may come late and mean
// whoever waits on that connection then: so the connection serves the next request only once both
// replies are in.
//
// Thread:  one worker's.
// Owns:    itself; gone once all its replies are in.
// Limits:  limits.blocking_connections per worker and node.
// Errors:  a connection that is lost ends the wait with the error for the client; the request is
//          never sent again on another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/backend/backends.h"

namespace proxy::backend {

// How the server answers a wait that is taken back.
enum class UnblockReply : std::uint8_t {
  Timeout,  // As if its time were over.
  Error,    // -UNBLOCKED.
};

inline constexpr std::string_view kUnblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";

struct WaitRequest {
  std::string_view ahead;  // A request before it, whose reply is dropped; empty: none.
  std::string_view bytes;
  slots::SlotId slot = slots::kNoSlot;  // Of all its keys.
  std::uint64_t until_ms = 0;           // On the loop's clock, as it says itself; kForever.
};

class NodeWait final : public TicketOwner, public PinHolder, public StreamSource {
 public:
  static constexpr std::uint64_t kForever = ~std::uint64_t{0};
  static constexpr std::size_t kAnswerMax = 1024;

  class Waiter {
   public:
    // All of it has left for the node, after is_sent() was false.
    virtual void on_wait_begun() = 0;
    // The next bytes of a reply that is not whole yet. The ticket stays the wait's.
    virtual void on_wait_part(Ticket& ticket, const char* bytes, std::size_t count) = 0;
    // One of these is the last call. The reply's last piece:
    virtual void on_wait_reply(Ticket& ticket, const char* bytes, std::size_t count) = 0;
    // A whole error, which names the node:
    virtual void on_wait_lost(std::string_view error) = 0;
    // The node has executed nothing of it and never will. `answers`: to take_back()'s questions, in
    // their order, of each the first kAnswerMax bytes, empty if it was lost; none at all if the
    // request had not been sent.
    virtual void on_wait_taken_back(const std::vector<std::string>& answers) = 0;

   protected:
    ~Waiter() = default;
  };

  // Null: no connection is free. Requires node.unavailable() == null. Calls nobody.
  static NodeWait* begin(WorkerCore& core, NodeBackend& node, Channel channel,
                         const WaitRequest& request, Waiter& waiter);
  NodeWait(const NodeWait&) = delete;
  NodeWait& operator=(const NodeWait&) = delete;

  [[nodiscard]] const NodeBackend& node() const { return node_; }
  // The kernel has it: whatever others send from now on comes behind it.
  [[nodiscard]] bool is_sent() const;
  // The node answers the questions before it looks for the wait. With UnblockReply::Timeout what it
  // says then is a reply like any other. The second time nothing happens; the first time, the wait
  // may be gone when this returns.
  void take_back(UnblockReply reply, std::vector<std::string> questions = {});
  // Nobody waits any more: whatever comes is dropped. It may be gone when this returns.
  void leave();

  void on_part(Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_reply(Ticket* ticket, const char* bytes, std::size_t count) override;
  void on_lost(Ticket* ticket, std::string_view error) override;
  void on_retiring(Ticket*) override {}
  void on_pin_lost() override { connection_ = nullptr; }
  void on_pin_tick() override;
  void on_room() override;

 private:
  // So often the UNBLOCK is repeated at once, then ten times a second.
  static constexpr int kTriesAtOnce = 4;

  NodeWait(WorkerCore& core, NodeBackend& node, Waiter& waiter)
      : core_(core), node_(node), waiter_(&waiter) {}
  ~NodeWait() = default;

  void unblock();
  Ticket* ask(BackendConnection& connection, std::string_view bytes);
  void on_aside(Ticket* ticket, std::string_view reply);
  void end_wait();
  void end_if_done();

  WorkerCore& core_;
  NodeBackend& node_;
  Waiter* waiter_;                           // Null: has left, or has its last call.
  BackendConnection* connection_ = nullptr;  // Null: lost, or given back.
  Ticket* ticket_ = nullptr;                 // The request's; null: it has its reply.
  Ticket* unblock_ = nullptr;                // Of the UNBLOCK that is under way.
  std::size_t asides_ = 0;                   // Requests under way beside it, the UNBLOCK included.
  std::vector<std::string> questions_;       // Still to be asked.
  std::vector<std::string> answers_;
  int tries_ = 0;
  UnblockReply unblock_reply_ = UnblockReply::Error;
  bool is_begun_ = false;  // A part of the reply has come.
  bool is_wanted_back_ = false;
  bool is_cancelled_ = false;  // Before anything of it was sent.
  bool is_unblocked_ = false;  // The server has said so.
  bool is_taken_back_ = false;
};

}  // namespace proxy::backend
