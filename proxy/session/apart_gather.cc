#include "proxy/session/apart_gather.h"

#include <fmt/format.h>

#include "slots/assert.h"

namespace proxy::session {

ApartGather::ApartGather(ClientSession& session)
    : core_(session.core()),
      session_(&session),
      place_(session.push_pending(this)),
      channel_(session.channel()) {
  session.hold(Hold::Answer);
}

ApartGather::~ApartGather() {
  for (backend::Ticket* ticket : tickets_) {
    ticket->drop_stored(core_.blocks);
    core_.tickets.give(ticket);
  }
}

backend::Ticket* ApartGather::add_ticket(slots::SlotId slot) {
  backend::Ticket* ticket = core_.tickets.take();
  ticket->owner = this;
  ticket->slot = slot;
  tickets_.push_back(ticket);
  return ticket;
}

void ApartGather::ask_in_order(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
  backend::Ticket* ticket = add_ticket(slot);
  const std::string* why = nullptr;
  backend::BackendConnection* connection = core_.backends->node(node).accepting(channel_, why);
  if (connection == nullptr) return refuse(ticket, session_->node_error(node, slot, *why));
  submit(connection, ticket, bytes);
}

void ApartGather::ask(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
  backend::Ticket* ticket = add_ticket(slot);
  backend::NodeBackend& backend = core_.backends->node(node);
  if (const std::string* reason = backend.unavailable())
    return refuse(ticket, session_->node_error(node, slot, *reason));
  backend::BackendConnection* connection = connection_;
  if (connection == nullptr || &connection->node() != &backend)
    connection = backend.take_large(channel_, nullptr);
  if (connection == nullptr) {
    return refuse(ticket, fmt::format("-{}\r\n", resp::errors::connections_in_use(
                                                     "large_connections", backend.route().name)));
  }
  submit(connection, ticket, bytes);
}

void ApartGather::submit(backend::BackendConnection* connection, backend::Ticket* ticket,
                         std::string_view bytes) {
  ++waiting_;
  connection->submit(ticket, bytes.data(), bytes.size());
}

void ApartGather::refuse(backend::Ticket* ticket, std::string_view error) {
  ticket->store(core_.blocks, error.data(), error.size());
}

void ApartGather::asked_all() {
  asked_all_ = true;
  if (waiting_ == 0) complete();
}

void ApartGather::on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  bytes_ += count;
  too_large_ = too_large_ || bytes_ > core_.table->limits.merged_reply;
  if (!too_large_ && session_ != nullptr) ticket->store(core_.blocks, bytes, count);
}

void ApartGather::on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  on_part(ticket, bytes, count);
  end_fragment(ticket->connection);
}

void ApartGather::on_lost(backend::Ticket* ticket, std::string_view error) {
  ticket->drop_stored(core_.blocks);
  ticket->store(core_.blocks, error.data(), error.size());
  end_fragment(nullptr);
}

void ApartGather::end_fragment(backend::BackendConnection* connection) {
  if (--waiting_ > 0 || !asked_all_) return;
  // Not a shared one: ask_in_order(), or a request that was sent again after its connection failed.
  bool can_go_on = connection != nullptr && connection->use() == backend::ConnectionUse::Large &&
                   !connection->is_retiring();
  connection_ = can_go_on ? connection : nullptr;
  complete();
}

std::vector<std::string> ApartGather::take_replies() {
  std::vector<std::string> replies;
  std::string scratch;
  for (backend::Ticket* ticket : tickets_) {
    replies.emplace_back(ticket->view(scratch));
    ticket->drop_stored(core_.blocks);
    core_.tickets.give(ticket);
  }
  tickets_.clear();
  bytes_ = 0;
  return replies;
}

void ApartGather::complete() {
  while (session_ != nullptr) {
    std::vector<std::string> replies = take_replies();
    std::string out;
    if (replies.empty()) {
      resp::ReplyWriter(out, false).error(resp::errors::kNodeLeft);
    } else if (too_large_) {
      out = fmt::format("-ERR the reply is larger than limits.merged_reply ({} bytes)\r\n",
                        core_.table->limits.merged_reply);
    } else if (!finish(replies, out)) {
      if (waiting_ == 0) continue;
      connection_ = nullptr;
      return;
    }
    SP_ASSERT(!out.empty());
    session_->release(Hold::Answer);
    session_->fill(place_, out);
    break;
  }
  delete this;
}

}  // namespace proxy::session
