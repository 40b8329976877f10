#include "proxy/session/client_session.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <charconv>

#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/route/cluster_replies.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

constexpr std::size_t kDirectWrite =
    16 * 1024;  // Larger pieces of replies go to the kernel uncopied.
constexpr std::size_t kStreamBuffer = 1'000'000;  // Of a large reply, ahead of its reader.
constexpr std::size_t kStreamQueue = 1'000'000;   // Of a large request, ahead of the node.
constexpr std::uint64_t kStallBeforeOthersMs = 2000;
constexpr std::uint32_t kSmallReply = 1024;
constexpr std::uint32_t kWindowBytes =
    4'000'000;  // Of replies that a client's requests in flight may cause.

bool is_single_key(const resp::CommandSpec& spec) {
  return spec.rule == resp::KeyRule::Range && spec.first_key == 1 && spec.last_key == 1;
}

}  // namespace

ClientSession::ClientSession(WorkerCore& core, Sessions& sessions,
                             std::shared_ptr<const ListenerFacts> listener, std::uint64_t id)
    : core_(core),
      sessions_(sessions),
      listener_(std::move(listener)),
      id_(id),
      created_ms_(core.now_ms()),
      last_active_ms_(created_ms_),
      authenticated_(core.table->client_password.empty()) {}

ClientSession::~ClientSession() {
  SP_ASSERT(head_ == nullptr);
  out_.release(core_.blocks);
}

void ClientSession::start(int descriptor) {
  open(core_.loop, descriptor);
  watch(true, false);
}

SessionNotes& ClientSession::notes() {
  if (!notes_) notes_ = std::make_unique<SessionNotes>();
  return *notes_;
}

void ClientSession::set_authenticated(bool yes) { authenticated_ = yes; }

void ClientSession::reset() {
  protocol_ = backend::Protocol::Resp2;
  reply_mode_ = ReplyMode::On;
  asking_ = false;
  authenticated_ = table().client_password.empty();
  if (notes_) notes_->name.clear();
}

// --- reading -----------------------------------------------------------------------------------------------------

void ClientSession::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return close_now();
  if (writable) {
    write_blocked_ = false;
    mark_dirty();
  }
  if (!readable) return;
  bool feeding = stream_ != nullptr && !stream_->skipper.is_done();
  bool node_behind = feeding && stream_->connection != nullptr &&
                     stream_->connection->queued_bytes() > kStreamQueue;
  if ((holds_ != 0 && !feeding) || node_behind) {
    read_stopped_ = true;
    return watch_now();
  }
  net::IoResult result = read_some(core_.read_buffer.get(), WorkerCore::kReadBytes);
  if (result.status == net::IoStatus::Ok) [[likely]] {
    last_active_ms_ = core_.now_ms();
    core_.stats.bytes_from_clients.add(result.count);
    take_input(core_.read_buffer.get(), result.count);
  } else if (result.status == net::IoStatus::Closed) {
    // A client that only shut its sending side down (printf ... | nc) still reads.
    if (head_ == nullptr && out_.empty()) return close_now();
    close_after_replies();
  }
}

void ClientSession::take_input(const char* bytes, std::size_t count) {
  if (stream_ != nullptr) {
    std::size_t used = feed_stream(bytes, count);
    bytes += used;
    count -= used;
    if (count == 0) return;
  }
  if (input_ == nullptr) {
    core_.frame.clear();
    std::size_t used = process(bytes, count, core_.frame);
    if (used == count || closing_) return;
    input_ = std::make_unique<Input>();
    input_->bytes.assign(bytes + used, count - used);
    input_->frame = core_.frame;
    input_->frame.rebase(bytes + used, input_->bytes.data());
    return;
  }
  const char* before = input_->bytes.data() + input_->begin;
  if (input_->begin > 0) {
    input_->bytes.erase(0, input_->begin);
    input_->frame.rebase(before, input_->bytes.data());
    before = input_->bytes.data();
    input_->begin = 0;
  }
  input_->bytes.append(bytes, count);
  input_->frame.rebase(before, input_->bytes.data());
  if (input_->bytes.size() >= input_->frame.bytes_needed()) process_kept_input();
}

// Executes what input_ holds, as far as that goes now.
void ClientSession::process_kept_input() {
  Input& input = *input_;
  std::size_t used =
      process(input.bytes.data() + input.begin, input.bytes.size() - input.begin, input.frame);
  input.begin += used;
  if (closing_ || input.begin == input.bytes.size()) input_.reset();
}

// Executes whole requests; returns how many bytes they took. What is left belongs to `frame`.
std::size_t ClientSession::process(const char* bytes, std::size_t size, resp::FrameState& frame) {
  resp::RequestLimits limits{static_cast<std::int64_t>(table().limits.bulk), authenticated_};
  std::size_t used = 0;
  while (used < size && holds_ == 0 && !closing_) {
    if (bytes[used] != '*') [[unlikely]] {
      std::size_t consumed = 0;
      if (!process_inline(bytes + used, size - used, consumed)) return used;
      used += consumed;
      continue;
    }
    resp::FrameOutcome outcome = resp::parse_request(frame, bytes + used, size - used, limits);
    if (outcome == resp::FrameOutcome::Complete) [[likely]] {
      std::string_view whole(bytes + used, frame.position);
      used += whole.size();
      if (!frame.args.empty()) execute(frame.args, whole);
      frame.clear();
      limits.authenticated = authenticated_;
    } else if (outcome == resp::FrameOutcome::Invalid) {
      protocol_error(frame.error);
      return size;
    } else {
      std::size_t consumed = 0;
      if (frame.bytes_needed() > table().limits.stream_request &&
          begin_stream(bytes + used, size - used, frame, consumed)) {
        frame.clear();
        return used + consumed;
      }
      if (frame.bytes_needed() > table().limits.buffered_request) {
        protocol_error("request is larger than limits.buffered_request");
        return size;
      }
      return used;
    }
  }
  return closing_ ? size : used;
}

// False: more bytes are needed, or the session is over.
bool ClientSession::process_inline(const char* bytes, std::size_t size, std::size_t& consumed) {
  std::vector<std::string> words;
  std::string error;
  switch (resp::parse_inline(bytes, size, words, consumed, error)) {
    case resp::FrameOutcome::NeedMore:
      return false;
    case resp::FrameOutcome::Invalid:
      protocol_error(error);
      return false;
    case resp::FrameOutcome::Complete:
      break;
  }
  if (words.empty()) return true;
  std::vector<std::string_view> args(words.begin(), words.end());
  std::string frame;
  resp::append_array_header(frame, args.size());
  for (std::string_view arg : args) resp::append_bulk(frame, arg);
  execute(args, frame);
  return true;
}

void ClientSession::protocol_error(std::string_view text) {
  reply_error(std::string("ERR ").append(text));
  close_after_replies();
}

// --- executing ---------------------------------------------------------------------------------------------------

void ClientSession::execute(resp::Args args, std::string_view bytes) {
  core_.stats.requests.add();
  const resp::CommandSpec* spec = table().commands->find(args[0]);
  if (spec != nullptr && is_single_key(*spec) && is_plain() && spec->arity_ok(args.size()) &&
      handler_of(*spec) == nullptr && !is_reserved_key(args[1])) [[likely]] {
    slots::SlotId slot = slots::slot_of_key(args[1]);
    slots::NodeIndex owner = table().map->owner(slot);
    if (is_redirect() && owner != listener_->node) return redirect(slot, owner);
    return forward(owner, slot, bytes);
  }
  Request request{args, bytes, spec};
  execute_slowly(request);
}

void ClientSession::execute_slowly(Request& request) {
  bool asking = std::exchange(asking_, false);  // ASKING holds for the one request behind it.
  if (reply_mode_ == ReplyMode::SkipNext) reply_mode_ = ReplyMode::Skip;
  dispatch(*this, request, asking);
  if (reply_mode_ == ReplyMode::Skip) reply_mode_ = ReplyMode::On;
}

void ClientSession::redirect(slots::SlotId slot, slots::NodeIndex owner) {
  core_.stats.redirects.add();
  const std::string& endpoint = table().cluster_replies->moved_suffix(owner);
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, slot).ptr;
  std::string& out = core_.scratch;
  out.assign("-MOVED ").append(text, end).append(" ").append(endpoint).append("\r\n");
  reply(out);
}

void ClientSession::forward(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
  backend::NodeBackend& backend = core_.backends->node(node);
  if (const std::string* reason = backend.unavailable()) [[unlikely]]
    return reply(node_error(node, slot, *reason));
  backend::BackendConnection* connection = backend.shared(protocol_);
  const conf::Limits& limits = table().limits;
  if (connection->queued_bytes() > limits.node_queue) [[unlikely]] {
    return reply(node_error(node, slot, "more than limits.node_queue bytes wait for it"));
  }
  backend::Ticket* ticket = push_ticket();
  ticket->owner = this;
  ticket->node = node;
  ticket->slot = slot;
  connection->submit(ticket, bytes.data(), bytes.size());
  count_in_flight(bytes.size());
}

void ClientSession::send_ahead(slots::NodeIndex node, std::string_view bytes) {
  backend::NodeBackend& backend = core_.backends->node(node);
  if (backend.unavailable() != nullptr) return;
  backend::Ticket* ticket =
      core_.tickets.take();  // No owner: the connection drops the reply and frees the ticket.
  ticket->sent_ahead = true;
  backend.shared(protocol_)->submit(ticket, bytes.data(), bytes.size());
}

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
    window_ = std::clamp<std::uint32_t>(kWindowBytes / (reply_average_ + 1), 4, limit);
  } else {
    window_ = limit;
  }
  if (is_held_for(Hold::InFlight) && in_flight_ <= window_ / 2 &&
      in_flight_bytes_ <= table().limits.inflight_bytes / 2) {
    release(Hold::InFlight);
  }
}

std::string ClientSession::node_error(slots::NodeIndex node, slots::SlotId slot,
                                      const std::string& reason) const {
  core_.stats.errors.add();
  const NodeRoute& route = table().nodes[node];
  return resp::errors::node_reply(route.name, route.address.text(), reason, slot);
}

// --- answering in order --------------------------------------------------------------------------------------------

backend::Ticket* ClientSession::push_ticket() {
  backend::Ticket* ticket = core_.tickets.take();
  (tail_ == nullptr ? head_ : tail_->next_in_session) = ticket;
  tail_ = ticket;
  if (reply_mode_ != ReplyMode::On) [[unlikely]]
    ticket->silent = true;
  return ticket;
}

void ClientSession::reply(std::string_view reply) {
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

bool ClientSession::takes_parts(const backend::Ticket&) const { return true; }

// The beginning of a reply waits until it is clear that it is a large one: should the connection be lost before its end,
// the client gets an error in its place, not half of it and the end of its own connection.
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
  uncount_in_flight(ticket->request_bytes, ticket->reply_bytes);
  std::string_view reply(bytes, count);
  std::string own;
  if (ticket->reply_bytes == count && *bytes == '-') [[unlikely]]
    reply = own_error(*ticket, reply, own);
  if (ticket == head_) [[likely]] {
    if (ticket->stored_bytes() > 0) [[unlikely]]
      emit_stored(ticket);
    if (!ticket->silent) emit(reply.data(), reply.size());
    pop_head();
    if (head_ != nullptr) advance();
  } else {
    ticket->store(core_.blocks, reply.data(), reply.size());
    ticket->done = true;
    add_unread(reply.size());
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
    // A part of the reply is on its way: only the end of the client's connection says that it is none.
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

// What a node says about itself is no business of a client's: a cluster node's redirects, the proxy's own password.
std::string_view ClientSession::own_error(const backend::Ticket& ticket, std::string_view reply,
                                          std::string& scratch) const {
  auto starts = [&](std::string_view text) { return reply.starts_with(text); };
  if (starts("-MOVED ") || starts("-ASK ") || starts("-CLUSTERDOWN ")) {
    scratch = node_error(ticket.node, ticket.slot, "runs in cluster mode");
    return scratch;
  }
  if (starts("-NOAUTH ")) {
    scratch = node_error(ticket.node, ticket.slot, "wants a password that the proxy does not have");
    return scratch;
  }
  return reply;
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
    pop_head();
  }
  if (!paused_.empty()) resume_node_reading();
}

void ClientSession::emit_stored(backend::Ticket* ticket) {
  std::size_t count = ticket->stored_bytes();
  unread_ -= std::min(count, unread_);
  if (ticket->silent) {
    ticket->stored.release(core_.blocks);
  } else if (ticket->inline_size > 0) {
    emit(ticket->bytes, ticket->inline_size);
  } else {
    out_.append(ticket->stored);
    unread_ += count;
    mark_dirty();
  }
  ticket->inline_size = 0;
}

void ClientSession::drop_stored(backend::Ticket* ticket) {
  unread_ -= std::min(ticket->stored_bytes(), unread_);
  ticket->stored.release(core_.blocks);
  ticket->inline_size = 0;
}

void ClientSession::settle(backend::Ticket* ticket) {
  ticket->stored.release(core_.blocks);
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
  if (closing_ && head_ == nullptr && out_.empty()) close_now();
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
  // The kernel wakes us only when a third of its buffer is free; a slow reader shows in the bytes still to go.
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

// --- holding -------------------------------------------------------------------------------------------------------

void ClientSession::release(Hold reason) {
  if (!is_held_for(reason)) return;
  holds_ = static_cast<std::uint8_t>(holds_ & ~static_cast<std::uint8_t>(reason));
  if (holds_ != 0 || resumable_) return;
  resumable_ = true;
  sessions_.add_resumable(this);
}

void ClientSession::resume() {
  resumable_ = false;
  if (!is_open() || holds_ != 0) return;
  if (input_ != nullptr && !closing_) process_kept_input();
  if (draining_ && holds_ == 0) close_after_replies();
  if (!is_open()) return;
  if (holds_ == 0 && read_stopped_) read_stopped_ = false;
  watch_now();
}

void ClientSession::watch_now() {
  if (is_open()) watch(!closing_ && !read_stopped_, write_blocked_);
}

// --- ending --------------------------------------------------------------------------------------------------------

void ClientSession::close_after_replies() {
  if (closing_) return;
  closing_ = true;
  mark_dirty();
  watch_now();
}

void ClientSession::drain() {
  draining_ = true;
  if (holds_ == 0 && (stream_ == nullptr || stream_->skipper.is_done())) close_after_replies();
}

void ClientSession::close_now() {
  if (!is_open()) return;
  if (stream_ != nullptr && stream_->connection != nullptr) {
    backend::BackendConnection* connection = std::exchange(stream_->connection, nullptr);
    connection->set_stream_source(nullptr);
    // Half a request is on it: it can't carry another.
    if (!stream_->skipper.is_done()) {
      abandon_tickets();
      connection->fail("the client left in the middle of a request");
    }
  }
  core_.backends->forget(this);
  abandon_tickets();
  resume_node_reading();
  unread_ = 0;
  if (unread_reported_ != 0) report_unread();
  sessions_.remove(this);
}

void ClientSession::abandon_tickets() {
  while (head_ != nullptr) {
    backend::Ticket* ticket = head_;
    head_ = ticket->next_in_session;
    if (ticket->pending != nullptr) ticket->pending->abandon();
    if (ticket->done || ticket->pending != nullptr) {
      settle(ticket);
    } else {
      ticket->owner = nullptr;
    }
  }
  tail_ = nullptr;
}

// --- streamed requests ---------------------------------------------------------------------------------------------

// The request at `bytes` is larger than limits.stream_request. True: it is on its way (or waits for its turn with
// consumed == 0); false: its keys are not known yet, or it is no command for one node, and it has to be buffered.
bool ClientSession::begin_stream(const char* bytes, std::size_t size, resp::FrameState& frame,
                                 std::size_t& consumed) {
  if (frame.args.size() < 2 || !is_plain()) return false;
  const resp::CommandSpec* spec = table().commands->find(frame.args[0]);
  if (spec == nullptr || !is_single_key(*spec) || handler_of(*spec) != nullptr ||
      is_reserved_key(frame.args[1]) ||
      !spec->arity_ok(frame.args.size() + static_cast<std::size_t>(frame.args_left))) {
    return false;
  }
  if (head_ != nullptr) {
    // Requests before it may be on the shared connection; this one must not overtake them.
    hold(Hold::Stream);
    return false;
  }
  slots::SlotId slot = slots::slot_of_key(frame.args[1]);
  slots::NodeIndex owner = table().map->owner(slot);
  backend::NodeBackend& backend = core_.backends->node(owner);
  bool elsewhere = is_redirect() && owner != listener_->node;
  const std::string* reason = elsewhere ? nullptr : backend.unavailable();
  backend::BackendConnection* connection = nullptr;
  if (!elsewhere && reason == nullptr) {
    connection = backend.take_large(protocol_, this);
    if (connection == nullptr) {
      backend.wait_for_large(this);
      hold(Hold::Stream);
      return false;
    }
  }
  core_.stats.requests.add();
  FrameSkipper skipper(frame.args_left, frame.bulk_length >= 0
                                            ? static_cast<std::uint64_t>(frame.bulk_length) + 2
                                            : 0);
  consumed = frame.position + skipper.take(bytes + frame.position, size - frame.position);
  stream_ = std::make_unique<RequestStream>(skipper, connection);
  if (connection != nullptr) {
    backend::Ticket* ticket = push_ticket();
    ticket->owner = this;
    ticket->node = owner;
    ticket->slot = slot;
    ticket->large = true;
    connection->submit(ticket, bytes, consumed);
    count_in_flight(ticket->request_bytes);
    hold(Hold::Stream);
  } else {
    stream_->answered = true;
    hold(Hold::Stream);
    if (elsewhere) {
      redirect(slot, owner);
    } else {
      reply(node_error(owner, slot, *reason));
    }
  }
  if (skipper.failed()) protocol_error("Protocol error: invalid bulk length");
  return true;
}

// Passes the next bytes of the streamed request on; returns how many belong to it.
std::size_t ClientSession::feed_stream(const char* bytes, std::size_t size) {
  if (stream_->skipper.is_done()) return 0;
  std::size_t used = stream_->skipper.take(bytes, size);
  if (stream_->connection != nullptr) stream_->connection->append_now(bytes, used);
  if (stream_->skipper.failed()) {
    protocol_error("Protocol error: invalid bulk length");
    if (stream_->connection != nullptr) stream_->connection->break_off();
    return size;
  }
  if (stream_->skipper.is_done() && stream_->answered) end_stream();
  return used;
}

// A streamed request's ticket is answered or lost.
void ClientSession::end_large(backend::Ticket* ticket) {
  ticket->large = false;
  if (stream_ == nullptr) return;
  stream_->answered = true;
  if (stream_->connection != nullptr) {
    // An answer before the end: the node refused the request; what is still to come goes nowhere.
    if (!stream_->skipper.is_done()) stream_->connection->break_off();
    stream_->connection->set_stream_source(nullptr);
    stream_->connection = nullptr;
  }
  if (stream_->skipper.is_done()) {
    end_stream();
  } else if (read_stopped_) {
    read_stopped_ = false;
    watch_now();
  }
}

void ClientSession::end_stream() {
  stream_.reset();
  release(Hold::Stream);
}

void ClientSession::on_room() {
  if (stream_ == nullptr) return release(Hold::Stream);
  if (!read_stopped_ || stream_->skipper.is_done()) return;
  read_stopped_ = false;
  watch_now();
}

}  // namespace proxy::session
