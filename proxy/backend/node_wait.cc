#include "proxy/backend/node_wait.h"

#include <algorithm>
#include <utility>

#include "proxy/resp/reply_writer.h"

namespace proxy::backend {

NodeWait* NodeWait::begin(WorkerCore& core, NodeBackend& node, Channel channel,
                          const WaitRequest& request, Waiter& waiter) {
  auto* wait = new NodeWait(core, node, waiter);
  BackendConnection* connection = node.take_blocking(channel, wait);
  if (connection == nullptr) {
    delete wait;
    return nullptr;
  }
  connection->begin_wait(request.slot, request.until_ms);
  connection->set_stream_source(wait);
  if (!request.ahead.empty())
    connection->submit(core.tickets.take(), request.ahead.data(), request.ahead.size());
  Ticket* ticket = core.tickets.take();
  ticket->owner = wait;
  ticket->slot = request.slot;
  connection->submit(ticket, request.bytes.data(), request.bytes.size());
  wait->connection_ = connection;
  wait->ticket_ = ticket;
  return wait;
}

bool NodeWait::is_sent() const {
  return connection_ != nullptr && connection_->state() == BackendConnection::State::Ready &&
         connection_->queued_bytes() == 0;
}

// The connection has written something, or has failed.
void NodeWait::on_room() {
  if (!is_sent()) return;
  connection_->set_stream_source(nullptr);
  if (waiter_ != nullptr) waiter_->on_wait_begun();
}

void NodeWait::take_back(UnblockReply reply, std::vector<std::string> questions) {
  if (is_wanted_back_ || is_begun_ || ticket_ == nullptr || connection_ == nullptr) return;
  is_wanted_back_ = true;
  if (connection_->queued_bytes() >= ticket_->request_bytes) {
    // Nothing of it has left. What would leave later could pop an element that nobody wants.
    is_cancelled_ = true;
    connection_->break_off();
    return connection_->fail("the request was taken back");
  }
  if (connection_->server_side().client_id == 0)
    return connection_->fail("the server can't be asked to take a request back");
  unblock_reply_ = reply;
  questions_ = std::move(questions);
  connection_->set_wait_limit(core_.now_ms());
  unblock();
}

void NodeWait::leave() {
  waiter_ = nullptr;
  take_back(UnblockReply::Error);
}

void NodeWait::unblock() {
  BackendConnection* beside = node_.beside(*connection_);
  if (beside == nullptr) return;  // Tried again at the next tick.
  for (const std::string& question : std::exchange(questions_, {})) ask(*beside, question);
  std::string request;
  resp::append_request(request,
                       {"CLIENT", "UNBLOCK", std::to_string(connection_->server_side().client_id),
                        unblock_reply_ == UnblockReply::Error ? "ERROR" : "TIMEOUT"});
  unblock_ = ask(*beside, request);
}

Ticket* NodeWait::ask(BackendConnection& connection, std::string_view bytes) {
  Ticket* ticket = core_.tickets.take();
  ticket->owner = this;
  ticket->slot = slots::kNoSlot;
  ticket->once = true;  // Client ids are those of one process.
  connection.submit(ticket, bytes.data(), bytes.size());
  ++asides_;
  return ticket;
}

void NodeWait::on_pin_tick() {
  if (!is_wanted_back_ || ticket_ == nullptr || is_begun_ || is_unblocked_ || unblock_ != nullptr)
    return;
  tries_ = 0;
  unblock();
}

void NodeWait::on_part(Ticket* ticket, const char* bytes, std::size_t count) {
  if (ticket == ticket_) {
    is_begun_ = true;
    if (waiter_ != nullptr) waiter_->on_wait_part(*ticket, bytes, count);
  } else if (ticket->stored_bytes() < kAnswerMax) {
    ticket->store(core_.blocks, bytes, std::min(count, kAnswerMax - ticket->stored_bytes()));
  }
}

void NodeWait::on_reply(Ticket* ticket, const char* bytes, std::size_t count) {
  if (ticket != ticket_) return on_aside(ticket, {bytes, count});
  // Also when nobody here has asked for it: then it is no answer that the client could expect.
  is_taken_back_ = std::string_view(bytes, count).starts_with(kUnblocked);
  if (!is_taken_back_ && waiter_ != nullptr)
    std::exchange(waiter_, nullptr)->on_wait_reply(*ticket, bytes, count);
  end_wait();
}

void NodeWait::on_lost(Ticket* ticket, std::string_view error) {
  if (ticket != ticket_) return on_aside(ticket, {});
  is_taken_back_ = is_cancelled_;
  if (!is_taken_back_ && waiter_ != nullptr) std::exchange(waiter_, nullptr)->on_wait_lost(error);
  end_wait();
}

void NodeWait::on_aside(Ticket* ticket, std::string_view reply) {
  const bool is_unblock = ticket == unblock_;
  if (is_unblock) {
    unblock_ = nullptr;
    is_unblocked_ = reply.starts_with(":1");
  } else if (reply.empty()) {
    answers_.emplace_back();
  } else {
    on_part(ticket, reply.data(), reply.size());
    std::string scratch;
    answers_.emplace_back(ticket->view(scratch));
  }
  ticket->drop_stored(core_.blocks);
  core_.tickets.give(ticket);
  --asides_;
  const bool waits_still = ticket_ != nullptr && !is_begun_ && connection_ != nullptr;
  if (is_unblock && waits_still && reply.starts_with("-NOPERM"))
    return connection_->fail(
        "the server does not let the proxy take requests back (CLIENT UNBLOCK)");
  if (is_unblock && waits_still && reply.starts_with(":0") && ++tries_ < kTriesAtOnce) unblock();
  end_if_done();
}

// The reply is in. Unless something beside it is still under way, the connection comes back to the
// node by itself, once it has handed the reply over.
void NodeWait::end_wait() {
  ticket_->drop_stored(core_.blocks);
  core_.tickets.give(std::exchange(ticket_, nullptr));
  if (connection_ != nullptr) {
    connection_->end_wait();
    connection_->set_stream_source(nullptr);
    if (asides_ == 0) std::exchange(connection_, nullptr)->set_pin_holder(nullptr);
  }
  end_if_done();
}

void NodeWait::end_if_done() {
  if (ticket_ != nullptr || asides_ > 0) return;
  if (connection_ != nullptr) node_.give_back(std::exchange(connection_, nullptr), {});
  if (is_taken_back_ && waiter_ != nullptr)
    std::exchange(waiter_, nullptr)->on_wait_taken_back(answers_);
  delete this;
}

}  // namespace proxy::backend
