// Monitors: what clients ask of this process, as it passes, for clients that said MONITOR.
//
// While nobody monitors nothing is looked at. As soon as somebody does, on whichever worker, every
// session of every worker takes the slow way, which shows each request before it is executed. A
// worker's lines of a turn go to all workers together.
//
// What scripts call is seen at the nodes alone: see ScriptCalls.
//
// Thread:  one worker's.
// Limits:  limits.unread_messages per client that monitors; beyond it it is closed.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "proxy/session/client_session.h"
#include "proxy/session/script_calls.h"

namespace proxy::session {

class Sessions;

class Monitors final : public Flushable {
 public:
  Monitors(WorkerCore& core, Sessions& sessions)
      : core_(core),
        sessions_(sessions),
        script_calls_(core, [this](std::string_view line) { hand_out(line); }) {}
  Monitors(const Monitors&) = delete;
  Monitors& operator=(const Monitors&) = delete;

  // Whether anybody does, on whichever worker.
  [[nodiscard]] bool has_any() const { return of_all_workers_ > 0; }
  [[nodiscard]] bool contains(const ClientSession& session) const {
    return mine_.contains(const_cast<ClientSession*>(&session));
  }

  // Answers MONITOR. The session gets what is asked behind the answer.
  void begin(ClientSession& session);
  // It gets no more, if it got any.
  void end(ClientSession& session);

  // The request is about to be executed, or EXEC of what was queued. Not for one that is put off:
  // forget() takes it back.
  void show(const ClientSession& session, const Request& request);
  void forget() { lines_.resize(shown_before_); }
  // Of a streamed request the beginning is known.
  void show_beginning(const ClientSession& session, const resp::CommandSpec& spec, resp::Args args);

  void tick();                           // About ten times a second.
  void close() { script_calls_.end(); }  // The worker ends.

  void flush() override;

 private:
  void change(int by);
  void end_one();
  void hand_out(std::string_view lines);
  void add(const ClientSession& session, const resp::CommandSpec& spec, resp::Args args);
  void add_queued(const ClientSession& session);

  WorkerCore& core_;
  Sessions& sessions_;
  int of_all_workers_ = 0;
  std::unordered_set<ClientSession*> mine_;
  std::string lines_;  // Of this turn.
  std::size_t shown_before_ = 0;
  bool is_dirty_ = false;
  ScriptCalls script_calls_;
};

}  // namespace proxy::session
