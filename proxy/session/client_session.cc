#include "proxy/session/client_session.h"

#include <algorithm>
#include <charconv>

#include "proxy/acl/user.h"
#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/route/cluster_replies.h"
#include "proxy/session/blocked_call.h"
#include "proxy/session/commands.h"
#include "proxy/session/fence_rules.h"
#include "proxy/session/sessions.h"
#include "proxy/session/subscribers.h"
#include "proxy/session/trackers.h"
#include "proxy/session/transaction.h"
#include "proxy/session/watch.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

constexpr std::size_t kStreamQueue = 1'000'000;  // Of a large request, ahead of the node.

void note_keys(slots::TopKeys& keys, const resp::CommandTable& commands, resp::Args args) {
  if (!keys.is_drawn()) return;
  const resp::CommandSpec* spec = resp::find_command(commands, args);
  if (spec == nullptr || !spec->arity_ok(args.size())) return;
  thread_local std::vector<std::uint32_t> positions;
  if (!resp::find_keys(*spec, args, positions)) return;
  for (std::uint32_t position : positions) {
    if (!resp::is_reserved_key(args[position]))
      keys.add(args[position], slots::slot_of_key(args[position]));
  }
}

}  // namespace

ClientSession::ClientSession(WorkerCore& core, Sessions& sessions,
                             std::shared_ptr<const ListenerFacts> listener, std::uint64_t id)
    : core_(core),
      sessions_(sessions),
      listener_(std::move(listener)),
      id_(id),
      created_ms_(core.now_ms()),
      last_active_ms_(created_ms_) {
  const std::uint64_t limit = core.table->limits.inflight_requests;
  window_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(window_, limit));
  begin_as_default();
}

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

// Each has connections of its own: what was asked before must have run before what comes now.
void ClientSession::set_channel(backend::Channel channel) {
  if (channel == channel_) return;
  if (head_ != nullptr) hold(Hold::Stream);
  // Watched keys have a connection that is never a quiet one.
  if (watch_ != nullptr && channel.with(backend::Quiet::No) != channel_.with(backend::Quiet::No))
    watch_->lose();
  channel_ = channel;
  note_plainness();
}

void ClientSession::set_tracking(std::unique_ptr<Tracking> tracking) {
  tracking_ = std::move(tracking);
  note_plainness();
}

void ClientSession::set_reply_mode(ReplyMode mode) {
  reply_mode_ = mode;
  note_plainness();
}

void ClientSession::set_transaction(std::unique_ptr<Transaction> transaction) {
  transaction_ = std::move(transaction);
  note_plainness();
}

std::unique_ptr<Transaction> ClientSession::take_transaction() {
  std::unique_ptr<Transaction> taken = std::move(transaction_);
  note_plainness();
  return taken;
}

void ClientSession::set_watch(std::unique_ptr<Watch> watch) {
  watch_ = std::move(watch);
  sessions_.add_watching(this);
  note_plainness();
}

std::unique_ptr<Watch> ClientSession::take_watch() {
  if (watch_ != nullptr) sessions_.remove_watching(this);
  std::unique_ptr<Watch> taken = std::move(watch_);
  note_plainness();
  return taken;
}

Subscriptions& ClientSession::subscriptions() {
  if (subscriptions_ == nullptr)
    subscriptions_ = std::make_unique<Subscriptions>(sessions_.subscribers(), *this);
  return *subscriptions_;
}

bool ClientSession::takes_messages_only() const {
  return !resp3() && subscriptions_ != nullptr && !subscriptions_->empty();
}

void ClientSession::note_plainness() {
  may_do_everything_ = user_->is_unrestricted();
  is_plain_ = authenticated_ && may_do_everything_ && reply_mode_ == ReplyMode::On &&
              transaction_ == nullptr && watch_ == nullptr && tracking_ == nullptr &&
              !takes_messages_only() && !sessions_.monitors().has_any();
}

void ClientSession::follow_map() { watch_->follow(*table().map); }

void ClientSession::reset() {
  sessions_.trackers().turn_off(*this);
  sessions_.monitors().end(*this);
  set_channel(backend::Channel(backend::Protocol::Resp2));
  reply_mode_ = ReplyMode::On;
  transaction_ = nullptr;
  take_watch();
  subscriptions_ = nullptr;
  if (notes_) notes_->name.clear();
  begin_as_default();
}

// --- reading

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
    bool is_midway = stream_ != nullptr && !stream_->skipper.is_done();
    if ((head_ == nullptr && out_.empty()) || is_midway) return close_now();
    close_after_replies();
  }
}

// Watched for while it is blocked. As for Redis it is gone then, even if it still reads: an element
// that comes now should be somebody else's.
void ClientSession::on_hung_up() {
  if (blocked_call_ == nullptr) return watch_now();
  close_after_replies();
  blocked_call_->take_back(TakenBack::ClientLeft);
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
    input_ = std::make_unique<Input>(core_.blocks, core_.frame);
    input_->bytes.append(bytes + used, count - used);
    input_->frame.rebase(bytes + used, input_->bytes.data());
    return;
  }
  const char* before = input_->bytes.data();
  input_->bytes.append(bytes, count);
  if (input_->bytes.data() != before) input_->frame.rebase(before, input_->bytes.data());
  if (input_->bytes.size() >= input_->frame.bytes_needed()) process_kept_input();
}

// Executes what input_ holds, as far as that goes now.
void ClientSession::process_kept_input() {
  Input& input = *input_;
  input.bytes.consume(process(input.bytes.data(), input.bytes.size(), input.frame));
  if (closing_ || input.bytes.empty()) input_.reset();
}

// Executes whole requests; returns how many bytes they took. What is left belongs to `frame`.
std::size_t ClientSession::process(const char* bytes, std::size_t size, resp::FrameState& frame) {
  resp::RequestLimits limits{static_cast<std::int64_t>(table().limits.bulk), authenticated_};
  const bool is_looked_at = is_watched();
  std::size_t used = 0;
  std::size_t begun = 0;  // Where the request that was executed last begins.
  while (used < size && holds_ == 0 && !closing_) {
    if (bytes[used] != '*') [[unlikely]] {
      std::size_t consumed = 0;
      if (!process_inline(bytes + used, size - used, consumed)) return used;
      used += consumed;
      continue;
    }
    resp::FrameOutcome outcome = resp::parse_request(frame, bytes + used, size - used, limits);
    if (outcome == resp::FrameOutcome::Complete) [[likely]] {
      if (is_looked_at && !may_pass(frame.args)) [[unlikely]] {
        frame.clear();
        return used;
      }
      std::string_view whole(bytes + used, frame.position);
      begun = used;
      used += whole.size();
      if (!frame.args.empty()) execute(frame.args, whole);
      frame.clear();
      limits.authenticated = authenticated_;
    } else if (outcome == resp::FrameOutcome::Invalid) {
      protocol_error(frame.error);
      return size;
    } else {
      std::size_t consumed = 0;
      if (frame.is_larger_than(table().limits.stream_request) &&
          begin_stream(bytes + used, size - used, frame, consumed)) {
        frame.clear();
        return used + consumed;
      }
      if (holds_ == 0 && frame.bytes_needed() > table().limits.buffered_request) {
        protocol_error("request is larger than limits.buffered_request");
        return size;
      }
      return used;
    }
  }
  if (is_put_off_) [[unlikely]] {
    is_put_off_ = false;
    return begun;
  }
  return closing_ ? size : used;
}

// False: more bytes are needed, or the session is held or over.
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
  if (is_watched() && !may_pass(args)) return false;
  std::string frame;
  resp::append_array_header(frame, args.size());
  for (std::string_view arg : args) resp::append_bulk(frame, arg);
  execute(args, frame);
  return !std::exchange(is_put_off_, false);
}

void ClientSession::protocol_error(std::string_view text) {
  reply_error(std::string("ERR ").append(text));
  close_after_replies();
}

// --- executing

void ClientSession::execute(resp::Args args, std::string_view bytes) {
  core_.stats.requests.add();
  const resp::CommandSpec* spec = table().commands->find(args[0]);
  if (spec != nullptr && is_single_key(*spec) && is_plain() && spec->arity_ok(args.size()) &&
      handler_of(*spec) == nullptr && !resp::is_reserved_key(args[1])) [[likely]] {
    slots::SlotId slot = slots::slot_of_key(args[1]);
    slots::NodeIndex owner = table().map->owner(slot);
    if (is_elsewhere(slot, owner)) return redirect(slot, owner);
    return forward(owner, slot, bytes);
  }
  Request request{args, bytes, spec};
  execute_slowly(request);
}

void ClientSession::execute_slowly(Request& request) {
  if (reply_mode_ == ReplyMode::SkipNext) reply_mode_ = ReplyMode::Skip;
  tracking_ == nullptr ? dispatch(*this, request) : sessions_.trackers().dispatch(*this, request);
  if (reply_mode_ == ReplyMode::Skip)
    set_reply_mode(is_put_off_ ? ReplyMode::SkipNext : ReplyMode::On);
}

void ClientSession::redirect(slots::SlotId slot, slots::NodeIndex owner) {
  if (table().cluster_replies == nullptr) [[unlikely]]
    return reply(node_error(owner, slot, "has no endpoint that a client could be sent to"));
  core_.stats.redirects.add();
  const std::string& endpoint = table().cluster_replies->moved_suffix(owner);
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, slot).ptr;
  std::string& out = core_.scratch;
  out.assign("-MOVED ").append(text, end).append(" ").append(endpoint).append("\r\n");
  reply(out);
}

void ClientSession::forward(slots::NodeIndex node, slots::SlotId slot, std::string_view bytes) {
  const std::string* why = nullptr;
  backend::BackendConnection* connection = core_.backends->node(node).accepting(channel_, why);
  if (connection == nullptr) [[unlikely]]
    return reply(node_error(node, slot, *why));
  forward_over(*connection, slot, bytes);
}

void ClientSession::forward_script(slots::NodeIndex node, slots::SlotId slot,
                                   std::string_view bytes) {
  backend::Ticket* before = tail_;
  forward(node, slot, bytes);
  if (tail_ != before && !tail_->done) tail_->runs_script = true;
}

void ClientSession::put_off() {
  is_put_off_ = true;
  core_.stats.requests.subtract(1);
  hold(Hold::Stream);
}

void ClientSession::send_ahead(slots::NodeIndex node, backend::Channel channel,
                               std::string_view bytes) {
  backend::NodeBackend& backend = core_.backends->node(node);
  if (backend.unavailable() != nullptr) return;
  backend::Ticket* ticket =
      core_.tickets.take();  // No owner: the connection drops the reply and frees the ticket.
  ticket->sent_ahead = true;
  backend.shared(channel)->submit(ticket, bytes.data(), bytes.size());
}

std::string ClientSession::node_error(slots::NodeIndex node, slots::SlotId slot,
                                      const std::string& reason) const {
  core_.stats.errors.add();
  const NodeRoute& route = table().nodes[node];
  return resp::errors::node_reply(route.name, route.address.text(), reason, slot);
}

// --- holding

bool ClientSession::is_watched() const {
  return table().fence != nullptr || core_.hot_keys != nullptr || sessions_.paused().is_pause_set();
}

bool ClientSession::may_pass(resp::Args args) {
  if (sessions_.paused().has_to_wait(*this, args)) {
    hold_for_pause();
    return false;
  }
  if (table().fence != nullptr && is_kept_back(*table().fence, args)) {
    hold_for_fence();
    return false;
  }
  if (core_.hot_keys != nullptr && authenticated_)
    note_keys(*core_.hot_keys, *table().commands, args);
  return true;
}

// Of a transaction EXEC alone: the rest is only queued.
bool ClientSession::is_kept_back(const Fence& fence, resp::Args args) const {
  if (transaction_ == nullptr) return keeps_back(fence, *table().commands, args);
  return !args.empty() && resp::is_word(args[0], "exec") && transaction_->is_kept_back_by(fence);
}

void ClientSession::hold_for_fence() {
  hold(Hold::Fence);
  sessions_.add_fenced(this);
}

void ClientSession::hold_for_pause() {
  hold(Hold::Pause);
  sessions_.paused().add(this);
  if (draining_) close_after_replies();
}

void ClientSession::on_fence_ended(std::shared_ptr<const Fence> fence) {
  if (input_ != nullptr) input_->kept_back_by = std::move(fence);
  go_on_after(Hold::Fence);
}

void ClientSession::on_pause_ended() { go_on_after(Hold::Pause); }

void ClientSession::go_on_after(Hold reason) {
  // Whether it waits for the answer nobody can tell: a request that is executed late, after what
  // others have been told meanwhile, would do more harm than one that is not executed at all.
  if (has_hung_up()) {
    input_.reset();
    close_after_replies();
  }
  last_active_ms_ = core_.now_ms();  // It was not read from: silence is no fault of the client's.
  release(reason);
}

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
  if (input_ != nullptr && holds_ == 0) input_->kept_back_by = nullptr;
  if (draining_ && holds_ == 0) close_after_replies();
  if (!is_open()) return;
  bool feeding = stream_ != nullptr && !stream_->skipper.is_done();
  if (holds_ == 0 || feeding) read_stopped_ = false;
  watch_now();
}

void ClientSession::watch_now() {
  if (!is_open()) return;
  const bool is_blocked = blocked_call_ != nullptr && !closing_;
  watch(!closing_ && !read_stopped_, write_blocked_, is_blocked);
}

// --- ending

void ClientSession::close_after_replies() {
  if (closing_) return;
  closing_ = true;
  mark_dirty();
  watch_now();
}

void ClientSession::drain() {
  draining_ = true;
  if (blocked_call_ != nullptr) blocked_call_->take_back(TakenBack::ProxyEnds);
  if (is_held_for(Hold::Pause)) {  // Nobody waits for the end of a pause.
    input_.reset();
    return close_after_replies();
  }
  bool is_midway = stream_ != nullptr && !stream_->skipper.is_done();
  if (holds_ == 0 && !resumable_ && !is_midway) close_after_replies();
}

void ClientSession::close_now() {
  if (!is_open()) return;
  if (stream_ != nullptr && !stream_->skipper.is_done()) {
    break_stream();
  } else if (stream_ != nullptr && stream_->connection != nullptr) {
    stream_->connection->set_stream_source(nullptr);
  }
  core_.backends->forget(this);
  give_place();
  take_watch();
  sessions_.trackers().turn_off(*this);
  sessions_.monitors().end(*this);
  abandon_tickets();
  subscriptions_ = nullptr;
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

}  // namespace proxy::session
