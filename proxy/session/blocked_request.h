// BlockedRequest: a request with keys that may block (BLPOP, XREAD BLOCK), at its slot's owner.
//
// When a fence comes over its slot, it is taken back; the fence is acknowledged once the node's
// reply is read. An element that the node has given is the client's. Otherwise the request is begun
// anew when the fence is over, at whoever owns the slot then, with the rest of its time; or the
// endpoint answers MOVED.
//
// Thread:  one worker's.
// Owns:    itself, see BlockedCall.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/session/blocked_call.h"
#include "proxy/session/blocking_rules.h"

namespace proxy::session {

class BlockedRequest final : public BlockedCall, public backend::NodeWait::Waiter {
 public:
  // Requires that all that the session has asked before is answered.
  static void begin(ClientSession& session, const Request& request, slots::SlotId slot) {
    (new BlockedRequest(session, request, slot))->issue();
  }

  void run() override;
  void follow_map() override;
  void on_fence_ended() override;

  void on_wait_begun() override { note_begun(); }
  void on_wait_part(backend::Ticket& ticket, const char* bytes, std::size_t count) override {
    pass_on_part(ticket, bytes, count);
  }
  void on_wait_reply(backend::Ticket& ticket, const char* bytes, std::size_t count) override;
  void on_wait_lost(std::string_view error) override;
  void on_wait_taken_back(const std::vector<std::string>& answers) override;

 private:
  BlockedRequest(ClientSession& session, const Request& request, slots::SlotId slot);
  ~BlockedRequest() = default;

  void on_taken_back(TakenBack before) override;
  void leave() override;
  void issue();
  // True: it is over.
  bool begin_wait(slots::NodeIndex owner);
  void finish(std::string_view reply);
  [[nodiscard]] std::vector<std::string> questions() const;

  std::string bytes_;                         // The request; its time is that of the beginning.
  std::optional<std::uint64_t> deadline_ms_;  // On the loop's clock; nothing: it waits for ever.
  std::vector<IdOfNow> ids_of_now_;           // Of which the node was asked what "$" means there.
  backend::NodeWait* wait_ = nullptr;         // Null: none is under way.
  bool is_anew_ = false;                      // It has been begun before.
  bool is_parked_ = false;                    // Until a fence is over.
  bool is_lost_ = false;                      // Nobody knows any more what it waited for.
};

}  // namespace proxy::session
