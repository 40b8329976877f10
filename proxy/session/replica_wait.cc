#include "proxy/session/replica_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/blocking_rules.h"

namespace proxy::session {

ReplicaWait::ReplicaWait(ClientSession& session, const Request& request)
    : BlockedCall(session, request, slots::kNoSlot) {}

void ReplicaWait::ask_nodes(const Request& request) {
  WorkerCore& core = session().core();
  std::string ahead;
  resp::append_request(ahead, {"PING"});
  const std::uint64_t time_ms = blocking_time(command(), request.args).value_or(0);
  const backend::WaitRequest wait{
      ahead, request.bytes, slots::kNoSlot,
      time_ms == 0 ? backend::NodeWait::kForever : core.now_ms() + time_ms};
  bool is_any_sent = false;
  // A client of an endpoint writes to that endpoint's node alone; a plain one may have written to
  // any that owns slots.
  for (const slots::NodeIndex index : nodes_meant(session(), NodesMeant::Owners)) {
    backend::NodeBackend& node = core.backends->node(index);
    if (const std::string* why = node.unavailable()) {
      take(session().node_error(index, slots::kNoSlot, *why));
      continue;
    }
    auto part = std::make_unique<Part>();
    part->whole = this;
    part->wait = backend::NodeWait::begin(core, node, session().channel(), wait, *part);
    if (part->wait == nullptr) {
      take(refused_by_limit(node));
      continue;
    }
    is_any_sent |= part->wait->is_sent();
    ++waiting_;
    parts_.push_back(std::move(part));
  }
  if (is_any_sent) note_begun();
  if (waiting_ == 0) run_at_turns_end();
  if (session().is_draining()) take_back(TakenBack::ProxyEnds);
}

void ReplicaWait::take(std::string_view reply) {
  if (const auto count = resp::ReplyCursor(reply).read_integer()) {
    least_ = std::min(least_.value_or(*count), *count);
  } else if (error_.empty()) {
    error_ = reply;
  }
  if (waiting_ == 0 || !error_.empty()) run_at_turns_end();
}

void ReplicaWait::Part::on_wait_part(backend::Ticket& ticket, const char* bytes,
                                     std::size_t count) {
  ticket.store(whole->session().core().blocks, bytes, count);
}

void ReplicaWait::Part::on_wait_reply(backend::Ticket& ticket, const char* bytes,
                                      std::size_t count) {
  wait = nullptr;
  on_wait_part(ticket, bytes, count);
  std::string scratch;
  --whole->waiting_;
  whole->take(ticket.view(scratch));
}

void ReplicaWait::Part::on_wait_lost(std::string_view error) {
  wait = nullptr;
  --whole->waiting_;
  whole->take(error);
}

// Not sent yet: nothing is known of this node.
void ReplicaWait::Part::on_wait_taken_back(const std::vector<std::string>&) {
  wait = nullptr;
  --whole->waiting_;
  whole->take(":0\r\n");
}

void ReplicaWait::on_taken_back(TakenBack) { run_at_turns_end(); }

void ReplicaWait::run() {
  const bool is_cut_short =
      why() == TakenBack::Unblocked && unblock_reply() == backend::UnblockReply::Timeout;
  if (is_cut_short && waiting_ > 0 && error_.empty()) {
    for (const auto& part : parts_) {  // Each node says how many it knows of now.
      if (part->wait != nullptr) part->wait->take_back(backend::UnblockReply::Timeout);
    }
    return;
  }
  const std::string reply = why() == TakenBack::No || is_cut_short ? merged_answer() : own_answer();
  leave_parts();
  answer(reply);
  delete this;
}

std::string ReplicaWait::merged_answer() const {
  if (!error_.empty()) return error_;
  if (!least_) return fmt::format("-{}\r\n", resp::errors::kNodeLeft);
  return fmt::format(":{}\r\n", *least_);
}

void ReplicaWait::leave_parts() {
  for (const auto& part : parts_) {
    if (part->wait != nullptr) std::exchange(part->wait, nullptr)->leave();
  }
}

void ReplicaWait::leave() {
  leave_parts();
  delete this;
}

}  // namespace proxy::session
