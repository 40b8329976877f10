#include "proxy/backend/backend_connection.h"

#include "proxy/backend/backends.h"
#include "proxy/backend/refusals.h"
#include "proxy/resp/handshake.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/resp/reserved_key.h"
#include "slots/assert.h"

namespace proxy::backend {

namespace {

constexpr std::size_t kGreetingReplyMax = 64 * 1024;
constexpr std::size_t kRoomBytes =
    256 * 1024;  // A streamed request goes on when less than this is queued.

// What a node says of itself is no business of a client's: a cluster node's redirects, the proxy's
// own password. In words for a client; empty: the error is about the request.
std::string_view what_it_says_of_itself(std::string_view error) {
  for (std::string_view of_cluster : {"-MOVED ", "-ASK ", "-CLUSTERDOWN "}) {
    if (error.starts_with(of_cluster)) return "runs in cluster mode";
  }
  if (error.starts_with("-NOAUTH ")) return "wants a password that the proxy does not have";
  return {};
}

std::string run_id_in(std::string_view info) {
  constexpr std::string_view kField = "\nrun_id:";
  std::size_t at = info.find(kField);
  if (at == std::string_view::npos) return {};
  info.remove_prefix(at + kField.size());
  return std::string(info.substr(0, info.find('\r')));
}

}  // namespace

BackendConnection::BackendConnection(WorkerCore& core, NodeBackend& node, Channel channel,
                                     ConnectionUse use)
    : core_(core),
      node_(node),
      channel_(channel),
      use_(use),
      connector_(core.loop),
      connect_timer_(core.loop) {}

BackendConnection::~BackendConnection() {
  SP_ASSERT(head_ == nullptr);
  out_.release(core_.blocks);
}

void BackendConnection::connect() {
  core_.stats.backend_connects.add();
  connect_timer_.start(core_.table->timeouts.connect,
                       [this] { fail("no connection within timeouts.connect"); });
  connector_.connect(node_.route().address, core_.table->timeouts.connect,
                     [this](slots::Result<int> descriptor) {
                       if (!descriptor) return fail(descriptor.error().message);
                       open(core_.loop, *descriptor);
                       state_ = State::Greeting;
                       greet();
                     });
}

void BackendConnection::greet() {
  const NodeRoute& route = node_.route();
  resp::append_login(greeting_, route.username, route.password);
  if (!greeting_.empty()) greeting_steps_.push_back(GreetingStep::Auth);
  resp::append_request(greeting_, {"HELLO", channel_.protocol() == Protocol::Resp3 ? "3" : "2"});
  resp::append_request(greeting_, {"CLIENT", "SETNAME", core_.connection_name});
  resp::append_request(greeting_, {"INFO", "server"});
  resp::append_request(greeting_, {"GET", resp::kIdentityKey});
  resp::append_request(greeting_, {"ROLE"});
  greeting_steps_.insert(greeting_steps_.end(),
                         {GreetingStep::Hello, GreetingStep::SetName, GreetingStep::Server,
                          GreetingStep::Identity, GreetingStep::Role});
  if (channel_.database() != 0) {
    resp::append_request(greeting_, {"SELECT", std::to_string(channel_.database())});
    greeting_steps_.push_back(GreetingStep::Select);
  }
  if (const Quiet quiet = channel_.quiet(); quiet != Quiet::No) {
    const std::string target = std::to_string(node_.quiet_target(quiet));
    if (quiet == Quiet::All) {
      resp::append_request(greeting_,
                           {"CLIENT", "TRACKING", "ON", "REDIRECT", target, "NOLOOP", "BCAST"});
    } else {
      resp::append_request(greeting_, {"CLIENT", "TRACKING", "ON", "REDIRECT", target, "NOLOOP"});
    }
    greeting_steps_.push_back(GreetingStep::Quiet);
  }
  // A few hundred bytes into the empty buffer of a new connection: they fit.
  net::IoResult result = write_some(greeting_.data(), greeting_.size());
  if (result.status != net::IoStatus::Ok) return fail("connection lost while greeting");
  greeting_.clear();
  watch(true, false);
}

// One reply of the greeting; false: the connection has failed.
bool BackendConnection::take_greeting(std::string_view reply) {
  bool is_error = reply.starts_with('-');
  GreetingStep step = greeting_steps_[greeting_next_++];
  if (is_error && reply.starts_with("-LOADING"))
    return fail(std::string(resp::errors::kLoadingReason)), false;
  if (is_error && reply.starts_with("-NOAUTH"))
    return fail("wants a password that the proxy does not have"), false;
  switch (step) {
    case GreetingStep::Auth:
      if (is_error)
        return fail("did not accept the proxy's password: " + resp::error_text(reply)), false;
      break;
    case GreetingStep::Hello:
      if (is_error && channel_.protocol() == Protocol::Resp3)
        return fail("does not speak RESP3: " + resp::error_text(reply)), false;
      server_side_.client_id = resp::client_id_in(reply);
      break;
    case GreetingStep::Server:
      server_side_.run_id = run_id_in(reply);
      break;
    case GreetingStep::Identity: {
      if (reply.starts_with("-MOVED") || reply.starts_with("-CLUSTERDOWN")) {
        return fail("runs in cluster mode; slotproxy needs stock servers (cluster-enabled no)"),
               false;
      }
      std::size_t line = reply.find("\r\n");
      bool absent = is_error || reply.starts_with("$-1") || reply.starts_with('_');
      const std::string& expected = node_.route().identity;
      if (!absent && !expected.empty() &&
          reply.substr(line + 2, reply.size() - line - 4) != expected) {
        return fail("is another server than before: its identity key differs"), false;
      }
      break;
    }
    case GreetingStep::Quiet:
      if (is_error) return fail("can't leave a client's own changes out"), false;
      break;
    case GreetingStep::Role:
      if (!is_error && reply.find("master") == std::string_view::npos)
        return fail("is a replica"), false;
      break;
    case GreetingStep::Select:
      if (is_error) {
        break_off();  // The other databases are served as before.
        node_.note_lacks_database(channel_.database(), resp::error_text(reply));
        return fail("does not serve database " + std::to_string(channel_.database()) + ": " +
                    resp::error_text(reply)),
               false;
      }
      break;
    default:
      break;
  }
  if (greeting_next_ < greeting_steps_.size()) return true;
  if (const std::string& only = node_.route().only_run_id;
      !only.empty() && server_side_.run_id != only)
    return fail(NodeBackend::kRestarted), false;
  connect_timer_.stop();
  state_ = State::Ready;
  node_.on_connection_ready(*this);
  if (!dirty_) mark_dirty();
  return true;
}

void BackendConnection::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return fail("connection lost");
  if (writable) {
    write_blocked_ = false;
    if (!dirty_) mark_dirty();
  }
  if (readable) read_replies();
}

void BackendConnection::read_replies() {
  net::IoResult result = read_some(core_.read_buffer.get(), WorkerCore::kReadBytes);
  if (result.status == net::IoStatus::WouldBlock) return;
  if (result.status == net::IoStatus::Closed) return fail("connection lost");
  const char* p = core_.read_buffer.get();
  const char* end = p + result.count;
  while (p < end) {
    const char* reply_end = parser_.next(p, end);
    if (parser_.failed()) [[unlikely]]
      return fail("protocol error on the connection");
    if (reply_end == nullptr) {
      take_part(p, static_cast<std::size_t>(end - p));
      break;
    }
    if (!take_reply(p, static_cast<std::size_t>(reply_end - p))) return;
    p = reply_end;
  }
  if (answered_ >= measured_end_) [[unlikely]]
    end_measurement();
}

// A streamed request has no end yet that could be waited for, and others wait for more than the
// node.
void BackendConnection::begin_measurement() {
  measured_ms_ = tail_->submitted_ms;
  if (measured_end_ != kNotMeasured || use_ != ConnectionUse::Shared) return;
  measured_end_ = written_;
  measured_from_ns_ = uv_hrtime();
}

void BackendConnection::end_measurement() {
  measured_end_ = kNotMeasured;
  node_.note_latency((uv_hrtime() - measured_from_ns_) / 1000);
}

// A piece of a reply that goes on.
void BackendConnection::take_part(const char* bytes, std::size_t count) {
  if (state_ == State::Greeting) {
    greeting_reply_.append(bytes, count);
    if (greeting_reply_.size() > kGreetingReplyMax) fail("protocol error on the connection");
    return;
  }
  if (parser_.type() == '>') return;
  if (head_ == nullptr) return fail("protocol error on the connection");
  Ticket* ticket = head_;
  ticket->reply_bytes += count;
  if (!retiring_ && ticket->reply_bytes > core_.table->limits.stream_reply &&
      use_ == ConnectionUse::Shared)
    retire();
  if (ticket->owner == nullptr) return;
  if (parser_.type() != '-') {
    ticket->owner->on_part(ticket, bytes, count);
  } else {
    ticket->store(core_.blocks, bytes, count);
  }
}

// A reply's end; false: the connection is closed.
bool BackendConnection::take_reply(const char* bytes, std::size_t count) {
  if (state_ == State::Greeting) [[unlikely]] {
    greeting_reply_.append(bytes, count);
    std::string reply;
    reply.swap(greeting_reply_);
    return take_greeting(reply);
  }
  if (parser_.type() == '>') [[unlikely]]
    return true;
  Ticket* ticket = pop();
  if (ticket == nullptr) [[unlikely]]
    return fail("protocol error (a reply that nobody asked for) on the connection"), false;
  ticket->reply_bytes += count;
  if (ticket->owner != nullptr) [[likely]] {
    if (parser_.type() != '-') [[likely]] {
      ticket->owner->on_reply(ticket, bytes, count);
    } else {
      give_error(ticket, bytes, count);
    }
  } else {
    ticket->drop_stored(core_.blocks);
    core_.tickets.give(ticket);
  }
  if (head_ == nullptr && (retiring_ || use_ != ConnectionUse::Shared)) [[unlikely]] {
    return node_.on_connection_drained(this);
  }
  return is_open();
}

// An error is handed over whole, wherever reads have cut it.
void BackendConnection::give_error(Ticket* ticket, const char* bytes, std::size_t count) {
  std::string whole;
  std::string_view error(bytes, count);
  if (ticket->stored_bytes() > 0) {
    std::string scratch;
    whole.append(ticket->view(scratch)).append(error);
    ticket->drop_stored(core_.blocks);
    error = whole;
  }
  if (is_refusal(error)) core_.refusals->note(core_.now_ms());
  std::string_view about_itself = what_it_says_of_itself(error);
  if (about_itself.empty()) return ticket->owner->on_reply(ticket, error.data(), error.size());
  const NodeRoute& route = node_.route();
  ticket->owner->on_lost(ticket, resp::errors::node_reply(route.name, route.address.text(),
                                                          about_itself, ticket->slot));
}

Ticket* BackendConnection::pop() {
  Ticket* ticket = head_;
  if (ticket == nullptr) return nullptr;
  head_ = ticket->next_in_connection;
  __builtin_prefetch(head_);  // The next reply's, while this one is handled.
  answered_ += ticket->request_bytes;
  if (head_ == nullptr) {
    tail_ = nullptr;
    answered_ = appended_;  // Of a streamed request its beginning alone was counted.
  }
  return ticket;
}

void BackendConnection::put_back(Ticket* ticket) {
  ticket->next_in_connection = head_;
  head_ = ticket;
  if (tail_ == nullptr) tail_ = ticket;
  answered_ -= ticket->request_bytes;
}

void BackendConnection::append_now(const char* bytes, std::size_t count) {
  if (state_ == State::Ready && out_.empty() && !write_blocked_) {
    net::IoResult result =
        write_some(bytes, count);  // A broken connection shows itself at the next flush.
    appended_ += result.count;
    written_ += result.count;
    bytes += result.count;
    count -= result.count;
  }
  if (count > 0) append(bytes, count);
}

void BackendConnection::flush() {
  dirty_ = false;
  if (state_ != State::Ready || write_blocked_ || out_.empty()) return;
  net::IoResult result = write_chain(core_.blocks, out_);
  written_ += result.count;
  if (result.status == net::IoStatus::Closed) return fail("connection lost");
  write_blocked_ = result.status == net::IoStatus::WouldBlock;
  if (tail_ != nullptr && tail_->submitted_ms - measured_ms_ >= core_.latency_every_ms) [[unlikely]]
    begin_measurement();
  watch_now();
  if (stream_source_ != nullptr && out_.size() < kRoomBytes) stream_source_->on_room();
}

void BackendConnection::watch_now() { watch(!read_paused_, write_blocked_); }

void BackendConnection::pause_reading() {
  if (read_paused_ || !is_open()) return;
  read_paused_ = true;
  watch_now();
}

void BackendConnection::resume_reading() {
  if (!read_paused_) return;
  read_paused_ = false;
  if (is_open()) watch_now();
}

void BackendConnection::retire() {
  if (retiring_) return;
  retiring_ = true;
  for (Ticket* ticket = head_; ticket != nullptr; ticket = ticket->next_in_connection) {
    if (ticket->owner != nullptr) ticket->owner->on_retiring(ticket);
  }
  node_.on_connection_retired(this);
}

bool BackendConnection::is_kept_by_script(std::uint64_t limit_ms) const {
  return head_ != nullptr && head_->runs_script && is_overdue(limit_ms);
}

bool BackendConnection::is_overdue(std::uint64_t limit_ms) const {
  if (head_ == nullptr) return false;
  if (is_waiting_ && core_.now_ms() < wait_until_ms_) return false;
  if (is_waiting_) return core_.now_ms() - wait_until_ms_ > limit_ms;
  return static_cast<std::uint32_t>(core_.now_ms()) - head_->submitted_ms > limit_ms;
}

void BackendConnection::fail(const std::string& why) {
  if (state_ == State::Closed) return;
  core_.stats.backend_failures.add();
  bool was_ready = state_ == State::Ready;
  state_ = State::Closed;
  connect_timer_.stop();
  connector_.cancel();

  // What was written in part stays lost; what was not written at all may be sent again.
  std::vector<Ticket*> unsent;
  std::string unknown;
  resp::ReplyWriter(unknown, false)
      .error(resp::errors::outcome_unknown(node_.route().name, node_.route().address.text(), why));
  bool any_lost = false;
  std::uint64_t first_unsent = 0;
  while (head_ != nullptr) {
    bool sent = answered_ < written_ || head_->large;
    any_lost |= sent;
    if (!sent && unsent.empty()) first_unsent = answered_;
    Ticket* ticket = pop();
    if (!sent) {
      unsent.push_back(ticket);
    } else if (ticket->owner == nullptr) {
      ticket->drop_stored(core_.blocks);
      core_.tickets.give(ticket);
    } else {
      core_.stats.outcome_unknown.add();
      ticket->owner->on_lost(ticket, unknown);
    }
  }
  std::string bytes;
  if (!unsent.empty()) {
    std::string scratch;
    bytes = out_.contiguous(scratch).substr(static_cast<std::size_t>(first_unsent - written_));
  }
  out_.release(core_.blocks);
  if (stream_source_ != nullptr) stream_source_->on_room();
  stream_source_ = nullptr;
  if (any_lost) node_.note_lost(server_side_);
  node_.on_connection_failed(this, why, was_ready, unsent, bytes);
}

void BackendConnection::destroy(std::unique_ptr<BackendConnection> self) {
  state_ = State::Closed;
  connect_timer_.stop();
  connector_.cancel();
  out_.release(core_.blocks);
  if (pin_holder_ != nullptr) std::exchange(pin_holder_, nullptr)->on_pin_lost();
  if (is_open()) {
    close(std::move(self));
  } else {
    core_.graveyard.push_back(std::move(self));
  }
}

}  // namespace proxy::backend
