// CLIENT PAUSE and CLIENT UNPAUSE.
//
// They answer once every worker has taken notice: what is sent to any of them after the answer
// waits, or goes on. What a node was sent before is not waited for.

#include "proxy/session/answer_of_all.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

namespace {

constexpr std::string_view kOk = "+OK\r\n";

// Every worker's turn ends: a batch of requests that it is executing now is looked at as before.
void tell_all(ClientSession& session, bool is_over) {
  auto notice = [is_over](Sessions& sessions) {
    if (is_over) sessions.paused().release();
    return std::string();
  };
  if (session.is_capturing()) {  // The transaction's reply does not wait for it.
    session.hold(Hold::Answer);  // What the client has sent behind EXEC does.
    Sessions& sessions = session.sessions();
    sessions.others().ask_all(notice,
                              [&sessions, id = session.id()](const std::vector<std::string>&) {
                                if (ClientSession* asking = sessions.find(id))
                                  asking->release(Hold::Answer);
                              });
    return session.reply(kOk);
  }
  auto answer = AnswerOfAll::of(session);
  session.sessions().others().ask_all(notice, [answer](const std::vector<std::string>&) {
    if (answer->session() != nullptr) answer->fill(kOk);
  });
}

}  // namespace

void client_pause(ClientSession& session, const Request& request) {
  const auto wanted = parse_pause(request.args);
  if (!wanted) return session.reply_error(wanted.error().message);
  session.sessions().paused().pause().begin(wanted->mode, session.core().now_ms(),
                                            wanted->duration_ms);
  tell_all(session, false);
}

void client_unpause(ClientSession& session, const Request&) {
  session.sessions().paused().pause().end();
  tell_all(session, true);
}

}  // namespace proxy::session
