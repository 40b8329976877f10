#include "proxy/session/blocked_request.h"

#include <utility>

#include "proxy/resp/reply_writer.h"
#include "proxy/resp/request_parser.h"

namespace proxy::session {

namespace {

// Of a request that was framed before.
std::vector<std::string_view> arguments_of(std::string_view bytes) {
  resp::FrameState frame;
  resp::parse_request(frame, bytes.data(), bytes.size(), {});
  return std::move(frame.args);
}

std::string redirection(ClientSession& session, slots::SlotId slot, slots::NodeIndex owner) {
  std::string reply;
  session.capture_replies(&reply);
  session.redirect(slot, owner);
  session.capture_replies(nullptr);
  return reply;
}

}  // namespace

BlockedRequest::BlockedRequest(ClientSession& session, const Request& request, slots::SlotId slot)
    : BlockedCall(session, request, slot), bytes_(request.bytes) {
  const std::uint64_t time_ms = blocking_time(*request.spec, request.args).value_or(0);
  if (time_ms > 0) deadline_ms_ = session.core().now_ms() + time_ms;
}

void BlockedRequest::issue() {
  const slots::NodeIndex owner = session().table().map->owner(slot());
  if (session().is_elsewhere(slot(), owner)) return finish(redirection(session(), slot(), owner));
  if (begin_wait(owner)) return;
  if (wait_->is_sent()) note_begun();
  if (session().is_draining()) take_back(TakenBack::ProxyEnds);
}

bool BlockedRequest::begin_wait(slots::NodeIndex owner) {
  WorkerCore& core = session().core();
  backend::NodeBackend& node = core.backends->node(owner);
  if (const std::string* why = node.unavailable())
    return finish(session().node_error(owner, slot(), *why)), true;
  const std::uint64_t now = core.now_ms();
  backend::WaitRequest request{
      {}, bytes_, slot(), deadline_ms_.value_or(backend::NodeWait::kForever)};
  std::string shortened;
  if (std::exchange(is_anew_, true) && deadline_ms_) {
    if (now >= *deadline_ms_) return finish(resp::null_array(session().resp3())), true;
    request.bytes = shortened = with_time(command(), arguments_of(bytes_), *deadline_ms_ - now);
  }
  wait_ = backend::NodeWait::begin(core, node, session().channel(), request, *this);
  if (wait_ != nullptr) return false;
  finish(refused_by_limit(node));
  return true;
}

void BlockedRequest::finish(std::string_view reply) {
  answer(reply);
  delete this;
}

void BlockedRequest::on_wait_reply(backend::Ticket& ticket, const char* bytes, std::size_t count) {
  pass_on_reply(ticket, bytes, count);
  delete this;
}

void BlockedRequest::on_wait_lost(std::string_view error) {
  pass_on_loss(error);
  delete this;
}

// What "$" means must be asked where writes could still come before the fence.
std::vector<std::string> BlockedRequest::questions() const {
  std::vector<std::string> questions;
  const std::vector<std::string_view> args = arguments_of(bytes_);
  for (const IdOfNow& each : ids_of_now_) {
    std::string request;
    resp::append_request(request, {"XINFO", "STREAM", args[each.stream]});
    questions.push_back(std::move(request));
  }
  return questions;
}

void BlockedRequest::on_taken_back(TakenBack before) {
  if (wait_ == nullptr) return run_at_turns_end();
  if (before != TakenBack::No) return;  // It comes back already.
  if (why() == TakenBack::Moved) ids_of_now_ = ids_of_now(command(), arguments_of(bytes_));
  wait_->take_back(backend::UnblockReply::Error, questions());
}

void BlockedRequest::on_wait_taken_back(const std::vector<std::string>& answers) {
  wait_ = nullptr;
  run_at_turns_end();
  const std::vector<IdOfNow> asked = std::exchange(ids_of_now_, {});
  if (answers.empty()) return;
  std::vector<std::string> ids;
  for (const std::string& reply : answers) {
    const std::optional<std::string> id = last_id_in(reply);
    is_lost_ |= !id.has_value();
    ids.push_back(id.value_or("$"));
  }
  bytes_ = with_ids(arguments_of(bytes_), asked, ids);
}

void BlockedRequest::run() {
  if (why() > TakenBack::Moved) return finish(own_answer());
  if (is_lost_) {
    return finish(session().node_error(session().table().map->owner(slot()), slot(),
                                       "could not say what $ meant there; ask again"));
  }
  forget_why();
  const Fence* fence = session().table().fence.get();
  is_parked_ = fence != nullptr && fence->slots.contains(slot());
  if (!is_parked_) issue();
}

void BlockedRequest::on_fence_ended() {
  if (std::exchange(is_parked_, false)) run_at_turns_end();
}

void BlockedRequest::follow_map() {
  if (wait_ == nullptr) return;
  WorkerCore& core = session().core();
  const slots::NodeIndex owner = session().table().map->owner(slot());
  if (&core.backends->node(owner) != &wait_->node()) take_back(TakenBack::Moved);
}

void BlockedRequest::leave() {
  backend::NodeWait* wait = std::exchange(wait_, nullptr);
  delete this;
  if (wait != nullptr) wait->leave();
}

}  // namespace proxy::session
