// MULTI, EXEC, DISCARD, WATCH and UNWATCH, and what happens to requests between MULTI and EXEC.
//
// A request is looked at as it is queued, as Redis does: what could not be executed is refused at
// once, and the whole transaction with it at EXEC. Texts are Redis 7.0's.

#include <fmt/format.h>

#include "proxy/resp/arguments.h"
#include "proxy/resp/command_table.h"
#include "proxy/resp/error_text.h"
#include "proxy/resp/key_finder.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/session/commands.h"
#include "proxy/session/fence_rules.h"
#include "proxy/session/rights.h"
#include "proxy/session/script_cache.h"
#include "proxy/session/transaction.h"
#include "proxy/session/transaction_rules.h"
#include "proxy/session/watch.h"
#include "slots/key_slot.h"

namespace proxy::session {

namespace {

using resp::CommandId;

constexpr std::string_view kOk = "+OK\r\n";
constexpr std::string_view kQueued = "+QUEUED\r\n";
constexpr std::string_view kAborted = "EXECABORT Transaction discarded because of previous errors.";

// --- queueing

// The slot of a request's keys, if it has any; false: it was rejected.
bool place_by_keys(ClientSession& session, Transaction& transaction, const Request& request) {
  thread_local std::vector<std::uint32_t> positions;
  if (slots::Status found = resp::find_keys(*request.spec, request.args, positions); !found) {
    if (request.spec->rule == resp::KeyRule::Unknown)
      return session.reject(found.error().message), false;
    positions.clear();  // Arguments that are wrong: the node says so, in EXEC's reply.
  }
  if (positions.empty()) {
    if (may_write_any_key(*request.spec)) transaction.writes_any_key();
    return true;
  }
  slots::SlotId slot =
      transaction.slot().value_or(slots::slot_of_key(request.args[positions.front()]));
  for (std::uint32_t position : positions) {
    std::string_view key = request.args[position];
    if (resp::is_reserved_key(key)) return session.reject(resp::errors::kReservedKey), false;
    if (slots::slot_of_key(key) != slot) return session.reject(resp::errors::kCrossSlot), false;
  }
  slots::NodeIndex owner = session.table().map->owner(slot);
  if (session.is_elsewhere(slot, owner)) {
    transaction.spoil();
    session.redirect(slot, owner);
    return false;
  }
  transaction.set_slot(slot);
  return true;
}

// So that EVALSHA finds the script at the node, and later ones at the others.
void note_scripts(ClientSession& session, Transaction& transaction, const Request& request) {
  WorkerScripts& scripts = session.core().scripts->of(session.core().worker);
  const std::uint64_t limit = session.table().limits.script_cache;
  switch (request.spec->id) {
    case CommandId::Eval:
    case CommandId::EvalRo:
      return scripts.remember(request.args[1], limit);
    case CommandId::ScriptLoad:
      return scripts.remember(request.args[2], limit);
    case CommandId::Evalsha:
    case CommandId::EvalshaRo:
      if (auto id = parse_script_id(request.args[1])) transaction.needs_script(*id);
      return;
    case CommandId::ScriptExists:
      for (std::string_view name : request.args.subspan(2)) {
        if (auto id = parse_script_id(name)) transaction.needs_script(*id);
      }
      return;
    default:
      return;
  }
}

void ask_whether_queued(ClientSession& session, slots::NodeIndex node, slots::SlotId slot,
                        const Request& request) {
  const std::string* why = nullptr;
  backend::BackendConnection* connection =
      session.core().backends->node(node).accepting(session.channel(), why);
  if (connection == nullptr) return session.reply(kQueued);  // EXEC will say why not.
  (new QueueReplies(session))->ask(*connection, slot, request.bytes);
}

void queue_for_node(ClientSession& session, Transaction& transaction, const Request& request) {
  if (!place_by_keys(session, transaction, request)) return;
  note_scripts(session, transaction, request);
  const std::string_view name = request.args.size() > 1 ? request.args[1] : std::string_view();
  transaction.note_writing(may_write(*request.spec, request.args), name);
  transaction.add_for_node(request.bytes);
  const slots::NodeIndex node =
      transaction.slot() ? session.table().map->owner(*transaction.slot()) : slots::kNoNode;
  if (node == slots::kNoNode || !QueueReplies::are_needed(session, node))
    return session.reply(kQueued);
  ask_whether_queued(session, node, *transaction.slot(), request);
}

// The handler refuses it, as it would outside of a transaction.
void refuse_by_handler(ClientSession& session, Transaction& transaction, const Request& request,
                       Handler handler) {
  transaction.spoil();
  handler(session, request);
}

// --- sending

// The replies to those that the proxy answers itself, in the place of the requests.
void answer_own(ClientSession& session, Transaction& transaction) {
  const resp::CommandTable& commands = *session.table().commands;
  const resp::RequestLimits limits{static_cast<std::int64_t>(session.table().limits.bulk), true};
  for (Transaction::Own& own : transaction.own()) {
    if (own.is_answered) continue;
    resp::FrameState frame;
    resp::parse_request(frame, own.text.data(), own.text.size(), limits);
    const resp::CommandSpec* spec = commands.find(frame.args[0]);
    const Handler handler = handler_of(*spec);
    if (spec->rule == resp::KeyRule::Container) spec = commands.find_sub(*spec, frame.args[1]);
    std::string reply;
    session.capture_replies(&reply);
    handler(session, Request{frame.args, own.text, spec});
    session.capture_replies(nullptr);
    own.text = std::move(reply);
  }
}

void reply_own(ClientSession& session, Transaction& transaction) {
  answer_own(session, transaction);
  std::string out;
  resp::append_array_header(out, transaction.size());
  for (const Transaction::Own& own : transaction.own()) out.append(own.text);
  session.reply(out);
}

void send(ClientSession& session, Transaction& transaction, slots::NodeIndex node,
          backend::BackendConnection& connection) {
  const bool is_shared = connection.use() == backend::ConnectionUse::Shared;
  std::string bytes;
  const std::size_t loads = append_scripts(session, node, transaction.scripts(), is_shared, bytes);
  const std::size_t requests = transaction.size_at_node();
  if (loads == 0) {
    bytes = transaction.take_bytes();
  } else {
    bytes.append(transaction.take_bytes());
  }
  answer_own(session, transaction);
  (new ExecReplies(session, transaction.size(), std::move(transaction.own())))
      ->send(connection, transaction.slot().value_or(slots::kNoSlot), bytes, loads, requests);
}

void send_shared(ClientSession& session, Transaction& transaction, slots::NodeIndex node) {
  const std::string* why = nullptr;
  backend::BackendConnection* connection =
      session.core().backends->node(node).accepting(session.channel(), why);
  if (connection == nullptr)
    return session.reply(
        session.node_error(node, transaction.slot().value_or(slots::kNoSlot), *why));
  send(session, transaction, node, *connection);
}

// --- watching

// The slot of all keys; nothing: the request was answered.
std::optional<slots::SlotId> slot_to_watch(ClientSession& session, resp::Args keys) {
  const slots::SlotId slot = slots::slot_of_key(keys.front());
  const Watch* watch = session.watch_if_any();
  for (std::string_view key : keys) {
    if (resp::is_reserved_key(key))
      return session.reply_error(resp::errors::kReservedKey), std::nullopt;
    if (slots::slot_of_key(key) != slot || (watch != nullptr && watch->slot() != slot))
      return session.reply_error(resp::errors::kCrossSlot), std::nullopt;
  }
  slots::NodeIndex owner = session.table().map->owner(slot);
  if (session.is_elsewhere(slot, owner)) return session.redirect(slot, owner), std::nullopt;
  return slot;
}

// False: the error was replied.
bool begin_watch(ClientSession& session, slots::SlotId slot) {
  const slots::NodeIndex owner = session.table().map->owner(slot);
  const backend::NodeBackend& node = session.core().backends->node(owner);
  if (const std::string* why = node.unavailable())
    return session.reply(session.node_error(owner, slot, *why)), false;
  auto watch = std::make_unique<Watch>(session.core(), slot);
  if (!watch->take_connection(owner, session.channel())) {
    session.reply_error(resp::errors::connections_in_use("pinned_connections", node.route().name));
    return false;
  }
  session.set_watch(std::move(watch));
  return true;
}

// What hangs on the session's database.
std::string why_not_queued(const ClientSession& session, const Request& request) {
  if (request.spec->id == CommandId::Copy)
    return std::string(why_not_copied(session, request.args));
  if (request.spec->id != CommandId::Select) return {};
  const auto database = resp::integer_of(request.args[1]);
  if (!database || *database == session.channel().database()) return {};
  return resp::errors::not_supported(
      request.spec->name, "a transaction stays in its database; SELECT before MULTI or after EXEC");
}

}  // namespace

bool queue(ClientSession& session, const Request& request, Handler handler) {
  Transaction& transaction = *session.transaction();
  const QueuedAs as = queued_as(*request.spec, request.args);
  if (as == QueuedAs::AtOnce) return false;
  if (const std::string refusal = why_not_queued(session, request); !refusal.empty())
    return session.reject(refusal), true;
  if (request.spec->has(resp::CommandFlag::NoMulti)) {
    session.reject("ERR Command not allowed inside a transaction");
  } else if (as == QueuedAs::MeansAll) {
    session.reject(resp::errors::not_supported(
        request.spec->name, "a transaction runs on one node, and this means more than one"));
  } else if (as == QueuedAs::ChangesReply) {
    session.reject(resp::errors::not_supported(
        request.spec->name, "it would change the form of the transaction's own reply"));
  } else if (as == QueuedAs::AsUsual && handler != nullptr) {
    refuse_by_handler(session, transaction, request, handler);
  } else if (as == QueuedAs::AsUsual && request.spec->rule == resp::KeyRule::None &&
             !may_go_anywhere(*request.spec)) {
    session.reject(resp::errors::not_supported(
        request.spec->name, "it acts on one server; connect to the node itself"));
  } else if (!transaction.has_room(request.bytes, session.table().limits.buffered_request)) {
    session.reject("ERR the transaction is larger than limits.buffered_request");
  } else if (as == QueuedAs::OwnAnswer) {
    transaction.add_for_proxy(request.bytes);
    if (request.spec->id == CommandId::Auth) transaction.note_login();
    if (!queue_subscription(session, request, kQueued)) session.reply(kQueued);
  } else {
    queue_for_node(session, transaction, request);
  }
  return true;
}

void reject(ClientSession& session, const resp::CommandSpec& spec, std::string_view text) {
  if (spec.id != CommandId::Exec) return session.reject(fmt::format("ERR {}", text));
  session.take_transaction();
  session.take_watch();
  session.reply_error(fmt::format("EXECABORT Transaction discarded because of: {}", text));
}

void reject_arity(ClientSession& session, const resp::CommandSpec& spec) {
  const std::string text = resp::wrong_arity(spec.name);
  reject(session, spec, text.substr(text.find(' ') + 1));
}

void command_multi(ClientSession& session, const Request&) {
  if (session.transaction() != nullptr)
    return session.reply_error("ERR MULTI calls can not be nested");
  auto transaction = std::make_unique<Transaction>();
  transaction->set_users(session.table().users);
  if (const Watch* watch = session.watch_if_any()) transaction->set_slot(watch->slot());
  session.set_transaction(std::move(transaction));
  session.reply(kOk);
}

void command_discard(ClientSession& session, const Request&) {
  if (session.take_transaction() == nullptr)
    return session.reply_error("ERR DISCARD without MULTI");
  session.take_watch();
  session.reply(kOk);
}

void command_exec(ClientSession& session, const Request& request) {
  const Transaction* queued = session.transaction();
  if (queued != nullptr && queued->logs_in() && has_to_wait_for_login(session))
    return session.put_off();
  std::unique_ptr<Transaction> transaction = session.take_transaction();
  if (transaction == nullptr) return session.reply_error("ERR EXEC without MULTI");
  std::unique_ptr<Watch> watch = session.take_watch();
  if (transaction->is_spoiled()) return session.reply_error(kAborted);
  if (watch != nullptr) {
    if (watch->connection() == nullptr) return session.reply(resp::null_array(session.resp3()));
    judge_again(session, request, *transaction);
    send(session, *transaction, session.table().map->owner(watch->slot()), *watch->connection());
    session.hold(Hold::Stream);  // What follows may go over another connection.
    return watch->end();
  }
  judge_again(session, request, *transaction);
  if (transaction->size_at_node() == 0) return reply_own(session, *transaction);
  slots::NodeIndex node = slots::kNoNode;
  if (auto slot = transaction->slot()) {
    node = session.table().map->owner(*slot);
    if (session.is_elsewhere(*slot, node)) return session.redirect(*slot, node);
  } else {
    node = any_node(session);
  }
  if (node != slots::kNoNode) send_shared(session, *transaction, node);
}

void command_watch(ClientSession& session, const Request& request) {
  if (session.transaction() != nullptr)
    return session.reply_error("ERR WATCH inside MULTI is not allowed");
  auto slot = slot_to_watch(session, request.args.subspan(1));
  if (!slot) return;
  // What was sent before by the shared connection must not touch the keys afterwards.
  if (!session.is_quiet()) return session.put_off();
  if (session.watch_if_any() == nullptr && !begin_watch(session, *slot)) return;
  if (session.watch_if_any()->connection() == nullptr)
    return session.reply(kOk);  // Lost: EXEC says so.
  session.forward_over(*session.watch_if_any()->connection(), *slot, request.bytes);
}

void command_unwatch(ClientSession& session, const Request&) {
  session.take_watch();
  session.reply(kOk);
}

}  // namespace proxy::session
