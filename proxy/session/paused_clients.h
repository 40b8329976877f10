// PausedClients: the sessions of one worker that CLIENT PAUSE holds.
//
// A request that has to wait stays in its session's input, which is not read from meanwhile; when
// the pause is over, the requests are looked at again in the order in which they came.
//
// Whether an FCALL may write, the nodes know: the first one of a pause asks for all functions, and
// is held until the answer has come. They can't change meanwhile, since FUNCTION LOAD is held too.
//
// Thread:  one worker's.
// Errors:  none: of a function that nobody can tell of it is assumed that it writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "proxy/session/client_pause.h"
#include "proxy/worker_core.h"

namespace proxy::session {

class ClientSession;
class Transaction;

class PausedClients {
 public:
  PausedClients(WorkerCore& core, ClientPause& pause) : core_(core), pause_(pause) {}
  PausedClients(const PausedClients&) = delete;
  PausedClients& operator=(const PausedClients&) = delete;

  [[nodiscard]] ClientPause& pause() { return pause_; }
  [[nodiscard]] bool is_pause_set() const { return pause_.is_set(); }
  // Whether the session's next request has to wait now. What is wrong with a request (its name,
  // its arity, no AUTH before it) the client is told at once; what is queued in a transaction waits
  // only with the EXEC, unless all is paused.
  [[nodiscard]] bool has_to_wait(ClientSession& session, resp::Args args);
  // The same for a request of which only the command is known yet.
  [[nodiscard]] bool has_to_wait(const resp::CommandSpec& spec) const;

  void add(ClientSession* session);
  void remove(ClientSession* session);
  // The pause is over, or has changed: all are looked at again.
  void release();
  void tick();  // About ten times a second: that a pause ends by itself.

 private:
  class FunctionQuestion;

  [[nodiscard]] bool may_write_now(MayWrite may, std::string_view name);
  [[nodiscard]] bool may_write_now(const Transaction& transaction);
  [[nodiscard]] bool script_may_write(std::string_view name) const;
  [[nodiscard]] bool function_may_write(std::string_view name);
  void ask_for_functions();
  void on_functions(std::uint64_t pause, std::string_view reply);

  WorkerCore& core_;
  ClientPause& pause_;
  std::vector<ClientSession*> sessions_;  // Null: has left.
  // As of which pause the functions were asked for, and told.
  std::uint64_t asked_in_ = 0;
  std::uint64_t told_in_ = 0;
  std::unordered_set<std::string> read_only_functions_;
};

}  // namespace proxy::session
