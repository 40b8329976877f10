#include "proxy/session/paused_clients.h"

#include <algorithm>
#include <utility>

#include "proxy/backend/backends.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/session/client_session.h"
#include "proxy/session/fence_rules.h"
#include "proxy/session/function_flags.h"
#include "proxy/session/script_cache.h"
#include "proxy/session/transaction.h"

namespace proxy::session {

using resp::CommandId;

// FUNCTION LIST on its way; gone after the answer. Every connection is closed before its worker's
// PausedClients go.
class PausedClients::FunctionQuestion final : public backend::TicketOwner {
 public:
  FunctionQuestion(PausedClients& asker, std::uint64_t pause) : asker_(asker), pause_(pause) {}
  virtual ~FunctionQuestion() = default;

  void send(backend::BackendConnection& connection) {
    std::string request;
    resp::append_request(request, {"FUNCTION", "LIST"});
    backend::Ticket* ticket = asker_.core_.tickets.take();
    ticket->owner = this;
    ticket->slot = slots::kNoSlot;
    connection.submit(ticket, request.data(), request.size());
  }

  void on_part(backend::Ticket* /*ticket*/, const char* bytes, std::size_t count) override {
    if (reply_.size() + count <= asker_.core_.table->limits.merged_reply)
      reply_.append(bytes, count);
  }
  void on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) override {
    on_part(ticket, bytes, count);
    end(ticket);
  }
  void on_lost(backend::Ticket* ticket, std::string_view /*error*/) override {
    reply_.clear();
    end(ticket);
  }
  void on_retiring(backend::Ticket* /*ticket*/) override {}

 private:
  void end(backend::Ticket* ticket) {
    asker_.core_.tickets.give(ticket);
    asker_.on_functions(pause_, reply_);
    delete this;
  }

  PausedClients& asker_;
  std::uint64_t pause_;
  std::string reply_;
};

bool PausedClients::has_to_wait(ClientSession& session, resp::Args args) {
  const PauseMode mode = pause_.mode(core_.now_ms());
  if (mode == PauseMode::None) return false;
  const resp::CommandSpec* spec = resp::find_command(*core_.table->commands, args);
  if (spec == nullptr || !spec->arity_ok(args.size())) return false;
  if (!session.is_authenticated() && !spec->has(resp::CommandFlag::NoAuth)) return false;
  const Transaction* transaction = session.transaction();
  if (transaction != nullptr && spec->has(resp::CommandFlag::NoMulti)) return false;
  if (mode == PauseMode::All) return true;
  if (transaction == nullptr) {
    const std::string_view name = args.size() > 1 ? args[1] : std::string_view();
    return may_write_now(may_write(*spec, args), name);
  }
  return spec->id == CommandId::Exec && !transaction->is_spoiled() && may_write_now(*transaction);
}

bool PausedClients::has_to_wait(const resp::CommandSpec& spec) const {
  const PauseMode mode = pause_.mode(core_.now_ms());
  return mode == PauseMode::All || (mode == PauseMode::Write && may_write_any_key(spec));
}

bool PausedClients::may_write_now(MayWrite may, std::string_view name) {
  switch (may) {
    case MayWrite::No:
      return false;
    case MayWrite::Yes:
      return true;
    case MayWrite::SaysScript:
      return script_may_write(name);
    case MayWrite::SaysFunction:
      return function_may_write(name);
  }
  return true;
}

bool PausedClients::may_write_now(const Transaction& transaction) {
  return transaction.may_write() ||
         std::ranges::any_of(transaction.calls(), [this](const Transaction::Call& call) {
           return may_write_now(call.may_write, call.name);
         });
}

bool PausedClients::script_may_write(std::string_view name) const {
  const auto id = parse_script_id(name);
  const ScriptSource source = id ? core_.scripts->find(*id) : nullptr;
  return source == nullptr || !declares_no_writes(*source);
}

bool PausedClients::function_may_write(std::string_view name) {
  if (told_in_ == pause_.count()) return !read_only_functions_.contains(std::string(name));
  if (asked_in_ != pause_.count()) ask_for_functions();
  return true;
}

void PausedClients::ask_for_functions() {
  asked_in_ = pause_.count();
  const std::string* why_not = nullptr;
  for (std::size_t i = 0; i < core_.backends->count(); ++i) {
    backend::NodeBackend& node = core_.backends->node(static_cast<slots::NodeIndex>(i));
    backend::BackendConnection* connection =
        node.accepting(backend::Channel(backend::Protocol::Resp2), why_not);
    if (connection == nullptr) continue;
    return (new FunctionQuestion(*this, asked_in_))->send(*connection);
  }
}

void PausedClients::on_functions(std::uint64_t pause, std::string_view reply) {
  if (pause != pause_.count()) return;
  told_in_ = pause;
  read_only_functions_ = session::read_only_functions(reply);
  release();
}

void PausedClients::add(ClientSession* session) {
  sessions_.push_back(session);
  core_.stats.blocked_clients.add();
}

void PausedClients::remove(ClientSession* session) {
  std::ranges::replace(sessions_, session, static_cast<ClientSession*>(nullptr));
  core_.stats.blocked_clients.subtract(1);
}

void PausedClients::release() {
  for (ClientSession* session : std::exchange(sessions_, {})) {
    if (session == nullptr) continue;
    core_.stats.blocked_clients.subtract(1);
    session->on_pause_ended();
  }
}

void PausedClients::tick() {
  const std::uint64_t now = core_.now_ms();
  if (pause_.mode(now) != PauseMode::None) return;
  pause_.forget_if_over(now);
  if (!sessions_.empty()) release();
}

}  // namespace proxy::session
