#include "proxy/session/blocked_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/resp/reply_writer.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

BlockedCall::BlockedCall(ClientSession& session, const Request& request, slots::SlotId slot)
    : calls_(session.sessions().blocked_calls()),
      core_(session.core()),
      session_(&session),
      place_(session.push_pending(this)),
      command_(*request.spec),
      slot_(slot),
      counted_bytes_(static_cast<std::uint32_t>(request.bytes.size())) {
  session.count_in_flight(counted_bytes_);
  session.hold(Hold::Stream);
  session.set_blocked_call(this);
  calls_.calls_.insert(this);
}

BlockedCall::~BlockedCall() {
  calls_.calls_.erase(this);
  if (is_due_) std::ranges::replace(calls_.due_, this, static_cast<BlockedCall*>(nullptr));
  if (is_counted_) core_.stats.blocked_clients.subtract(1);
}

void BlockedCall::note_begun() {
  if (std::exchange(is_counted_, true)) return;
  core_.stats.blocked_clients.add();
}

void BlockedCall::run_at_turns_end() {
  if (std::exchange(is_due_, true)) return;
  calls_.due_.push_back(this);
}

bool BlockedCall::unblock(backend::UnblockReply reply) {
  if (why_ >= TakenBack::Unblocked) return false;
  unblock_reply_ = reply;
  take_back(TakenBack::Unblocked);
  return true;
}

void BlockedCall::take_back(TakenBack why) {
  if (why <= why_) return;
  on_taken_back(std::exchange(why_, why));
}

std::string BlockedCall::own_answer() const {
  switch (why_) {
    case TakenBack::Unblocked:
      if (unblock_reply_ == backend::UnblockReply::Error)
        return std::string(backend::kUnblocked) + "\r\n";
      return std::string(resp::null_array(session_->resp3()));
    case TakenBack::ProxyEnds:
      return "-UNBLOCKED the proxy is shutting down; nothing was taken\r\n";
    default:
      return {};
  }
}

std::string BlockedCall::refused_by_limit(const backend::NodeBackend& node) {
  core_.stats.errors.add();
  core_.stats.blocking_refused.add();
  return fmt::format("-{}\r\n",
                     resp::errors::connections_in_use("blocking_connections", node.route().name));
}

ClientSession& BlockedCall::let_go() {
  session_->set_blocked_call(nullptr);
  return *std::exchange(session_, nullptr);
}

void BlockedCall::abandon() {
  let_go();
  leave();
}

void BlockedCall::answer(std::string_view reply) {
  ClientSession& session = let_go();
  session.uncount_in_flight(counted_bytes_, reply.size());
  session.fill(place_, reply);
}

void BlockedCall::prepare_place(const backend::Ticket& ticket) {
  place_->connection = ticket.connection;
  place_->slot = slot_;
  place_->request_bytes = counted_bytes_;
  place_->reply_bytes = ticket.reply_bytes;
}

void BlockedCall::pass_on_part(backend::Ticket& ticket, const char* bytes, std::size_t count) {
  prepare_place(ticket);
  session_->on_part(place_, bytes, count);
}

void BlockedCall::pass_on_reply(backend::Ticket& ticket, const char* bytes, std::size_t count) {
  prepare_place(ticket);
  place_->pending = nullptr;
  let_go().on_reply(place_, bytes, count);
}

void BlockedCall::pass_on_loss(std::string_view error) {
  place_->request_bytes = counted_bytes_;
  place_->pending = nullptr;
  let_go().on_lost(place_, error);
}

void BlockedCalls::begin_fence(const slots::SlotSet& slots) {
  for (BlockedCall* call : calls_) {
    if (call->slot() != slots::kNoSlot && slots.contains(call->slot()))
      call->take_back(TakenBack::Moved);
  }
}

void BlockedCalls::end_fence() {
  for (BlockedCall* call : calls_) call->on_fence_ended();
}

void BlockedCalls::follow_map() {
  for (BlockedCall* call : calls_) call->follow_map();
}

void BlockedCalls::run_due() {
  // The list may grow while it is worked on.
  for (std::size_t i = 0; i < due_.size(); ++i) {
    BlockedCall* call = std::exchange(due_[i], nullptr);
    if (call == nullptr) continue;
    call->is_due_ = false;
    call->run();
  }
  due_.clear();
}

}  // namespace proxy::session
