// AnswerOfAll: a reply that the workers make together (see OtherWorkers::ask_all()).
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "proxy/session/client_session.h"

namespace proxy::session {

// It holds itself until it is filled or abandoned: a worker that ends drops what it was asked,
// while the session still has the reply in its list. Later requests of the session wait.
class AnswerOfAll final : public backend::PendingReply {
 public:
  static std::shared_ptr<AnswerOfAll> of(ClientSession& session) {
    std::shared_ptr<AnswerOfAll> answer(new AnswerOfAll(session));
    answer->self_ = answer;
    return answer;
  }
  void abandon() override {
    session_ = nullptr;
    auto last = std::exchange(self_, nullptr);
  }
  // The session, or null when it has left meanwhile.
  [[nodiscard]] ClientSession* session() { return session_; }
  void fill(std::string_view reply) {
    auto last = std::exchange(self_, nullptr);
    ClientSession& session = *std::exchange(session_, nullptr);
    session.fill(place_, reply);
    session.release(Hold::Answer);
  }

 private:
  explicit AnswerOfAll(ClientSession& session)
      : session_(&session), place_(session.push_pending(this)) {
    session.hold(Hold::Answer);
  }

  ClientSession* session_;
  backend::Ticket* place_;
  std::shared_ptr<AnswerOfAll> self_;
};

}  // namespace proxy::session
