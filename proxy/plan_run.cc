#include "proxy/plan_run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "proxy/control/preflight.h"

namespace proxy {

namespace {

std::uint64_t unix_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

constexpr std::array<std::string_view, 8> kPhases{
    "connecting", "purging", "copying", "catching up", "fencing", "keeping", "collecting", "ended"};

}  // namespace

// What one mover's thread asks; answered by the PlanRun on the control thread.
class PlanRun::Host final : public mover::MoveHost {
 public:
  Host(PlanRun& run, Pair& pair, FenceKeeper::Owner owner)
      : run_(run), pair_(pair), owner_(owner) {}

  slots::Result<mover::FenceGrant> fence(const slots::SlotSet& slots, const std::string& source,
                                         conf::Milliseconds limit) override {
    return run_.desk_.ask<mover::FenceGrant>([=, this](const auto& answer) {
      run_.fences_.begin(owner_, slots, source, pair_.work.target, limit, answer);
    });
  }
  void lift_fence() override {
    run_.desk_.post([this] { run_.fences_.lift(owner_); });
  }
  slots::Result<slots::Epoch> commit(std::uint64_t, const slots::SlotSet& slots,
                                     const std::string& source, const std::string& target,
                                     std::uint64_t marker,
                                     const std::string& target_run_id) override {
    return run_.desk_.ask<slots::Epoch>([=, this](const auto& answer) {
      run_.commit(owner_, slots, source, target, marker, target_run_id, answer);
    });
  }
  slots::Status vouch(std::uint64_t, const slots::SlotSet&, const std::string& target,
                      const std::string& target_run_id) override {
    return run_.desk_.ask<void>(
        [=, this](const auto& answer) { answer(run_.vouch(target, target_run_id)); });
  }
  slots::Result<slots::Epoch> give_back(std::uint64_t, const slots::SlotSet& slots,
                                        const std::string& source,
                                        const std::string& target) override {
    return run_.desk_.ask<slots::Epoch>(
        [=, this](const auto& answer) { run_.give_back(slots, source, target, answer); });
  }
  slots::Status note_collected(std::uint64_t, const slots::SlotSet& slots,
                               const std::string& source) override {
    return run_.desk_.ask<void>(
        [=, this](const auto& answer) { answer(run_.note_collected(slots, source)); });
  }
  mover::Wish wish(std::uint64_t) override { return run_.wish_; }
  slots::Result<mover::NodeAccess> access(const std::string& node) override {
    return run_.desk_.ask<mover::NodeAccess>(
        [=, this](const auto& answer) { answer(run_.access(node)); });
  }
  void report(std::uint64_t, const std::string&, const std::string&,
              const mover::Progress& progress) override {
    run_.desk_.post([this, progress] { run_.note(pair_, progress); });
  }

 private:
  PlanRun& run_;
  Pair& pair_;
  FenceKeeper::Owner owner_;
};

PlanRun::PlanRun(slots::PlanId plan, Cluster& cluster, FenceKeeper& fences, MoverDesk& desk,
                 mover::MoverCommons& commons, Options options)
    : plan_(plan),
      cluster_(cluster),
      fences_(fences),
      desk_(desk),
      commons_(commons),
      options_(std::move(options)),
      before_(cluster.state().plans.at(plan).outcome),
      flushes_(options_.flushes()) {}

PlanRun::~PlanRun() = default;

void PlanRun::start() {
  is_moving_ = true;
  FenceKeeper::Owner owner = 0;
  // Of pairs with nothing left to do too: the marker may still have to be removed.
  for (control::PairWork& work : control::work_of(cluster_.state(), plan_)) {
    Pair& pair = pairs_.emplace_back();
    pair.work = std::move(work);
    pair.progress.slots_total = pair.work.slots_total;
    pair.host = std::make_unique<Host>(*this, pair, ++owner);
    pair.mover = make_mover(pair);
    spdlog::info(
        "plan {}: moving {} slots from {} to {}{}", plan_, pair.work.to_move.size(),
        pair.work.source, pair.work.target,
        pair.work.kept.empty() ? "" : fmt::format(", {} to be collected", pair.work.kept.size()));
  }
  for (const slots::StrayMove& strays : cluster_.state().plans.at(plan_).plan.content.strays) {
    if (strays.keys() == 0) continue;
    Pair& pair = pairs_.emplace_back();
    pair.work.source = strays.from;
    pair.work.target = strays.to;
    pair.host = std::make_unique<Host>(*this, pair, ++owner);
    pair.mover = make_stray_mover(pair, strays);
    spdlog::info("plan {}: collecting {} strays on {} for {}", plan_, strays.keys(), strays.from,
                 strays.to);
  }
  for (Pair& pair : pairs_) pair.mover->start();
  if (pairs_.empty()) desk_.post([this] { options_.on_end(); });
}

mover::MoverThread::OnEnd PlanRun::on_end_of(Pair& pair) {
  return [this, &pair](std::optional<mover::Finish> finish) {
    desk_.post([this, &pair, finish = std::move(finish)] { on_pair_end(pair, finish); });
  };
}

std::unique_ptr<mover::MoverThread> PlanRun::make_mover(Pair& pair) {
  const control::PlanRecord& record = cluster_.state().plans.at(plan_);
  mover::CarrierOptions options;
  options.link = options_.link;
  options.grace = cluster_.config()->rebalance.grace;
  options.spec.plan = plan_;
  options.spec.source = pair.work.source;
  options.spec.target = pair.work.target;
  options.spec.slots = pair.work.to_move;
  for (const control::KeptSlots& kept : pair.work.kept)
    options.spec.kept.push_back({kept.slots, kept.marker});
  options.spec.pause_ms = static_cast<std::uint32_t>(record.plan.content.pause_ms);
  return std::make_unique<mover::Mover>(std::move(options), *pair.host, commons_, on_end_of(pair));
}

std::unique_ptr<mover::MoverThread> PlanRun::make_stray_mover(Pair& pair,
                                                              const slots::StrayMove& strays) {
  const control::ClusterState& state = cluster_.state();
  mover::StraySpec spec;
  spec.plan = plan_;
  spec.source = strays.from;
  spec.target = strays.to;
  if (const auto owner = state.map.find(strays.to)) spec.target_slots = state.map.slots_of(*owner);
  const slots::SlotSet copied = control::slots_copied_to(state, strays.from);
  for (const slots::StrayMove::InSlot& in_slot : strays.slots) {
    const bool is_owned = spec.target_slots.contains(in_slot.slot);
    if (is_owned && !copied.contains(in_slot.slot)) spec.slots.add(in_slot.slot);
  }
  spec.left_alone = strays.conflicts;
  spec.is_resumed = options_.is_resumed;
  return std::make_unique<mover::StrayMover>(options_.link, std::move(spec),
                                             cluster_.config()->rebalance.grace, *pair.host,
                                             commons_, on_end_of(pair));
}

void PlanRun::on_pair_end(Pair& pair, std::optional<mover::Finish> finish) {
  pair.has_ended = true;
  pair.finish = std::move(finish);
  pair.mover->join();
  if (pair.finish && !pair.finish->reason.empty()) {
    spdlog::info("plan {}: {} to {} ended: {}", plan_, pair.work.source, pair.work.target,
                 pair.finish->reason);
  }
  const bool all = std::ranges::all_of(pairs_, [](const Pair& each) { return each.has_ended; });
  if (all) options_.on_end();
}

void PlanRun::stop() {
  for (Pair& pair : pairs_) pair.mover->stop();
  for (Pair& pair : pairs_) pair.mover->join();
}

void PlanRun::note(Pair& pair, const mover::Progress& progress) {
  for (const std::uint32_t pause : progress.pauses_us)
    spdlog::debug("plan {}: a pause of {} us", plan_, pause);
  pauses_us_.insert(pauses_us_.end(), progress.pauses_us.begin(), progress.pauses_us.end());
  pair.progress = progress;
}

// --- what the movers ask

void PlanRun::note_flushes() {
  const std::uint64_t flushes = options_.flushes();
  if (std::exchange(flushes_, flushes) == flushes) return;
  const auto& kept = cluster_.state().kept;
  if (std::ranges::none_of(kept, [&](const auto& each) { return each.plan == plan_; })) return;
  if (slots::Status written = cluster_.commit(control::note_flush(cluster_.state(), plan_),
                                              control::StateStore::People::WriteLater);
      !written)
    spdlog::error("plan {}: a flush could not be recorded: {}", plan_, written.error().message);
}

void PlanRun::commit(FenceKeeper::Owner owner, const slots::SlotSet& slots,
                     const std::string& source, const std::string& target, std::uint64_t marker,
                     const std::string& run_id, const EpochAnswer& answer) {
  if (!fences_.holds(owner, slots)) {
    fences_.lift(owner);
    return answer(slots::fail(slots::Errc::Timeout, "the fence was lifted before"));
  }
  note_flushes();  // None is under way, and those before have nothing to do with these slots.
  auto next =
      control::commit_slots(cluster_.state(), plan_, slots, source, target, marker, unix_ms());
  if (!next) {
    fences_.lift(owner);
    return answer(std::unexpected(next.error()));
  }
  // One that comes late would not be seen as a flush since the commit.
  if (options_.lost_flushes() > 0) *next = control::note_flush(*next, plan_);
  next->plans.at(plan_).outcome = outcome();
  const slots::Epoch epoch = next->map.epoch();
  const std::string vouched_before = std::exchange(vouched_[target], run_id);
  const slots::Status written = cluster_.commit(
      *next, control::StateStore::People::WriteLater,
      [&](RoutingTable& table) {
        fences_.lift(owner, table);
        // The target may have been restarted since it was asked last.
        for (NodeRoute& node : table.nodes)
          if (node.name == target) node.only_run_id = run_id;
      },
      [this, epoch, target, answer] {
        options_.on_committed();
        answer(epoch);
      });
  if (written) {
    if (vouched_before != run_id) options_.on_vouched(target);
    return fences_.begin_next();
  }
  // Whether the commit is on disk only the next start knows; until then nobody may write.
  vouched_[target] = vouched_before;
  fences_.freeze();
  spdlog::critical(
      "plan {}: the commit of slots {} may or may not be recorded; they are not "
      "served until the proxy is restarted: {}",
      plan_, slots::to_string(slots), written.error().message);
  answer(std::unexpected(written.error()));
}

void PlanRun::give_back(const slots::SlotSet& slots, const std::string& source,
                        const std::string& target, const EpochAnswer& answer) {
  note_flushes();
  auto next = control::give_slots_back(cluster_.state(), plan_, slots, source, target, unix_ms());
  if (!next) return answer(std::unexpected(next.error()));
  const slots::Epoch epoch = next->map.epoch();
  const slots::Status written =
      cluster_.commit(*next, control::StateStore::People::WriteNow, nullptr, [=, this] {
        spdlog::warn("plan {}: {} has lost slots {}; they are {}'s again", plan_, target,
                     slots::to_string(slots), source);
        options_.on_vouched(target);
        answer(epoch);
      });
  if (!written) answer(std::unexpected(written.error()));
}

slots::Status PlanRun::vouch(const std::string& target, const std::string& run_id) {
  vouched_[target] = run_id;
  options_.on_vouched(target);
  return {};
}

slots::Status PlanRun::note_collected(const slots::SlotSet& slots, const std::string& source) {
  return cluster_.commit(control::note_collected(cluster_.state(), plan_, slots, source),
                         control::StateStore::People::WriteNow);
}

slots::Result<mover::NodeAccess> PlanRun::access(const std::string& node) const {
  const auto& nodes = cluster_.table()->nodes;
  const auto route = std::ranges::find(nodes, node, &NodeRoute::name);
  if (route == nodes.end())
    return slots::fail(slots::Errc::NotFound, fmt::format("node {} is not in the map", node));
  return mover::NodeAccess{route->name, route->address, route->username, route->password,
                           route->identity};
}

// --- what it is about

std::optional<std::string> PlanRun::vouched_run_id(const std::string& node) const {
  const auto& kept = cluster_.state().kept;
  const bool holds = std::ranges::any_of(kept, [&](const control::KeptSlots& each) {
    return each.plan == plan_ && each.target == node && !each.slots.empty();
  });
  if (!holds) return std::nullopt;
  const auto vouched = vouched_.find(node);
  return vouched == vouched_.end() ? "" : vouched->second;
}

mover::Finish PlanRun::result() const {
  mover::Finish result;
  std::string done;  // What those that have done all say.
  for (const Pair& pair : pairs_) {
    const mover::Finish end =
        pair.finish.value_or(mover::Finish{mover::Finish::How::Failed, "its mover was stopped"});
    if (end.how == mover::Finish::How::Done) {
      if (!end.reason.empty()) done += (done.empty() ? "" : "; ") + end.reason;
      continue;
    }
    if (result.how == mover::Finish::How::Failed) continue;
    result = end;
    result.reason = fmt::format("{} to {}: {}", pair.work.source, pair.work.target, end.reason);
  }
  if (result.how == mover::Finish::How::Done) result.reason = std::move(done);
  return result;
}

control::PlanOutcome PlanRun::outcome() const {
  control::PlanOutcome outcome = before_;
  for (const Pair& pair : pairs_) {
    outcome.keys_copied += pair.progress.keys_copied;
    outcome.keys_recopied += pair.progress.keys_recopied;
    outcome.payload_bytes += pair.progress.payload_bytes;
  }
  if (pauses_us_.empty()) return outcome;
  std::vector<std::uint32_t> pauses = pauses_us_;
  const auto middle = pauses.begin() + static_cast<std::ptrdiff_t>(pauses.size() / 2);
  std::nth_element(pauses.begin(), middle, pauses.end());
  outcome.fences += pauses.size();
  outcome.pause_median_us = *middle;
  outcome.pause_max_us = std::max<std::uint64_t>(outcome.pause_max_us, std::ranges::max(pauses));
  return outcome;
}

std::uint64_t PlanRun::speed() const {
  std::map<std::string, std::uint64_t> speeds;
  for (const Pair& pair : pairs_) {
    if (pair.has_ended) continue;
    for (const std::string* node : {&pair.work.source, &pair.work.target})
      speeds[*node] += pair.progress.bytes_per_second;
  }
  std::uint64_t most = 0;
  for (const auto& [node, speed] : speeds) most = std::max(most, speed);
  return most;
}

admin::PlanProgress PlanRun::progress() const {
  const control::PlanRecord& record = cluster_.state().plans.at(plan_);
  admin::PlanProgress report;
  const control::PlanOutcome so_far = outcome();
  report.running_seconds = (unix_ms() - record.plan.started_at_ms) / 1000;
  report.slots_committed = control::slots_committed(cluster_.state(), plan_);
  report.slots_total = record.forecast.slots_moved;
  report.keys_copied = so_far.keys_copied;
  report.payload_bytes = so_far.payload_bytes;
  report.pauses = so_far.fences;
  report.pause_median_ms = static_cast<double>(so_far.pause_median_us) / 1000;
  report.pause_max_ms = static_cast<double>(so_far.pause_max_us) / 1000;
  const control::Expected expected = control::expected_total(record);
  report.keys_total = static_cast<std::uint64_t>(std::llround(expected.keys));
  report.bytes_total = static_cast<std::uint64_t>(std::llround(expected.bytes));
  mover::Phase phase = mover::Phase::Ended;
  bool is_resting = false;
  for (const Pair& pair : pairs_) {
    phase = std::min(phase, pair.has_ended ? mover::Phase::Ended : pair.progress.phase);
    report.keys_collected += pair.progress.keys_collected;
    if (pair.has_ended) continue;
    report.bytes_per_second += pair.progress.bytes_per_second;
    is_resting = is_resting || pair.progress.is_resting;
    if (report.waits_for.empty()) report.waits_for = pair.progress.waits_for;
  }
  if (pairs_.empty()) phase = mover::Phase::Connecting;
  report.phase = kPhases.at(static_cast<std::size_t>(phase));
  if (record.limit != 0 && report.bytes_per_second * 10 > record.limit * 9)
    report.speed_reason = "the limit";
  else if (is_resting)
    report.speed_reason =
        fmt::format("at most {} % of a node's time, so that its clients hardly wait",
                    cluster_.config()->rebalance.node_share);
  // What is left once all have moved, copies to be let go, is no matter of bytes.
  if (report.slots_committed < report.slots_total && report.bytes_per_second > 0 &&
      report.bytes_total > report.payload_bytes)
    report.eta_seconds = (report.bytes_total - report.payload_bytes) / report.bytes_per_second;
  return report;
}

}  // namespace proxy
