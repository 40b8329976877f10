// ClientSession, the way back: replies in the order of their requests, what is in flight and
// unread, the flush.

#include <linux/sockios.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "proxy/session/client_session.h"
#include "proxy/session/sessions.h"
#include "proxy/session/transaction.h"

namespace proxy::session {

namespace {

// Larger pieces of replies go to the kernel uncopied.
constexpr std::size_t kDirectWrite = 16 * 1024;
constexpr std::size_t kStreamBuffer = 1'000'000;  // Of a large reply, ahead of its reader.
constexpr std::uint64_t kStallBeforeOthersMs = 2000;
constexpr std::size_t kReportBytes = 64 * 1024;
constexpr std::uint32_t kSmallReply = 1024;
// Of replies that a client's requests in flight may cause.
constexpr std::uint32_t kWindowBytes = 4'000'000;

// Requests that are not answered any more. A connection that is closed while some lie there unread
// is reset, and replies that the client has not received yet would be lost with it.
void discard_unread_requests(int descriptor) {
  constexpr int kReadsMax = 16;  // A client that goes on sending does not keep us.
  constexpr std::size_t kReadBytes = 1'000'000;
  for (int i = 0; i < kReadsMax; ++i) {
    // With MSG_TRUNC, TCP drops the bytes instead of copying them.
    if (::recv(descriptor, nullptr, kReadBytes, MSG_TRUNC | MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace

void ClientSession::count_in_flight(std::size_t bytes) {
  ++in_flight_;
  in_flight_bytes_ += bytes;
  if (in_flight_ >= window_ || in_flight_bytes_ >= table().limits.inflight_bytes)
    hold(Hold::InFlight);
}

void ClientSession::uncount_in_flight(std::size_t bytes, std::size_t reply_bytes) {
  --in_flight_;
  in_flight_bytes_ -= bytes;
  auto limit = static_cast<std::uint32_t>(table().limits.inflight_requests);
  if (reply_bytes > kSmallReply || reply_average_ > kSmallReply) {
    auto size = static_cast<std::int64_t>(std::min<std::size_t>(reply_bytes, 1U << 30));
    std::int64_t average = reply_average_;
    average += (size - average) / (size > average ? 2 : 8);
    reply_average_ = static_cast<std::uint32_t>(average);
    window_ = std::clamp<std::uint32_t>(kWindowBytes / (reply_average_ + 1),
                                        std::min<std::uint32_t>(4, limit), limit);
  } else {
    window_ = limit;
  }
  if (is_held_for(Hold::InFlight) && in_flight_ <= window_ / 2 &&
      in_flight_bytes_ <= table().limits.inflight_bytes / 2) {
    release(Hold::InFlight);
  }
}

backend::Ticket* ClientSession::push_ticket() {
  backend::Ticket* ticket = core_.tickets.take();
  (tail_ == nullptr ? head_ : tail_->next_in_session) = ticket;
  tail_ = ticket;
  if (reply_mode_ != ReplyMode::On) [[unlikely]]
    ticket->silent = true;
  return ticket;
}

void ClientSession::reply(std::string_view reply) {
  if (captured_ != nullptr) [[unlikely]]
    return void(captured_->append(reply));
  if (head_ == nullptr) {
    if (reply_mode_ == ReplyMode::On) emit(reply.data(), reply.size());
    return;
  }
  backend::Ticket* ticket = push_ticket();
  ticket->store(core_.blocks, reply.data(), reply.size());
  ticket->done = true;
  add_unread(reply.size());
}

void ClientSession::reply_error(std::string_view text) {
  core_.stats.errors.add();
  std::string out;
  resp::ReplyWriter(out, resp3()).error(text);
  reply(out);
}

void ClientSession::reply_push(std::string_view reply) {
  if (captured_ != nullptr) {
    pushes_behind_ = true;
    return void(captured_->append(reply));
  }
  if (head_ == nullptr) return emit(reply.data(), reply.size());
  backend::Ticket* ticket = push_ticket();
  ticket->silent = false;
  ticket->store(core_.blocks, reply.data(), reply.size());
  ticket->done = true;
  pushes_behind_ = true;
  add_unread(reply.size());
}

void ClientSession::push(std::string_view message) {
  if (closing_ || broken_) return;
  if (unread_ + message.size() > table().limits.unread_messages) return cut_off();
  if (head_ == nullptr) pushes_behind_ = false;
  // Replies that have begun, confirmations and messages before this one come first.
  if (head_ != nullptr && (pushes_behind_ || head_->begun)) return reply_push(message);
  emit(message.data(), message.size());
}

void ClientSession::push_after(backend::Ticket* ticket, std::string_view message) {
  if (closing_ || broken_ || message.empty()) return;
  if (unread_ + message.size() > table().limits.unread_messages) return cut_off();
  if (ticket == nullptr && head_ != nullptr && head_->begun) ticket = head_;
  if (ticket == nullptr) return emit(message.data(), message.size());
  backend::Ticket* pushed = core_.tickets.take();
  pushed->next_in_session = ticket->next_in_session;
  ticket->next_in_session = pushed;
  if (tail_ == ticket) tail_ = pushed;
  pushed->store(core_.blocks, message.data(), message.size());
  pushed->done = true;
  add_unread(message.size());
}

// Not at once: whoever hands messages out still has it in hand.
void ClientSession::cut_off() {
  spdlog::warn("client {} has not read {} bytes (limits.unread_messages): closed", id_, unread_);
  core_.stats.slow_subscribers.add();
  broken_ = true;
  mark_dirty();
}

void ClientSession::reject(std::string_view text) {
  if (transaction_ != nullptr) transaction_->spoil();
  reply_error(text);
}

backend::Ticket* ClientSession::push_pending(backend::PendingReply* pending) {
  backend::Ticket* ticket = push_ticket();
  ticket->pending = pending;
  return ticket;
}

void ClientSession::fill(backend::Ticket* place, std::string_view reply) {
  place->pending = nullptr;
  place->store(core_.blocks, reply.data(), reply.size());
  add_unread(reply.size());
  place->done = true;
  if (place == head_) advance();
}

// The beginning of a reply waits until it is clear that it is a large one: should the connection be
// lost before its end, the client gets an error in its place, not half of it and the end of its own
// connection.
void ClientSession::on_part(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  std::size_t ahead = 0;
  if (ticket == head_ && ticket->reply_bytes > kDirectWrite) {
    if (ticket->stored_bytes() > 0) emit_stored(ticket);
    ticket->begun = true;
    if (!ticket->silent) emit(bytes, count);
    ahead = out_.size();
  } else {
    ticket->store(core_.blocks, bytes, count);
    add_unread(count);
    ahead = ticket->stored_bytes();
  }
  backend::BackendConnection* connection = ticket->connection;
  std::size_t limit = connection->has_followers() ? table().limits.unread_replies : kStreamBuffer;
  if (ticket->reply_bytes > table().limits.stream_reply && ahead > limit) {
    connection->pause_reading();
    paused_.push_back(connection);
  }
}

void ClientSession::on_reply(backend::Ticket* ticket, const char* bytes, std::size_t count) {
  if (ticket->large) [[unlikely]]
    end_large(ticket);
  if (ticket->retiring) [[unlikely]]
    count_retiring(-1);
  core_.traffic->add(ticket->slot, ticket->request_bytes + ticket->reply_bytes);
  uncount_in_flight(ticket->request_bytes, ticket->reply_bytes);
  if (ticket == head_) [[likely]] {
    if (ticket->stored_bytes() > 0) [[unlikely]]
      emit_stored(ticket);
    if (!ticket->silent) emit(bytes, count);
    pop_head();
    if (head_ != nullptr) advance();
  } else {
    ticket->store(core_.blocks, bytes, count);
    ticket->done = true;
    add_unread(count);
  }
}

void ClientSession::on_lost(backend::Ticket* ticket, std::string_view error) {
  core_.stats.errors.add();
  std::erase(paused_, ticket->connection);
  if (ticket->large) end_large(ticket);
  if (ticket->retiring) count_retiring(-1);
  uncount_in_flight(ticket->request_bytes, 0);
  drop_stored(ticket);
  if (ticket->begun) {
    // A part of the reply is on its way: only the end of the client's connection says that it is
    // none.
    broken_ = true;
    mark_dirty();
  } else {
    ticket->store(core_.blocks, error.data(), error.size());
    add_unread(error.size());
  }
  ticket->done = true;
  if (ticket == head_) advance();
}

void ClientSession::on_retiring(backend::Ticket* ticket) {
  ticket->retiring = true;
  count_retiring(1);
}

void ClientSession::count_retiring(int change) {
  retiring_ = static_cast<std::uint32_t>(static_cast<int>(retiring_) + change);
  if (retiring_ > 0) {
    hold(Hold::Retiring);
  } else {
    release(Hold::Retiring);
  }
}

void ClientSession::pop_head() {
  backend::Ticket* ticket = head_;
  head_ = ticket->next_in_session;
  if (head_ == nullptr) {
    tail_ = nullptr;
    if (holds_ != 0 || closing_) [[unlikely]]
      on_nothing_waiting();
  }
  settle(ticket);
}

// Nothing is under way any more: a streamed request may begin, a session that closes may end.
void ClientSession::on_nothing_waiting() {
  if (stream_ == nullptr) release(Hold::Stream);
  if (closing_) mark_dirty();
}

void ClientSession::advance() {
  while (head_ != nullptr && (head_->done || head_->reply_bytes > kDirectWrite)) {
    if (head_->stored_bytes() > 0) {
      head_->begun = true;
      emit_stored(head_);
    }
    if (!head_->done) break;
    __builtin_prefetch(head_->next_in_session);
    pop_head();
  }
  if (!paused_.empty()) resume_node_reading();
}

void ClientSession::emit_stored(backend::Ticket* ticket) {
  std::size_t count = ticket->stored_bytes();
  unread_ -= std::min(count, unread_);
  if (ticket->silent) {
    mark_dirty();  // The flush looks at what is unread, and lets the session go on.
  } else if (net::ByteChain* chain = ticket->chain()) {
    out_.append(core_.blocks, *chain);
    unread_ += count;
    mark_dirty();
  } else {
    emit(ticket->inline_bytes().data(), count);
  }
  ticket->drop_stored(core_.blocks);
}

void ClientSession::drop_stored(backend::Ticket* ticket) {
  unread_ -= std::min(ticket->stored_bytes(), unread_);
  ticket->drop_stored(core_.blocks);
}

void ClientSession::settle(backend::Ticket* ticket) {
  ticket->drop_stored(core_.blocks);
  core_.tickets.give(ticket);
}

void ClientSession::emit(const char* bytes, std::size_t count) {
  if (count >= kDirectWrite && out_.empty() && !write_blocked_ && is_open()) {
    net::IoResult result = write_some(bytes, count);
    if (result.status == net::IoStatus::Closed) broken_ = true;
    core_.stats.bytes_to_clients.add(result.count);
    bytes += result.count;
    count -= result.count;
    if (count == 0) return;
  }
  out_.append(core_.blocks, bytes, count);
  mark_dirty();
  add_unread(count);
}

void ClientSession::add_unread(std::size_t count) {
  unread_ += count;
  // Replies that wait for an earlier one are not flushed, but count among all clients' all the
  // same.
  if (unread_ > unread_reported_ + kReportBytes) [[unlikely]]
    report_unread();
  if (unread_ > table().limits.unread_replies) [[unlikely]]
    hold(Hold::Unread);
}

void ClientSession::flush() {
  dirty_ = false;
  if (!is_open()) return;
  if (!out_.empty() && !write_blocked_) {
    net::IoResult result = write_chain(core_.blocks, out_);
    unread_ -= std::min(result.count, unread_);
    core_.stats.bytes_to_clients.add(result.count);
    if (result.status == net::IoStatus::Closed) broken_ = true;
    if (result.status == net::IoStatus::WouldBlock) {
      // Behind from now on, or still, but it took something.
      if (result.count > 0 || progress_ms_ == 0) progress_ms_ = core_.now_ms();
      write_blocked_ = true;
    } else {
      progress_ms_ = 0;
    }
    watch_now();
  }
  if (broken_) return close_now();
  if (unread_ != unread_reported_) report_unread();
  if (!paused_.empty() && out_.size() < kStreamBuffer / 2) resume_node_reading();
  if (is_held_for(Hold::Unread) && unread_ <= table().limits.unread_replies / 2)
    release(Hold::Unread);
  if (closing_ && head_ == nullptr && out_.empty()) {
    discard_unread_requests(descriptor());
    close_now();
  }
}

void ClientSession::report_unread() {
  sessions_.count_unread(unread_ - unread_reported_);
  unread_reported_ = unread_;
}

void ClientSession::resume_node_reading() {
  std::vector<backend::BackendConnection*> paused;
  paused.swap(paused_);
  for (backend::BackendConnection* connection : paused) connection->resume_reading();
}

bool ClientSession::is_stalled(std::uint64_t now_ms, std::uint64_t limit_ms) {
  bool owes_bytes =
      (input_ != nullptr && holds_ == 0) || (stream_ != nullptr && !stream_->skipper.is_done());
  if (owes_bytes && now_ms - last_active_ms_ > limit_ms) return true;
  if (!write_blocked_) return false;
  // The kernel wakes us only when a third of its buffer is free; a slow reader shows in the bytes
  // still to go.
  int unsent = 0;
  if (::ioctl(descriptor(), SIOCOUTQ, &unsent) == 0) {
    if (unsent < unsent_seen_) progress_ms_ = now_ms;
    unsent_seen_ = unsent;
  }
  bool others_wait = std::any_of(
      paused_.begin(), paused_.end(),
      [](const backend::BackendConnection* connection) { return connection->has_followers(); });
  return now_ms - progress_ms_ >
         (others_wait ? std::min(limit_ms, kStallBeforeOthersMs) : limit_ms);
}

}  // namespace proxy::session
