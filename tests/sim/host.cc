#include "tests/sim/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sim {

using namespace proxy;           // NOLINT(google-build-using-namespace): what it stands for.
using namespace proxy::control;  // NOLINT(google-build-using-namespace)
using slots::Errc;
using slots::PlanState;

namespace {

constexpr FenceKeeper::Owner kMover = 1;
constexpr std::size_t kJournalBytesMax = 64U << 10;
constexpr slots::SlotId kRivalSlot = 5;  // Of no key.

const slots::NodePlaces kPlaces = {{"source", "127.0.0.1:1"}, {"target", "127.0.0.1:2"}};

}  // namespace

Host::Host(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys,
           const slots::SlotSet& targets_own)
    : now_ms_(now_ms), random_(random), workers_(now_ms, random, std::move(keys)) {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 0; slot < owners.size(); ++slot)
    owners.at(slot) = targets_own.contains(static_cast<slots::SlotId>(slot)) ? 1 : 0;
  adopt({.cluster = "sim",
         .map = slots::SlotMap::create({{"source", 1}, {"target", 1}}, owners).value(),
         .identities = {}});
  write(state());
}

void Host::set_nodes(Node& source, Node& target, Checker& checker) {
  source_ = &source;
  target_ = &target;
  checker_ = &checker;
  workers_.set_nodes(source, target);
}

// --- the process

void Host::start() {
  for (Node* node : {source_, target_}) node->kill_all(false);
  vouched_run_id_.clear();
  noted_flushes_ = 0;
  fences_.emplace(*this, Workers::kCount);
  auto table = std::make_shared<RoutingTable>();
  table->version = 1;
  table->map = std::make_shared<slots::SlotMap>(state().map);
  table->nodes.resize(2);
  set_run_id(*table);
  table_ = std::move(table);
  workers_.start(table_);
}

void Host::crash() {
  workers_.crash();
  fences_.reset();
  fence_answer_.reset();
  deadline_ms_.reset();
  unwritten_.reset();
  is_run_id_due_ = false;
  held_ = {};
  // In the middle of a write that nobody was told of.
  if (!std::exchange(is_journal_lost_, false) && random_.chance(30)) {
    const std::string record = encode_record(state());
    journal_ += record.substr(0, random_.below(record.size()));
  }
  const slots::SlotMap before = state().map;
  read_journal();
  slots::SlotSet committed;
  for (std::size_t at = 0; at < slots::kSlotCount; ++at) {
    const auto slot = static_cast<slots::SlotId>(at);
    if (before.owner(slot) == 0 && state().map.owner(slot) == 1) committed.add(slot);
  }
  if (committed.empty()) {
    checker_->on_lifted();
  } else {
    checker_->on_committed(committed, target_->run_id() != lost_commit_run_id_);
  }
}

void Host::read_journal() {
  auto contents = control::read_journal(journal_);
  if (!contents) throw Violation{"I6: the journal can't be read: " + contents.error().message};
  journal_.resize(contents->whole_bytes);
  adopt(*std::move(contents->state));
}

void Host::adopt(ClusterState state) {
  state_ = std::move(state);
  kept_ = {};
  for (const KeptSlots& kept : state_->kept) kept_.add(kept.slots);
}

void Host::write(const ClusterState& next) {
  const std::string record = encode_record(next);
  if (journal_.size() > kJournalBytesMax) journal_.clear();
  journal_ += record;
  adopt(next);
}

void Host::take(ChangeResult change, const char* what) {
  if (!change) throw Violation{fmt::format("I6: can't {}: {}", what, change.error().message)};
  if (change->refusal)
    throw Violation{fmt::format("I6: can't {}: {}", what, change->refusal->message)};
  write(change->state);
}

void Host::tick() {
  if (!fences_) return;
  if (random_.chance(50)) {
    if (auto ack = workers_.take_ack()) fences_->on_ack(*ack);
  }
  if (deadline_ms_ && now_ms_ >= *deadline_ms_) {
    deadline_ms_.reset();
    fences_->on_deadline();
  }
  if (unwritten_ && random_.chance(10)) write(*std::exchange(unwritten_, std::nullopt));
  // Once every worker has the map in which it owns them no more.
  if (is_run_id_due_ && is_applied()) {
    is_run_id_due_ = false;
    publish_table([this](RoutingTable& table) { set_run_id(table); });
  }
  if (plan_ == 0 || !random_.chance(5)) return;
  note_flushes();
  if (slots::is_ended(plan().plan.state) || is_journal_lost_ || unwritten_) return;
  switch (needs_of(plan(), nodes()).step) {
    case PlanStep::Start:
      return take(start_plan(state(), plan_, act()), "start the plan");
    case PlanStep::Pause:
      return take(pause_plan(state(), plan_, true, act()), "pause the plan");
    case PlanStep::Resume:
      return take(resume_plan(state(), plan_, act()), "resume the plan");
    case PlanStep::None:
      break;
  }
}

PlanNodes Host::nodes() const {
  const bool are_up = source_->is_up() && target_->is_up();
  return {.problem = are_up ? "" : "a node is down", .are_up = are_up};
}

mover::Wish Host::wish() const { return needs_of(plan(), nodes()).wish; }

// --- the operator

Surroundings Host::surroundings() const {
  return {.places = kPlaces, .defaults = {.pause = conf::Milliseconds(50), .latency = {}}};
}

slots::PlanId Host::approve(const std::vector<slots::Goal>& goals) {
  slots::SlotSet rival;
  rival.add(kRivalSlot);
  ProposeRequest request;
  request.goals = {slots::MoveGoal{rival, "target"}};
  auto other = propose_plan(state(), request, surroundings(), act());
  if (other) {
    rival_ = other->plan;
    write(other->state);
  }
  request.goals = goals;
  auto proposal = propose_plan(state(), request, surroundings(), act());
  const auto again = propose_plan(state(), request, surroundings(), act());
  if (!proposal || !again) throw Violation{"I6: no plan: " + proposal.error().message};
  if (digest_of(proposal->state.plans.at(proposal->plan).plan.content) !=
      digest_of(again->state.plans.at(again->plan).plan.content))
    throw Violation{"I6: the same goals gave two plans"};
  return approve(std::move(proposal));
}

slots::PlanId Host::approve_rest(slots::PlanId plan) {
  return approve(propose_rest(state(), plan, surroundings(), act()));
}

slots::PlanId Host::approve(ChangeResult proposal) {
  take(proposal, "propose a plan");
  const slots::PlanId id = proposal->plan;
  const slots::PlanContent& content = state().plans.at(id).plan.content;
  const auto passes = [&](const std::string& digest, const slots::NodePlaces& places) {
    const auto change = approve_plan(state(), id, digest, places, act());
    return change && !change->refusal;
  };
  const std::string digest = digest_of(content);
  if (passes("0000-0000", kPlaces)) throw Violation{"I6: approved with another digest"};
  if (passes(digest, {{"source", "127.0.0.1:1"}, {"target", "127.0.0.1:3"}}))
    throw Violation{"I6: approved although a node is elsewhere"};
  const slots::SlotSet first(content.moves.front().slots);
  if (commit_slots(state(), id, first, "source", "target", 1, now_ms_))
    throw Violation{"I6: slots were committed before anybody had approved it"};
  take(approve_plan(state(), id, digest, kPlaces, act()), "approve the plan");
  return plan_ = id;
}

// An operator may come too late, and reads so.
void Host::pause() {
  if (auto paused = pause_plan(state(), plan_, false, act())) write(paused->state);
}

void Host::resume() {
  if (auto resumed = resume_plan(state(), plan_, act())) write(resumed->state);
}

void Host::abort() {
  if (auto aborted = abort_plan(state(), plan_, act())) write(aborted->state);
}

// --- the plan

PairWork Host::work() const {
  for (PairWork& pair : work_of(state(), plan_)) {
    if (pair.source == "source") return std::move(pair);
  }
  return {"source", "target", {}, {}, 0};
}

void Host::end(const mover::Finish& finish) {
  using How = mover::Finish::How;
  const PlanState how = finish.how == How::Done      ? PlanState::Done
                        : finish.how == How::Aborted ? PlanState::Aborted
                                                     : PlanState::Failed;
  take(end_plan(state(), plan_, how, {}, act()), "end the plan");
  const auto rival = state().plans.find(rival_);
  if (rival == state().plans.end()) return;
  const slots::PlanContent& content = rival->second.plan.content;
  const auto change = approve_plan(state(), rival_, digest_of(content), kPlaces, act());
  if (content.base_epoch != state().map.epoch() && change && !change->refusal)
    throw Violation{"I6: a plan was approved that was made for another map"};
}

// --- what the mover asks for

// Of the target: what the source still keeps, another process may have lost.
void Host::set_run_id(RoutingTable& table) const {
  std::string& wanted = table.nodes[1].only_run_id;
  wanted = kept_.empty() ? "" : vouched_run_id_.empty() ? "none is known yet" : vouched_run_id_;
}

void Host::publish_table(const std::function<void(RoutingTable&)>& change) {
  auto table = std::make_shared<RoutingTable>(*table_);
  ++table->version;
  change(*table);
  table_ = std::move(table);
  workers_.install(table_);
}

void Host::publish(std::shared_ptr<const Fence> fence) {
  publish_table([&](RoutingTable& table) { table.fence = std::move(fence); });
}

void Host::set_deadline(std::optional<conf::Milliseconds> from_now) {
  deadline_ms_.reset();
  if (from_now) deadline_ms_ = now_ms_ + static_cast<std::uint64_t>(from_now->count());
}

void Host::begin_fence(const slots::SlotSet& slots, std::uint32_t limit_ms) {
  fence_answer_.reset();
  fences_->begin(
      kMover, slots, "source", "target", conf::Milliseconds(limit_ms),
      [this](slots::Result<mover::FenceGrant> answer) { fence_answer_ = std::move(answer); });
}

std::optional<slots::Result<mover::FenceGrant>> Host::take_fence_answer() {
  return std::exchange(fence_answer_, std::nullopt);
}

void Host::hold_fence(const slots::SlotSet& slots) { held_ = slots; }

void Host::lift_fence() {
  if (is_journal_lost_) return;
  held_ = {};
  fences_->lift(kMover);
  checker_->on_lifted();
}

slots::Result<slots::Epoch> Host::commit(const slots::SlotSet& slots, std::uint64_t marker,
                                         const std::string& run_id) {
  if (!fences_->holds(kMover, slots) && !trusts_mover) {
    lift_fence();
    return slots::fail(Errc::Timeout, "the fence was lifted before");
  }
  note_flushes();
  auto next = commit_slots(state(), plan_, slots, "source", "target", marker, now_ms_);
  if (!next) {
    lift_fence();
    return std::unexpected(next.error());
  }
  if (workers_.lost_flushes() > 0) *next = note_flush(*next, plan_);
  if (publishes_first) {
    adopt(*next);
    unwritten_ = *next;
  } else {
    write(*next);
  }
  vouched_run_id_ = run_id;
  held_ = {};
  checker_->on_committed(slots, target_->run_id() != run_id);
  publish_table([&](RoutingTable& table) {
    table.map = std::make_shared<slots::SlotMap>(state().map);
    fences_->lift(kMover, table);
    set_run_id(table);
  });
  return state().map.epoch();
}

void Host::lose_journal(const slots::SlotSet& slots, std::uint64_t marker,
                        const std::string& run_id) {
  is_journal_lost_ = true;
  lost_commit_run_id_ = run_id;
  fences_->freeze();
  const auto next = commit_slots(state(), plan_, slots, "source", "target", marker, now_ms_);
  if (!next) return;
  const std::string record = encode_record(*next);
  journal_ += random_.chance(50) ? record : record.substr(0, random_.below(record.size()));
}

void Host::vouch(const std::string& run_id) {
  vouched_run_id_ = run_id;
  publish_table([this](RoutingTable& table) { set_run_id(table); });
}

slots::Result<slots::Epoch> Host::give_back(const slots::SlotSet& slots) {
  note_flushes();
  auto next = give_slots_back(state(), plan_, slots, "source", "target", now_ms_);
  if (!next) return std::unexpected(next.error());
  write(*next);
  checker_->on_given_back(slots);
  publish_table(
      [&](RoutingTable& table) { table.map = std::make_shared<slots::SlotMap>(state().map); });
  is_run_id_due_ = true;
  return state().map.epoch();
}

void Host::collected(const slots::SlotSet& slots) {
  write(note_collected(state(), plan_, slots, "source"));
  checker_->on_collected(slots);
  publish_table([this](RoutingTable& table) { set_run_id(table); });
}

void Host::note_flushes() {
  if (ignores_flushes || std::exchange(noted_flushes_, workers_.flushes()) == workers_.flushes())
    return;
  if (!kept_.empty() && !is_journal_lost_) write(note_flush(state(), plan_));
}

void Host::stop_doubting() { vouch(target_->run_id()); }

Node& Host::owner(slots::SlotId slot) { return state().map.owner(slot) == 0 ? *source_ : *target_; }

bool Host::is_doubtful(slots::SlotId slot) const {
  return kept_.contains(slot) && vouched_run_id_ != target_->run_id();
}

}  // namespace sim
