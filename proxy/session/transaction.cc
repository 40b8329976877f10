#include "proxy/session/transaction.h"

#include <fmt/format.h>

#include "proxy/backend/backends.h"
#include "proxy/backend/refusals.h"
#include "proxy/resp/handshake.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/session/client_session.h"

namespace proxy::session {

namespace {

constexpr std::string_view kMulti = "*1\r\n$5\r\nMULTI\r\n";
constexpr std::string_view kExec = "*1\r\n$4\r\nEXEC\r\n";
constexpr std::string_view kDiscard = "*1\r\n$7\r\nDISCARD\r\n";
constexpr std::string_view kQueued = "+QUEUED\r\n";

}  // namespace

Transaction::Transaction() : bytes_(kMulti), begin_(bytes_.size()) {}

void Transaction::add_for_node(std::string_view bytes) {
  ++count_;
  if (!is_spoiled_) bytes_.append(bytes);
}

void Transaction::add_for_proxy(std::string_view bytes) {
  if (!is_spoiled_) {
    own_.push_back({count_, std::string(bytes), false});
    bytes_of_own_ += bytes.size();
  }
  ++count_;
}

void Transaction::note_writing(MayWrite may, std::string_view name) {
  if (may == MayWrite::Yes) may_write_ = true;
  if (!may_write_ && !is_spoiled_ && may != MayWrite::No)
    calls_.push_back({may, std::string(name)});
}

void Transaction::spoil() {
  is_spoiled_ = true;
  bytes_ = {};
  own_ = {};
  scripts_ = {};
  calls_ = {};
  bytes_of_own_ = 0;
}

void Transaction::withdraw(const std::function<std::string(resp::Args)>& judge) {
  const resp::RequestLimits limits;
  const std::string before = std::exchange(bytes_, std::string(kMulti));
  const std::vector<Own> own_before = std::exchange(own_, {});
  std::size_t at = kMulti.size();
  auto next_own = own_before.begin();
  for (std::size_t place = 0; place < count_; ++place) {
    const bool is_own = next_own != own_before.end() && next_own->place == place;
    const std::string_view rest =
        is_own ? std::string_view(next_own++->text) : std::string_view(before).substr(at);
    resp::FrameState frame;
    resp::parse_request(frame, rest.data(), rest.size(), limits);
    const std::string_view request = rest.substr(0, frame.position);
    if (!is_own) at += request.size();
    if (std::string reply = judge(frame.args); !reply.empty()) {
      own_.push_back({place, std::move(reply), /*is_answered=*/true});
    } else if (is_own) {
      own_.push_back({place, std::string(request), false});
    } else {
      bytes_.append(request);
    }
  }
}

std::string Transaction::take_bytes() {
  bytes_.append(kExec);
  return std::move(bytes_);
}

std::string with_own_answers(std::string_view reply, std::size_t size,
                             const std::vector<Transaction::Own>& own) {
  resp::ReplyCursor cursor(reply);
  auto header = cursor.read_header();
  const auto from_node = static_cast<std::int64_t>(size - own.size());
  if (!header || header->type != '*' || header->count != from_node) return std::string(reply);
  std::string out;
  std::size_t bytes = reply.size() + 16;
  for (const Transaction::Own& each : own) bytes += each.text.size();
  out.reserve(bytes);
  resp::append_array_header(out, size);
  std::size_t next_own = 0;
  for (std::size_t place = 0; place < size; ++place) {
    bool is_own = next_own < own.size() && own[next_own].place == place;
    out.append(is_own ? std::string_view(own[next_own++].text) : cursor.read_raw());
  }
  return out;
}

// --- MultiReplies

MultiReplies::MultiReplies(ClientSession& session)
    : core_(session.core()), session_(&session), place_(session.push_pending(this)) {}

void MultiReplies::send(backend::BackendConnection& connection, slots::SlotId slot,
                        std::string_view bytes, std::size_t loads, std::size_t requests) {
  loads_ = loads;
  to_swallow_ = loads + 1 + requests;
  backend::Ticket* ticket = core_.tickets.take();
  ticket->owner = this;
  ticket->slot = place_->slot = slot;
  connection.submit(ticket, bytes.data(), bytes.size());
  session_->count_in_flight(bytes.size());
}

void MultiReplies::on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  if (to_swallow_ > 0 || session_ == nullptr || too_large_) return;
  ticket->store(core_.blocks, bytes, count);
  too_large_ = ticket->stored_bytes() > largest_reply();
  if (too_large_) ticket->drop_stored(core_.blocks);
}

void MultiReplies::on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  if (to_swallow_ > 0) return swallow(ticket, {bytes, count});
  if (session_ != nullptr) {
    on_part(ticket, bytes, count);
    std::string scratch;
    std::string reply = final_reply(ticket->view(scratch), ticket->connection->node().route().name);
    settle_place(ticket);
    session_->on_reply(place_, reply.data(), reply.size());
  }
  ticket->drop_stored(core_.blocks);
  core_.tickets.give(ticket);
  delete this;
}

void MultiReplies::on_lost(backend::Ticket* ticket, std::string_view error) {
  // An error of the node's about itself, in the place of one reply: others follow.
  bool is_alive = ticket->connection->state() == backend::BackendConnection::State::Ready;
  if (is_alive && to_swallow_ > 0) return swallow(ticket, error);
  if (session_ != nullptr) {
    const std::string reply = lost_reply(error);
    settle_place(ticket);
    session_->on_lost(place_, reply);
  }
  ticket->drop_stored(core_.blocks);
  core_.tickets.give(ticket);
  delete this;
}

void MultiReplies::on_retiring(backend::Ticket* ticket) {
  ticket->retiring = true;
  if (session_ != nullptr) session_->count_retiring(1);
}

void MultiReplies::swallow(backend::Ticket* ticket, std::string_view reply) {
  if (loads_ > 0) {
    --loads_;
  } else if (reply.starts_with('-') && refusal_.empty()) {
    refusal_ = resp::error_text(reply);
  }
  ticket->reply_bytes = 0;
  if (--to_swallow_ == 0 && is_last_reply_its_own()) return hand_over(ticket);
  ticket->connection->put_back(ticket);
}

// The reply that is still to come is the client's as it is: the session's own ticket takes this
// one's place at the connection.
void MultiReplies::hand_over(backend::Ticket* ticket) {
  backend::BackendConnection* connection = ticket->connection;
  if (session_ == nullptr) {
    ticket->owner = nullptr;
    connection->put_back(ticket);
  } else {
    settle_place(ticket);
    place_->owner = session_;
    core_.tickets.give(ticket);
    connection->put_back(place_);
  }
  delete this;
}

void MultiReplies::settle_place(backend::Ticket* ticket) {
  place_->pending = nullptr;
  place_->connection = ticket->connection;
  place_->request_bytes = ticket->request_bytes;
  place_->submitted_ms = ticket->submitted_ms;
  place_->reply_bytes = ticket->reply_bytes;
  place_->retiring = ticket->retiring;
  ticket->retiring = false;
}

// --- ExecReplies

std::string ExecReplies::final_reply(std::string_view last, const std::string& node) {
  if (is_too_large()) {
    return fmt::format(
        "-ERR the transaction was executed, but its reply is larger than limits.merged_reply ({} "
        "bytes)\r\n",
        largest_reply());
  }
  if (refusal().empty()) return with_own_answers(last, size_, answered_);
  if (last.starts_with("-EXECABORT "))
    return fmt::format("-EXECABORT Transaction discarded because of: {}\r\n", refusal());
  // MULTI itself was refused: each request ran for itself, or not.
  return fmt::format("-ERR node {} does not take transactions, and may have executed parts: {}\r\n",
                     node, refusal());
}

// --- QueueReplies

bool QueueReplies::are_needed(ClientSession& session, slots::NodeIndex node) {
  const WorkerCore& core = session.core();
  return core.refusals->are_expected(core.now_ms()) || core.table->nodes[node].is_busy;
}

QueueReplies::QueueReplies(ClientSession& session) : MultiReplies(session) {
  session.hold(Hold::Answer);
}

void QueueReplies::ask(backend::BackendConnection& connection, slots::SlotId slot,
                       std::string_view request) {
  std::string bytes(kMulti);
  bytes.append(request).append(kDiscard);
  send(connection, slot, bytes, /*loads=*/0, /*requests=*/1);
}

std::string QueueReplies::final_reply(std::string_view, const std::string&) {
  session().release(Hold::Answer);
  if (refusal().empty()) return std::string(kQueued);
  if (Transaction* transaction = session().transaction()) transaction->spoil();
  return fmt::format("-{}\r\n", refusal());
}

// EXEC will say what has become of the node.
std::string QueueReplies::lost_reply(std::string_view) {
  session().release(Hold::Answer);
  return std::string(kQueued);
}

}  // namespace proxy::session
