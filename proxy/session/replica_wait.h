// ReplicaWait: WAIT, asked of every node that the client may have written to; the answer is the
// smallest number.
//
// A server lets WAIT wait for what the same connection has caused, and that is all that had been
// written by anybody when its last command ran. So a PING goes before WAIT: everything that the
// client has had answered lies before it.
//
// Thread:  one worker's.
// Owns:    itself, see BlockedCall.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/session/blocked_call.h"

namespace proxy::session {

class ReplicaWait final : public BlockedCall {
 public:
  // Requires that all that the session has asked before is answered.
  static void begin(ClientSession& session, const Request& request) {
    (new ReplicaWait(session, request))->ask_nodes(request);
  }

  void run() override;

 private:
  // One node's part.
  struct Part final : backend::NodeWait::Waiter {
    ReplicaWait* whole = nullptr;
    backend::NodeWait* wait = nullptr;  // Null: it has answered.

    void on_wait_begun() override { whole->note_begun(); }
    void on_wait_part(backend::Ticket& ticket, const char* bytes, std::size_t count) override;
    void on_wait_reply(backend::Ticket& ticket, const char* bytes, std::size_t count) override;
    void on_wait_lost(std::string_view error) override;
    void on_wait_taken_back(const std::vector<std::string>& answers) override;
  };

  ReplicaWait(ClientSession& session, const Request& request);
  ~ReplicaWait() = default;

  void on_taken_back(TakenBack before) override;
  void leave() override;
  void ask_nodes(const Request& request);
  // Of one node; an error prevails over numbers.
  void take(std::string_view reply);
  void leave_parts();
  [[nodiscard]] std::string merged_answer() const;

  std::vector<std::unique_ptr<Part>> parts_;
  std::size_t waiting_ = 0;  // Parts.
  std::optional<std::int64_t> least_;
  std::string error_;  // The first one.
};

}  // namespace proxy::session
