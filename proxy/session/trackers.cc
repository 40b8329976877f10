// Trackers: which clients track, and what they ask for.

#include "proxy/session/trackers.h"

#include <algorithm>
#include <utility>

#include "proxy/resp/key_finder.h"
#include "proxy/session/commands.h"
#include "proxy/session/fence_rules.h"
#include "proxy/session/script_reads.h"
#include "proxy/session/sessions.h"
#include "proxy/session/transaction.h"
#include "slots/assert.h"

namespace proxy::session {

namespace {

using resp::CommandId;

constexpr std::size_t kEvictedPerTick = 10'000;

// Whether a script reads is in its source. Of what nobody can tell it is assumed that it does.
bool script_may_read(WorkerCore& core, const Request& request) {
  const CommandId id = request.spec->id;
  if (id == CommandId::Fcall || id == CommandId::FcallRo) return true;
  if (id == CommandId::Eval || id == CommandId::EvalRo)
    return may_read(*core.table->commands, request.args[1]);
  const auto script = parse_script_id(request.args[1]);
  const ScriptSource source =
      script ? core.scripts->of(core.worker).find(*script) : ScriptSource(nullptr);
  return source == nullptr || may_read(*core.table->commands, *source);
}

// As Redis does: of commands that only read, and of scripts that call such.
bool reads_keys(WorkerCore& core, const Request& request) {
  if (request.spec->calls_script()) return script_may_read(core, request);
  return request.spec->has(resp::CommandFlag::ReadOnly) &&
         !request.spec->has(resp::CommandFlag::PubSub);
}

void add_keys(WorkerCore& core, const Request& request, NamedKeys& keys) {
  thread_local std::vector<std::uint32_t> positions;
  if (!resp::find_keys(*request.spec, request.args, positions)) positions.clear();
  const bool is_script = request.spec->calls_script();
  const bool reads = !positions.empty() && reads_keys(core, request);
  const bool writes = is_script || !request.spec->has(resp::CommandFlag::ReadOnly);
  for (const std::uint32_t position : positions) {
    const std::string_view key = request.args[position];
    keys.all.push_back(hash_of(key));
    if (reads) keys.read.emplace_back(key);
    if (reads && !is_script) keys.read_plainly.push_back(keys.all.back());
    if (writes) keys.written.push_back(keys.all.back());
  }
  keys.may_write_others |= is_script || (positions.empty() && may_write_any_key(*request.spec));
}

bool is_about_client(CommandId id) {
  return id >= CommandId::Client && id <= CommandId::ClientUnpause;
}

}  // namespace

Trackers::~Trackers() { SP_ASSERT(nodes_.empty() && trackers_.empty()); }

backend::Quiet Trackers::quiet_wanted(const ClientSession& session) {
  const TrackingOptions& options = session.tracking_if_any()->options;
  if (!options.no_loop) return backend::Quiet::No;
  return options.is_broadcast ? backend::Quiet::All : backend::Quiet::Reads;
}

void Trackers::close() {
  waiting_.clear();
  close_feeds();
}

void Trackers::turn_on(ClientSession& session, const TrackingWords& words,
                       std::function<void()> done) {
  if (session.tracking_if_any() == nullptr) {
    session.set_tracking(std::make_unique<Tracking>());
    trackers_.insert(&session);
  }
  Tracking& tracking = *session.tracking_if_any();
  tracking.options = words.options;
  tracking.is_redirect_broken = false;
  tracking.may_have_cached = true;
  if (words.options.is_broadcast)
    add_prefixes(session, words.prefixes.empty() ? std::vector<std::string>{""} : words.prefixes);
  tracking.forget_own();
  session.set_channel(session.channel().with(backend::Quiet::No));
  if (words.options.no_loop) {
    quiet_.insert(&session);
  } else {
    quiet_.erase(&session);
  }
  unused_since_ms_ = 0;
  count();
  open_feeds();
  waiting_.push_back({quiet_wanted(session), std::move(done)});
  end_waits();
}

void Trackers::turn_off(ClientSession& session) {
  if (trackers_.erase(&session) == 0) return;
  held_up_.erase(&session);
  remove_prefixes(session);
  if (quiet_.erase(&session) > 0 && session.is_open())
    session.set_channel(session.channel().with(backend::Quiet::No));
  session.set_tracking(nullptr);
  if (trackers_.empty()) unused_since_ms_ = core_.now_ms();
  count();
}

void Trackers::add_prefixes(ClientSession& session, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (!session.tracking_if_any()->prefixes.insert(prefix).second) continue;
    by_prefix_[prefix].push_back(&session);
  }
}

void Trackers::remove_prefixes(ClientSession& session) {
  for (const std::string& prefix : session.tracking_if_any()->prefixes) {
    auto found = by_prefix_.find(prefix);
    std::erase(found->second, &session);
    if (found->second.empty()) by_prefix_.erase(found);
  }
}

void Trackers::count() {
  WorkerStats& stats = core_.stats;
  stats.tracking_clients.set(trackers_.size());
  stats.tracked_prefixes.set(by_prefix_.size());
  stats.tracked_keys.set(table_.keys());
  stats.tracked_items.set(table_.readers());
}

// --- requests

void Trackers::dispatch(ClientSession& session, Request& request) {
  const backend::Ticket* before = session.newest_ticket();
  const bool has_own_connection = session.watch_if_any() != nullptr;
  session::dispatch(session, request);
  if (session.tracking_if_any() == nullptr || request.spec == nullptr) return;
  const backend::Ticket* now = session.newest_ticket();
  const bool is_under_way = now != nullptr && now != before && !now->done;
  const bool is_shared = !has_own_connection && session.blocked_call() == nullptr;
  note_request(session, request, is_under_way, is_shared);
}

void Trackers::note_request(ClientSession& session, const Request& request, bool is_under_way,
                            bool is_shared) {
  Tracking& tracking = *session.tracking_if_any();
  tracking.may_have_cached = true;
  if (const Transaction* transaction = session.transaction()) {
    // It is sent with EXEC.
    if (transaction->is_spoiled()) {
      tracking.queued.clear();
    } else if (request.spec->id != CommandId::Multi) {
      add_keys(core_, request, tracking.queued);
    }
    return;
  }
  NamedKeys queued = std::exchange(tracking.queued, {});
  if (is_under_way) {
    NamedKeys keys;
    if (request.spec->id == CommandId::Exec) {
      keys = std::move(queued);
    } else {
      add_keys(core_, request, keys);
    }
    note_sent(session, std::move(keys), is_shared);
  }
  if (!is_about_client(request.spec->id)) tracking.is_caching_given = false;
}

void Trackers::note_own(ClientSession& session, const NamedKeys& keys, bool is_shared) {
  const backend::Quiet quiet = session.channel().quiet();
  Tracking& tracking = *session.tracking_if_any();
  const bool is_quiet = quiet != backend::Quiet::No && is_shared;
  for (const std::string& key : keys.read) {
    if (!is_quiet) tracking.forget_own(hash_of(key));
  }
  if (!is_quiet) return;
  for (ClientSession* other : quiet_) {
    if (other == &session) continue;
    if (keys.may_write_others) other->tracking_if_any()->forget_own_writes();
    for (const KeyHash key : keys.written) other->tracking_if_any()->forget_own_write(key);
  }
  for (const KeyHash key : keys.read_plainly) tracking.add_own_read(key);
  for (const KeyHash key : keys.written) tracking.add_own_write(key);
}

void Trackers::note_sent(ClientSession& session, NamedKeys keys, bool is_shared) {
  Tracking& tracking = *session.tracking_if_any();
  if (tracking.options.no_loop) note_own(session, keys, is_shared);
  if (keys.all.empty()) return;
  tracking.note_sent(session, std::move(keys.all));
  const bool is_broadcast = tracking.options.is_broadcast;
  if (!is_broadcast && !tracking.wants_next()) return;
  for (const std::string& key : keys.read) {
    if (!is_heard(key)) {
      // Nobody would say when it changes: it is taken back behind the answer.
      const bool is_meant = !is_broadcast || std::ranges::any_of(tracking.prefixes, [&](auto& p) {
        return key.starts_with(p);
      });
      const KeyHash hash = hash_of(key);
      std::string keys_of_one;
      resp::append_request(keys_of_one, {key});
      if (is_meant) tell(session, keys_of_one, {&hash, 1});
    } else if (!is_broadcast) {
      table_.add(key, session.id());
    }
  }
  send_redirected();
  make_room();
  count();
}

// A few at a time: a lower limit (CONFIG SET) is reached little by little.
void Trackers::make_room() {
  const std::uint64_t said = max_.keys.load(std::memory_order_relaxed);
  const std::uint64_t most = core_.table->limits.tracked_keys;
  const std::uint64_t limit = said == 0 ? most : std::min(said, most);
  for (std::size_t n = 0; n < kEvictedPerTick && table_.weight() > limit && table_.keys() > 1;
       ++n) {
    const tracking::KeyTable::Oldest oldest = table_.pop_oldest();
    const KeyHash hash = hash_of(oldest.key);
    std::string keys;
    resp::append_request(keys, {oldest.key});
    for (const std::uint64_t reader : oldest.readers) {
      ClientSession* session = sessions_.find(reader);
      const Tracking* tracking = session == nullptr ? nullptr : session->tracking_if_any();
      if (tracking != nullptr && !tracking->options.is_broadcast) tell(*session, keys, {&hash, 1});
    }
  }
  send_redirected();
}

void Trackers::tick() {
  const std::uint64_t now = core_.now_ms();
  for (auto& [name, node] : nodes_) {
    for (tracking::ChangeFeed* feed : feeds_of(node)) feed->tick(now);
  }
  for (ClientSession* session : std::exchange(held_up_, {}))
    session->push_after(nullptr, std::exchange(session->tracking_if_any()->held_up, {}));
  if (!table_.empty()) {
    make_room();
    count();
  }
  constexpr std::uint64_t kKeptForMs = 5000;
  if (unused_since_ms_ != 0 && now - unused_since_ms_ > kKeptForMs) close_feeds();
}

}  // namespace proxy::session
