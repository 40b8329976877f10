// ClientSession, requests above limits.stream_request: passed on as they arrive, on a connection of
// their own.

#include "proxy/resp/command_table.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/client_session.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"
#include "slots/key_slot.h"

namespace proxy::session {

// The request at `bytes` is larger than limits.stream_request. True: it is on its way (or waits for
// its turn with consumed == 0); false: its keys are not known yet, or it is no command for one
// node, and it has to be buffered.
bool ClientSession::begin_stream(const char* bytes, std::size_t size, resp::FrameState& frame,
                                 std::size_t& consumed) {
  if (frame.args.size() < 2) return false;
  const resp::CommandSpec* spec = table().commands->find(frame.args[0]);
  if (spec == nullptr || !may_stream(*spec) || !is_single_key(*spec) ||
      handler_of(*spec) != nullptr || resp::is_reserved_key(frame.args[1]) ||
      !spec->arity_ok(frame.args.size() + static_cast<std::size_t>(frame.args_left))) {
    return false;
  }
  if (head_ != nullptr) {
    // Requests before it may be on the shared connection; this one must not overtake them.
    hold(Hold::Stream);
    return false;
  }
  slots::SlotId slot = slots::slot_of_key(frame.args[1]);
  if (table().fence != nullptr && table().fence->slots.contains(slot)) {
    hold_for_fence();
    return false;
  }
  if (sessions_.paused().has_to_wait(*spec)) {
    hold_for_pause();
    return false;
  }
  slots::NodeIndex owner = table().map->owner(slot);
  backend::NodeBackend& backend = core_.backends->node(owner);
  bool elsewhere = is_elsewhere(slot, owner);
  const std::string* reason = elsewhere ? nullptr : backend.unavailable();
  backend::BackendConnection* connection = nullptr;
  if (!elsewhere && reason == nullptr) {
    connection = backend.take_large(channel_, this);
    if (connection == nullptr) {
      backend.wait_for_large(this);
      hold(Hold::Stream);
      return false;
    }
  }
  core_.stats.requests.add();
  if (sessions_.monitors().has_any() && !is_elsewhere(slot, owner))
    sessions_.monitors().show_beginning(*this, *spec, frame.args);
  if (core_.hot_keys != nullptr && core_.hot_keys->is_drawn())
    core_.hot_keys->add(frame.args[1], slot);
  FrameSkipper skipper(frame.args_left, frame.bulk_length >= 0
                                            ? static_cast<std::uint64_t>(frame.bulk_length) + 2
                                            : 0);
  consumed = frame.position + skipper.take(bytes + frame.position, size - frame.position);
  stream_ = std::make_unique<RequestStream>(skipper, connection, slot);
  if (connection != nullptr) {
    backend::Ticket* ticket = push_ticket();
    ticket->owner = this;
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
  if (skipper.failed()) refuse_stream();
  return true;
}

bool ClientSession::may_stream(const resp::CommandSpec& spec) const {
  return authenticated_ && may_do_everything_ && reply_mode_ == ReplyMode::On &&
         transaction_ == nullptr && watch_ == nullptr && !takes_messages_only() &&
         (tracking_ == nullptr || spec.has(resp::CommandFlag::Write)) &&
         !sessions_.monitors().contains(*this);
}

// Half a request is on the connection, and the rest will not come: it can't carry another.
void ClientSession::break_stream() {
  if (stream_->connection != nullptr) {
    backend::BackendConnection* connection = std::exchange(stream_->connection, nullptr);
    connection->set_stream_source(nullptr);
    abandon_tickets();
    connection->break_off();
    connection->fail("the client broke a request off");
  }
  stream_.reset();
}

// The frame is broken; the client is told, and goes.
void ClientSession::refuse_stream() {
  break_stream();
  protocol_error("Protocol error: expected '$' and a length, or CRLF behind an argument");
}

// Passes the next bytes of the streamed request on; returns how many belong to it.
std::size_t ClientSession::feed_stream(const char* bytes, std::size_t size) {
  if (stream_->skipper.is_done()) return 0;
  std::size_t used = stream_->skipper.take(bytes, size);
  if (stream_->connection != nullptr) {
    stream_->connection->append_now(bytes, used);
    core_.traffic->add_bytes(stream_->slot, used);
  }
  if (stream_->skipper.failed()) {
    refuse_stream();
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
