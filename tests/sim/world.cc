#include "tests/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "proxy/resp/reserved_key.h"
#include "slots/key_slot.h"

namespace sim {

using namespace proxy::mover;  // NOLINT(google-build-using-namespace): its actions and outcomes.

namespace {

constexpr std::size_t kStepsMax = 20000;
constexpr std::uint32_t kPauseMs = 50;
constexpr std::uint64_t kStepMs = 100;  // The step that ends a fence.

const char* const kTags[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
constexpr std::size_t kTagsToMove = 6;
constexpr std::size_t kTargetsTags = 2;

// In database 0 alone, or in a few: of the last of them not all names.
std::vector<std::string> make_keys(std::size_t databases) {
  constexpr Database kDatabases[] = {0, 2, 5};
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < databases; ++i) {
    for (const char* tag : kTags) {
      for (const char* name : {"1", "2", "3", "stream"}) {
        if (i > 0 && name[0] == '2') continue;
        keys.push_back(in_database(kDatabases[i], fmt::format("{{{}}}{}", tag, name)));
      }
    }
  }
  return keys;
}

slots::SlotSet slots_of_tags(std::size_t first, std::size_t count) {
  slots::SlotSet slots;
  for (std::size_t i = first; i < first + count; ++i) slots.add(slots::slot_of_key(kTags[i]));
  return slots;
}

std::string text_of_database(const Action& action) {
  const Database database = std::visit(
      [](const auto& what) -> Database {
        if constexpr (requires { what.database; }) return what.database;
        return 0;
      },
      action);
  return database == 0 ? "" : fmt::format(" in {}:", database);
}

std::string text_of(const Action& action) {
  constexpr const char* kNames[] = {"Connect",     "Scan",       "Read",          "Write",
                                    "Remove",      "ReadPiece",  "WritePiece",    "Publish",
                                    "RenewGroups", "CatchFeeds", "Fence",         "LiftFence",
                                    "PutMarker",   "Commit",     "AskDurability", "Vouch",
                                    "GiveBack",    "Collected",  "Wait",          "Finish"};
  std::string text = kNames[action.index()] + text_of_database(action);
  if (const Scan* scan = std::get_if<Scan>(&action)) {
    text += scan->side == Side::Source ? " source" : " target";
  } else if (const Read* read = std::get_if<Read>(&action)) {
    for (const std::string& key : read->keys) text += " " + key;
  } else if (const Write* write = std::get_if<Write>(&action)) {
    for (const KeyValue& value : write->values) {
      text +=
          fmt::format(" {}={}", value.name, value.exists ? to_string(restore(value)) : "nothing");
    }
  } else if (const Remove* remove = std::get_if<Remove>(&action)) {
    text += remove->side == Side::Source ? " source" : " target";
    for (const std::string& key : remove->keys) text += " " + key;
  } else if (const ReadPiece* piece = std::get_if<ReadPiece>(&action)) {
    text += fmt::format(" {} from {}", piece->key, piece->from.cursor);
  } else if (const WritePiece* written = std::get_if<WritePiece>(&action)) {
    for (const Words& words : written->commands) text += fmt::format(" '{}'", words[1]);
  } else if (const Publish* publish = std::get_if<Publish>(&action)) {
    text += " " + publish->key;
  } else if (const RenewGroups* renew = std::get_if<RenewGroups>(&action)) {
    text += " " + renew->key;
  } else if (const Fence* fence = std::get_if<Fence>(&action)) {
    text += " " + to_string(fence->slots);
  } else if (const PutMarker* put = std::get_if<PutMarker>(&action)) {
    text += fmt::format(" {}", put->number);
  } else if (const Commit* commit = std::get_if<Commit>(&action)) {
    text += " " + to_string(commit->slots);
  } else if (const GiveBack* give_back = std::get_if<GiveBack>(&action)) {
    text += " " + to_string(give_back->slots);
  } else if (const Finish* finish = std::get_if<Finish>(&action)) {
    text += " " + finish->reason;
  }
  return text;
}

std::string text_of(const Event& event) {
  constexpr const char* kNames[] = {
      "Started",   "Connected",    "Scanned",   "ReadDone",      "WriteDone",    "Removed",
      "PieceRead", "PieceWritten", "Published", "GroupsRenewed", "Caught",       "Fenced",
      "NotFenced", "Lifted",       "MarkerPut", "Committed",     "NotCommitted", "Durability",
      "GaveBack",  "NotGivenBack", "Noted",     "NotNoted",      "Waited",       "NodeLost"};
  std::string text = kNames[event.outcome.index()];
  if (const NodeLost* lost = std::get_if<NodeLost>(&event.outcome)) text += " " + lost->reason;
  if (const Connected* connected = std::get_if<Connected>(&event.outcome)) {
    text += fmt::format(" {} {} marker {}", connected->source_run_id, connected->target_run_id,
                        connected->marker);
  }
  for (const auto& [name, notices] :
       {std::pair("source:", &event.source), {"target:", &event.target}}) {
    if (notices->keys.empty() && !notices->all) continue;
    text += fmt::format(" | {}{}", name, notices->all ? " ALL" : "");
    for (const std::string& key : notices->keys) text += " " + key;
  }
  return text;
}

}  // namespace

World::World(std::uint64_t seed, Flaw flaw, bool is_traced, Tally& tally)
    : random_(seed),
      is_traced_(is_traced),
      tally_(tally),
      flaw_(flaw),
      databases_(random_.between(1, 3)),
      // Each has a last copy of its own.
      pause_ms_(kPauseMs * static_cast<std::uint32_t>(databases_)),
      keys_(make_keys(databases_)),
      all_(slots_of_tags(0, std::size(kTags))),
      targets_own_(slots_of_tags(std::size(kTags) - kTargetsTags, kTargetsTags)),
      host_(now_ms_, random_, keys_, targets_own_),
      checker_(now_ms_, host_),
      source_("source", now_ms_, checker_),
      target_("target", now_ms_, checker_) {
  checker_.set_nodes(source_, target_);
  host_.set_nodes(source_, target_, checker_);
  host_.workers().forgets_lost_connections = flaw == Flaw::LeavesLostClients;
  host_.workers().acknowledges_early = flaw == Flaw::AcknowledgesEarly;
  host_.workers().sends_to_any_process = flaw == Flaw::SendsToAnyProcess;
  host_.trusts_mover = flaw == Flaw::SkipsFence;
  host_.publishes_first = flaw == Flaw::PublishesFirst;
  host_.ignores_flushes = flaw == Flaw::IgnoresTargetFlush;
  leaves_old_movers = flaw == Flaw::LeavesOldMovers;
  never_lifts_fence = flaw == Flaw::NeverLiftsFence;
  publishes_unchecked = flaw == Flaw::PublishesUnchecked;
  forgets_select = flaw == Flaw::ForgetsSelect;
}

void World::run() {
  ++tally_.runs;
  set_up();
  host_.start();
  some_ticks(50);
  const slots::PlanId plan = host_.approve(goals());
  move(plan);
  // Whatever became of it, the rest can be moved now.
  faults_left_ = 0;
  target_.refuses_writes = target_.is_full = false;
  source_.is_stalled = target_.is_stalled = false;
  if (!is_over_ && !host_.work().to_move.empty()) {
    move(host_.approve_rest(plan));
    if (!is_over_ && !host_.work().to_move.empty())
      throw Violation{"I5: the rest could not be moved"};
  }
  for (int i = 0; i < 200; ++i) tick();
  checker_.check_owners(all_);
  const std::uint64_t longest_wait_ms = host_.workers().longest_wait_ms();
  tally_.longest_wait_ms = std::max(tally_.longest_wait_ms, longest_wait_ms);
  if (longest_wait_ms > pause_ms_ + kStepMs)
    throw Violation{fmt::format("I9: a client waited {} ms", longest_wait_ms)};
}

std::vector<slots::Goal> World::goals() {
  const std::size_t roll = random_.below(10);
  if (roll == 0) return {slots::DrainGoal{"source", false}};
  if (roll == 1) return {slots::WeightGoal{"target", 3}};
  return {slots::MoveGoal{slots_of_tags(0, kTagsToMove), "target"}};
}

void World::set_up() {
  // A database that nobody uses before.
  const Database late = random_.chance(50) ? database_of(keys_.back()) : 0;
  if (late != 0) host_.workers().set_late_database(late, now_ms_ + random_.between(0, 600));
  for (const std::string& key : keys_) {
    if ((late != 0 && database_of(key) == late) || !random_.chance(80)) continue;
    Entry entry{fmt::format("initia{} {}", database_of(key), name_of(key)), key.ends_with("stream"),
                0, -1};
    if (!entry.is_stream && random_.chance(20)) {
      entry.expire_at_ms = static_cast<std::int64_t>(now_ms_ + random_.between(1, 2000));
    }
    host_.owner(slots::slot_of_key(key)).load(key, entry);
    checker_.load(key, entry);
  }
  if (random_.chance(20)) return;  // Fair weather.
  faults_left_ = static_cast<unsigned>(random_.between(1, 25));
  const double percents[] = {0.5, 2, 8};
  fault_percent_ = percents[random_.below(3)];
  for (std::size_t kinds = random_.between(1, 5); kinds > 0; --kinds) {
    faults_.push_back(static_cast<Fault>(random_.below(static_cast<std::size_t>(Fault::Count))));
  }
  may_evict_marker_ = random_.chance(30);
  is_target_older = random_.chance(10);
  sync_percent_ = random_.chance(30) ? 1 : 20;
  slow_percent_ = random_.chance(40) ? 70 : 0;
  if (slow_percent_ == 0 && random_.chance(30)) tick_ms_ = 30;
}

void World::move(slots::PlanId plan) {
  for (Node* node : {&source_, &target_}) {
    node->marker_key = marker_key(plan, "source");
    node->piece_key = piece_key(plan, "source");
  }
  for (;;) {
    try {
      maybe_crash_proxy();
      while (host_.plan().plan.state == slots::PlanState::Approved) tick();
      if (slots::is_ended(host_.plan().plan.state)) {  // Before it had begun.
        ++tally_.aborted;
        return;
      }
      const Finish end = transfer(plan);
      trace("-> " + text_of(Action{end}));
      if (!host_.is_journal_lost()) {
        host_.end(end);
        return judge(end);
      }
    } catch (const ProxyCrashed&) {
      trace("the proxy crashes");
      ++tally_.proxy_crashes;
    }
    link_.reset();
    host_.crash();
    some_ticks(30);
    host_.start();
    some_ticks(30);
  }
}

Finish World::transfer(slots::PlanId plan) {
  TransferSpec spec;
  spec.plan = plan;
  spec.source = "source";
  spec.target = "target";
  const proxy::control::PairWork work = host_.work();
  spec.slots = work.to_move;
  for (const proxy::control::KeptSlots& kept : work.kept)
    spec.kept.push_back({kept.slots, kept.marker});
  spec.group_slots = static_cast<std::uint32_t>(
      work.slots_total > kTagsToMove ? random_.between(2000, 8000) : random_.between(1, 4));
  spec.pause_ms = pause_ms_;
  spec.batch_keys = static_cast<std::uint32_t>(random_.between(2, 6));
  if (random_.chance(20)) spec.dirty_bytes = 600 * databases_;
  Tamperer tamperer(flaw_);
  tamperer.change(spec);

  Transfer transfer(spec);
  link_ = std::make_unique<Link>(*this, random_);
  Event event{Started{}};
  Action action = Connect{};
  for (std::size_t step = 0; step < kStepsMax; ++step) {
    checker_.check_owners(all_);
    event.now_ms = now_ms_;
    event.wish = host_.wish();
    link_->report_feeds(event);
    if (is_traced_) trace("   " + text_of(event));
    tamperer.change(event, action);
    action = transfer.step(std::move(event));
    tamperer.change(action);
    if (is_traced_) trace("-> " + text_of(action));
    if (const Finish* finish = std::get_if<Finish>(&action)) return *finish;
    if (flaw_ == Flaw::AbortsWithoutPurge && host_.wish() == Wish::Abort && host_.kept().empty()) {
      host_.lift_fence();
      return {Finish::How::Aborted, ""};
    }
    if (std::holds_alternative<LiftFence>(action)) ++tally_.lifted;
    if (std::holds_alternative<GiveBack>(action)) ++tally_.given_back;
    event = {};
    const auto answer = tamperer.answer(action);
    event.outcome = answer ? *answer : link_->carry_out(action);
    while (flaw_ == Flaw::HidesLostNodes && std::holds_alternative<NodeLost>(event.outcome) &&
           !std::holds_alternative<Connect>(action)) {
      while (!std::holds_alternative<Connected>(link_->carry_out(Connect{}))) pass(20);
      event.outcome = link_->carry_out(action);
    }
    if (std::holds_alternative<Committed>(event.outcome)) ++tally_.commits;
    if (std::holds_alternative<Published>(event.outcome)) ++tally_.in_pieces;
    if (std::holds_alternative<GroupsRenewed>(event.outcome)) ++tally_.renewed;
    maybe_crash_proxy();
  }
  throw Violation{fmt::format(
      "no progress: plan {} is {}{}, {}", plan, slots::to_string(host_.plan().plan.state),
      host_.plan().is_aborting ? " and aborting" : "", transfer.progress().waits_for)};
}

void World::judge(const Finish& end) {
  if (!host_.kept().empty()) {
    while (!source_.is_up() || !target_.is_up()) tick();
    if (end.how != Finish::How::Failed) throw Violation{"I4: copies were not collected"};
    ++tally_.left_to_a_human;
    is_over_ = true;
    for (const slots::SlotRange& range : host_.kept().ranges()) {
      for (std::uint32_t at = range.first; at <= range.last; ++at) {
        const auto slot = static_cast<slots::SlotId>(at);
        if (host_.is_doubtful(slot)) checker_.check_either(slot);
      }
    }
    return;
  }
  switch (end.how) {
    case Finish::How::Done:
      ++tally_.done;
      if (!host_.work().to_move.empty()) throw Violation{"I4: done, but not all is moved"};
      break;
    case Finish::How::Aborted:
      ++tally_.aborted;
      break;
    case Finish::How::Failed:
      ++tally_.failed;
      break;
  }
  // At once: a server that crashes later may come back from before it was purged.
  if (end.reason.find("copies may be left") == std::string::npos) checker_.check_no_copies(all_);
  while (!source_.is_up() || !target_.is_up()) tick();
}

void World::tick() {
  restart_due();
  host_.tick();
  if (random_.chance(50)) host_.workers().step();
  Node& node = random_.chance(50) ? source_ : target_;
  const std::size_t roll = random_.below(100);
  if (roll < 28) {
    host_.workers().issue();
  } else if (roll < 58) {
    const auto busy = node.busy_connections();
    if (!busy.empty() && !random_.chance(slow_percent_)) {
      const ConnectionId id = busy[random_.below(busy.size())];
      // What a connection that is gone had carried may come late.
      if (!node.is_lost(id) || random_.chance(10)) node.run_one(id);
    }
  } else if (roll < 68) {
    if (node.is_up()) node.end_turn();
  } else if (roll < 86) {
    host_.workers().deliver();
  } else if (roll < 92) {
    now_ms_ += random_.between(1, tick_ms_);
  } else if (roll < 94) {
    if (node.is_up()) node.expire_due();
  } else if (random_.chance(sync_percent_)) {
    if (node.is_up()) node.sync();
  }
  if (faults_left_ > 0 && random_.chance(fault_percent_)) fault();
}

void World::some_ticks(std::size_t most) {
  for (std::size_t i = random_.below(most + 1); i > 0; --i) tick();
}

void World::pass(std::uint32_t ms) {
  const std::uint64_t until = now_ms_ + ms;
  for (int i = 0; i < 12 && now_ms_ < until; ++i) tick();
  now_ms_ = std::max(now_ms_, until);
}

void World::maybe_crash_proxy() {
  if (std::find(faults_.begin(), faults_.end(), Fault::CrashProxy) == faults_.end()) return;
  if (!fails(1)) return;
  throw ProxyCrashed{};
}

bool World::fails(double percent) {
  if (faults_left_ == 0 || !random_.chance(percent)) return false;
  --faults_left_;
  return true;
}

void World::fault() {
  const Fault kind = faults_[random_.below(faults_.size())];
  switch (kind) {
    case Fault::CutMover:
      if (link_) link_->cut(random_.chance(50) ? Side::Source : Side::Target);
      break;
    case Fault::CrashSource:
      crash(source_);
      break;
    case Fault::CrashTarget:
      crash(target_);
      break;
    case Fault::CrashProxy:
      return;  // See maybe_crash_proxy().
    case Fault::BreakConnection:
      host_.workers().break_connection();
      if (!random_.chance(20)) return;  // They are cheap.
      break;
    case Fault::Refuse:
      target_.refuses_writes = true;
      target_mended_at_ms_ = now_ms_ + random_.between(10, 400);
      break;
    case Fault::Fill:
      if (!random_.chance(20)) return;
      target_.is_full = true;
      target_mended_at_ms_ = now_ms_ + random_.between(10, 400);
      break;
    case Fault::Stall:
      (random_.chance(50) ? source_ : target_).is_stalled = true;
      goes_on_running_at_ms_ = now_ms_ + random_.between(20, 300);
      break;
    case Fault::EvictAtSource:
      evict(source_);
      if (!random_.chance(20)) return;
      break;
    case Fault::EvictAtTarget:
      evict(target_);
      if (!random_.chance(20)) return;
      break;
    case Fault::Pause:
      host_.pause();
      goes_on_at_ms_ = now_ms_ + random_.between(1, 500);
      break;
    case Fault::Abort:
      if (random_.chance(20)) host_.abort();
      break;
    case Fault::Flush:
      host_.workers().flush();
      break;
    case Fault::Count:
      break;
  }
  trace(fmt::format("fault {}", static_cast<int>(kind)));
  --faults_left_;
}

void World::evict(Node& node) {
  if (!node.is_up() || node.dict().empty()) return;
  auto at = node.dict().begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.below(node.dict().size())));
  std::string key = at->first;
  // Half of a large value is what the others are not: there is but one.
  for (const auto& [name, entry] : node.dict()) {
    if (name_of(name) == node.piece_key && random_.chance(50)) key = name;
  }
  const bool is_pieces =
      name_of(key) == piece_key(1, "source") || name_of(key) == piece_key(2, "source");
  if (!may_evict_marker_ && !is_pieces && proxy::resp::is_reserved_key(name_of(key))) return;
  // What a target loses of slots that it may have lost altogether is nobody's concern.
  if (host_.is_doubtful(slots::slot_of_key(key))) return;
  trace(fmt::format("{} evicts {}", node.name(), key));
  node.evict(key);
}

void World::crash(Node& node) {
  if (!node.is_up()) return;
  trace(fmt::format("{} crashes", node.name()));
  ++tally_.node_crashes;
  node.is_stalled = false;
  node.crash();
  host_.workers().on_node_lost(node);
  if (link_) link_->on_node_lost(&node == &source_ ? Side::Source : Side::Target);
  node.close_feed();
  (&node == &source_ ? source_up_at_ms_ : target_up_at_ms_) = now_ms_ + random_.between(1, 300);
}

void World::restart_due() {
  for (Node* node : {&source_, &target_}) {
    if (node->is_up() || now_ms_ < (node == &source_ ? source_up_at_ms_ : target_up_at_ms_))
      continue;
    const std::size_t cut = node->restart(random_);
    trace(fmt::format("{} is back with {} of its history", node->name(), cut));
    checker_.on_restarted(*node, cut);
  }
  if (target_mended_at_ms_ != 0 && now_ms_ >= target_mended_at_ms_) {
    target_.refuses_writes = target_.is_full = false;
    target_mended_at_ms_ = 0;
  }
  if (goes_on_running_at_ms_ != 0 && now_ms_ >= goes_on_running_at_ms_) {
    goes_on_running_at_ms_ = 0;
    source_.is_stalled = target_.is_stalled = false;
  }
  if (goes_on_at_ms_ != 0 && now_ms_ >= goes_on_at_ms_) {
    goes_on_at_ms_ = 0;
    host_.resume();
  }
}

void World::trace(const std::string& text) {
  if (is_traced_)
    std::fprintf(stderr, "%llu %s\n", static_cast<unsigned long long>(now_ms_), text.c_str());
}

}  // namespace sim
