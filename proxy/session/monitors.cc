#include "proxy/session/monitors.h"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "proxy/resp/command_table.h"
#include "proxy/resp/key_finder.h"
#include "proxy/session/answer_of_all.h"
#include "proxy/session/client_address.h"
#include "proxy/session/commands.h"
#include "proxy/session/monitor_line.h"
#include "proxy/session/sessions.h"
#include "proxy/session/transaction.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using resp::CommandId;

std::uint64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// A client of an endpoint is told where to ask instead, and nothing is executed.
bool is_elsewhere(const ClientSession& session, const Request& request) {
  if (!session.is_redirect()) return false;
  thread_local std::vector<std::uint32_t> positions;
  if (!resp::find_keys(*request.spec, request.args, positions) || positions.empty()) return false;
  const slots::SlotId slot = slots::slot_of_key(request.args[positions.front()]);
  return session.is_elsewhere(slot, session.table().map->owner(slot));
}

}  // namespace

void command_monitor(ClientSession& session, const Request&) {
  if (session.transaction() != nullptr)
    return session.reply_error("ERR MONITOR isn't allowed for DENY BLOCKING client");
  Monitors& monitors = session.sessions().monitors();
  if (!monitors.contains(session)) monitors.begin(session);  // Else no answer, as Redis.
}

void Monitors::begin(ClientSession& session) {
  const auto answer = AnswerOfAll::of(session);
  sessions_.others().ask_all(
      [](Sessions& sessions) {
        sessions.monitors().change(1);
        return std::string();
      },
      [this, answer](const std::vector<std::string>&) {
        if (answer->session() == nullptr) return end_one();  // It has left meanwhile.
        script_calls_.begin([this, answer] {
          ClientSession* client = answer->session();
          if (client == nullptr) return end_one();
          mine_.insert(client);
          answer->fill("+OK\r\n");
        });
      });
}

void Monitors::end(ClientSession& session) {
  if (mine_.erase(&session) > 0) end_one();
}

void Monitors::tick() {
  if (mine_.empty() && !script_calls_.is_waited_for()) {
    script_calls_.end();
  } else {
    script_calls_.tick();
  }
}

void Monitors::end_one() {
  sessions_.others().tell_all([](Sessions& sessions) { sessions.monitors().change(-1); });
}

void Monitors::change(int by) {
  const bool had_any = has_any();
  of_all_workers_ += by;
  if (had_any != has_any())
    sessions_.for_each([](ClientSession& session) { session.on_monitoring_changed(); });
}

void Monitors::show(const ClientSession& session, const Request& request) {
  shown_before_ = lines_.size();
  if (is_elsewhere(session, request)) return;
  if (request.spec->id == CommandId::Exec) add_queued(session);
  if (is_shown(*request.spec)) add(session, *request.spec, request.args);
}

// What was queued is executed now, unless EXEC refuses it.
void Monitors::add_queued(const ClientSession& session) {
  const Transaction* transaction = session.transaction_if_any();
  if (transaction == nullptr || transaction->is_spoiled()) return;
  const resp::RequestLimits limits{static_cast<std::int64_t>(session.table().limits.bulk), true};
  transaction->for_each_request([&](std::string_view bytes) {
    resp::FrameState frame;
    resp::parse_request(frame, bytes.data(), bytes.size(), limits);
    const resp::CommandSpec* spec = resp::find_command(*session.table().commands, frame.args);
    if (spec != nullptr && is_shown(*spec)) add(session, *spec, frame.args);
    return frame.position;
  });
}

void Monitors::show_beginning(const ClientSession& session, const resp::CommandSpec& spec,
                              resp::Args args) {
  std::vector<std::string_view> known(args.begin(), args.end());
  known.emplace_back("...");
  if (is_shown(spec)) add(session, spec, known);
}

void Monitors::add(const ClientSession& session, const resp::CommandSpec& spec, resp::Args args) {
  const std::string address = client_address(session);
  const bool is_tcp = session.listener().is_tcp;
  lines_ += monitor_line(now_us(), session.channel().database(),
                         is_tcp ? address : "unix:" + session.listener().address, spec, args);
  if (is_dirty_) return;
  is_dirty_ = true;
  // Before the requests leave: what a script calls comes behind the line that called it.
  core_.dirty_connections.push_back(this);
}

void Monitors::flush() {
  is_dirty_ = false;
  if (lines_.empty()) return;
  const auto lines = std::make_shared<const std::string>(std::exchange(lines_, {}));
  sessions_.others().tell_all(
      [lines](Sessions& sessions) { sessions.monitors().hand_out(*lines); });
}

void Monitors::hand_out(std::string_view lines) {
  for (ClientSession* session : mine_) session->push(lines);
}

}  // namespace proxy::session
