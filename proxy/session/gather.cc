#include "proxy/session/gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "slots/assert.h"

namespace proxy::session {

Gather::Gather(ClientSession& session)
    : core_(session.core()),
      session_(&session),
      place_(session.push_pending(this)),
      channel_(session.channel()),
      resp3_(session.resp3()) {}

Gather::~Gather() {
  for (backend::Ticket* ticket : tickets_) {
    ticket->drop_stored(core_.blocks);
    core_.tickets.give(ticket);
  }
}

bool Gather::send(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
  backend::Ticket* ticket = core_.tickets.take();
  ticket->owner = this;
  ticket->slot = slot;
  tickets_.push_back(ticket);
  fragments_.push_back({node, slot, {}, {}});
  const std::string* why = nullptr;
  backend::BackendConnection* connection = core_.backends->node(node).accepting(channel_, why);
  if (connection == nullptr) {
    std::string error = session_->node_error(node, slot, *why);
    ticket->store(core_.blocks, error.data(), error.size());
    return false;
  }
  ++waiting_;
  connection->submit(ticket, bytes.data(), bytes.size());
  session_->count_in_flight(bytes.size());
  return true;
}

void Gather::sent_all() {
  all_sent_ = true;
  if (waiting_ == 0) complete();
}

void Gather::add_bytes(std::size_t count) {
  bytes_ += count;
  if (bytes_ <= core_.table->limits.merged_reply || too_large_) return;
  too_large_ = true;
  for (backend::Ticket* ticket : tickets_) ticket->drop_stored(core_.blocks);
}

void Gather::on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  add_bytes(count);
  if (!too_large_ && session_ != nullptr) ticket->store(core_.blocks, bytes, count);
}

void Gather::on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  if (*bytes == '-') [[unlikely]] {
    auto place = std::find(tickets_.begin(), tickets_.end(), ticket) - tickets_.begin();
    fragments_[static_cast<std::size_t>(place)].said_by = ticket->connection->node().route().name;
  }
  on_part(ticket, bytes, count);
  end_fragment(ticket);
}

void Gather::on_lost(backend::Ticket* ticket, std::string_view error) {
  is_any_lost_ = true;
  ticket->drop_stored(core_.blocks);
  ticket->store(core_.blocks, error.data(), error.size());
  end_fragment(ticket);
}

void Gather::on_retiring(backend::Ticket* ticket) {
  ticket->retiring = true;
  if (session_ != nullptr) session_->count_retiring(1);
}

void Gather::end_fragment(backend::Ticket* ticket) {
  if (session_ != nullptr) {
    if (ticket->retiring) session_->count_retiring(-1);
    session_->uncount_in_flight(ticket->request_bytes, ticket->reply_bytes);
  }
  ticket->retiring = false;
  if (--waiting_ == 0 && all_sent_) complete();
}

void Gather::complete() {
  if (session_ != nullptr) {
    scratch_.assign(tickets_.size(), {});
    for (std::size_t i = 0; i < tickets_.size(); ++i)
      fragments_[i].reply = tickets_[i]->view(scratch_[i]);
    std::string out;
    if (fragments_.empty()) {
      resp::ReplyWriter(out, resp3_).error(resp::errors::kNodeLeft);
    } else if (!finish(out)) {
      if (waiting_ == 0) complete();
      return;
    }
    SP_ASSERT(!out.empty());
    session_->fill(place_, out);
  }
  delete this;
}

std::string Gather::named_error(const Fragment& fragment) const {
  std::string_view line = fragment.reply.substr(0, fragment.reply.find('\r'));
  // The proxy's own errors name the node already.
  if (fragment.said_by.empty()) return fmt::format("{}\r\n", line);
  return fmt::format("{} (node {}, slot {})\r\n", line, fragment.said_by, fragment.slot);
}

void Gather::write_too_large(std::string& out, std::string_view advice) const {
  resp::ReplyWriter(out, resp3_)
      .error(fmt::format("ERR the reply is larger than limits.merged_reply ({} bytes){}",
                         core_.table->limits.merged_reply, advice));
}

}  // namespace proxy::session
