#include "proxy/rebalancer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "conf/units.h"
#include "proxy/control/plan_reports.h"
#include "slots/leveling.h"
#include "slots/spread.h"

namespace proxy {

namespace {

using slots::PlanState;

std::uint64_t unix_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t steady_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

control::Act by_system(std::string reason) { return {"system", std::move(reason), unix_ms()}; }

std::set<std::string> nodes_of(const slots::PlanContent& content) {
  std::set<std::string> nodes;
  for (const slots::Move& move : content.moves) nodes.insert({move.from, move.to});
  for (const slots::StrayMove& strays : content.strays) nodes.insert({strays.from, strays.to});
  return nodes;
}

std::vector<std::string> joining_nodes(const slots::PlanContent& content) {
  std::vector<std::string> nodes;
  for (const slots::SlotMapEdit& edit : content.edits_before) {
    if (const auto* add = std::get_if<slots::AddNode>(&edit)) nodes.push_back(add->node.name);
  }
  return nodes;
}

}  // namespace

Rebalancer::Rebalancer(uv_loop_t* loop, Cluster& cluster, std::size_t workers, Host host,
                       Names names)
    : loop_(loop),
      cluster_(cluster),
      host_(std::move(host)),
      names_(std::move(names)),
      mover_desk_(host_.post),
      fences_(*this, workers),
      fence_deadline_(loop),
      desk_(loop, *this, control::AuditLog(cluster.config()->state_dir + "/audit.log"),
            names_.prefix + names_.incarnation),
      soon_(loop) {}

void Rebalancer::take_up() {
  const control::PlanRecord* open = control::open_plan(state());
  if (open == nullptr || open->plan.state == PlanState::Approved) return;
  spdlog::info("plan {} goes on: {}", open->plan.content.id, open->plan.content.purpose);
  make_run(open->plan.content.id, /*is_resumed=*/true);
}

void Rebalancer::begin() {
  is_serving_ = true;
  advance_soon();
}

void Rebalancer::hold() {
  is_held_ = true;
  if (run_) run_->wish(mover::Wish::Pause);
}

void Rebalancer::stop() {
  mover_desk_.close();
  if (run_) run_->stop();
  run_.reset();
}

void Rebalancer::tick() {
  if (run_) run_->note_flushes();
  if (std::exchange(house_is_due_, false)) cluster_.keep_house();
  follow_latency();
  if (run_) set_limits(state().plans.at(run_->plan()));
  if (is_serving_ && !is_held_) watch_spread();
  advance();
}

std::string Rebalancer::why_withheld(const std::string& node, const std::string& run_id) const {
  const auto vouched = run_ ? run_->vouched_run_id(node) : std::nullopt;
  if (!vouched || (!vouched->empty() && *vouched == run_id)) return "";
  return fmt::format(
      "has to be looked at, since plan {} moved slots to it and its server or this "
      "proxy was restarted",
      run_->plan());
}

std::string Rebalancer::only_run_id(const std::string& node) const {
  return run_ ? run_->vouched_run_id(node).value_or("") : "";
}

slots::Status Rebalancer::commit(const control::ClusterState& next) {
  const bool has_other_nodes = next.map.nodes() != state().map.nodes();
  if (slots::Status written = cluster_.commit(next, control::StateStore::People::WriteNow);
      !written)
    return written;
  if (has_other_nodes) host_.on_nodes_changed();
  return {};
}

void Rebalancer::on_plan_changed(slots::PlanId plan) {
  const auto known = state().plans.find(plan);
  if (run_ && run_->plan() == plan && known != state().plans.end()) set_limits(known->second);
  advance_soon();
}

std::optional<admin::PlanProgress> Rebalancer::progress(slots::PlanId plan) {
  if (!run_ || run_->plan() != plan) return std::nullopt;
  admin::PlanProgress report = run_->progress();
  if (throttle_.is_slowed()) {
    report.speed_reason = throttle_.reason();
    report.slowed_to = throttle_.limit();
  }
  return report;
}

void Rebalancer::publish(std::shared_ptr<const Fence> fence) {
  cluster_.publish([&](RoutingTable& table) { table.fence = std::move(fence); });
}

void Rebalancer::set_deadline(std::optional<conf::Milliseconds> from_now) {
  if (from_now) {
    fence_deadline_.start(*from_now, [this] { fences_.on_deadline(); });
  } else {
    fence_deadline_.stop();
  }
}

// Not from inside whatever has changed something.
void Rebalancer::advance_soon() {
  soon_.start(std::chrono::milliseconds(0), [this] { advance(); });
}

// Brings what is done in line with what the state says and the nodes are.
void Rebalancer::advance() {
  if (std::exchange(has_run_ended_, false)) return on_run_end();
  if (!is_serving_ || is_held_) return;
  const control::PlanRecord* open = control::open_plan(state());
  if (open == nullptr) return;
  const PlanNodes nodes = nodes_of_plan(*open);
  const PlanNeeds needs = needs_of(*open, nodes);
  if (needs.step == PlanStep::Start) return start(*open);
  const slots::PlanId plan = open->plan.content.id;
  if (!run_) make_run(plan, /*is_resumed=*/false);
  run_->wish(needs.wish);
  // What is entered is looked at on the next turn.
  if (needs.step == PlanStep::Pause) return enter_pause(plan, nodes.problem);
  if (needs.step == PlanStep::Resume) return enter_resume(plan);
  const bool is_paused = open->plan.state == PlanState::Paused;
  // Movers of a paused plan look after what they have committed, and nothing else.
  if (run_->is_moving() || function_copy_ || (!nodes.are_up && !open->is_aborting)) return;
  if (!without_functions_.empty() && !is_paused && !open->is_aborting) return give_functions();
  run_->start();
}

void Rebalancer::enter_pause(slots::PlanId plan, const std::string& problem) {
  const control::Act act = by_system(problem);
  if (auto paused = desk_.enter(control::pause_plan(state(), plan, true, act), act, ""); !paused)
    spdlog::error("plan {} can't be paused: {}", plan, paused.error().message);
}

void Rebalancer::enter_resume(slots::PlanId plan) {
  const control::Act act = by_system("its nodes are up");
  if (auto resumed = desk_.enter(control::resume_plan(state(), plan, act), act, ""); !resumed)
    spdlog::error("plan {} can't go on: {}", plan, resumed.error().message);
}

void Rebalancer::start(const control::PlanRecord& record) {
  const slots::PlanContent content = record.plan.content;
  if (slots::Status fits =
          slots::check_still_fits(content, state().map, control::places_of(host_.snapshot()));
      !fits)
    return fail(content.id, fits.error().message);
  for (const std::string& name : joining_nodes(content)) {
    const auto& nodes = cluster_.config()->nodes;
    const auto node = std::ranges::find(nodes, name, &conf::NodeConfig::name);
    if (node == nodes.end() || !node->endpoint) continue;
    if (slots::Status opened = host_.open_endpoint(*node); !opened)
      return fail(content.id, opened.error().message);
  }
  const control::Act act = by_system("");
  if (auto started = desk_.enter(control::start_plan(state(), content.id, act), act, ""); !started)
    fail(content.id, started.error().message);
}

// Before anything has moved.
void Rebalancer::fail(slots::PlanId plan, const std::string& reason) {
  const control::Act act = by_system(reason);
  auto failed = desk_.enter(control::end_plan(state(), plan, PlanState::Failed, {}, act), act, "");
  if (!failed) spdlog::error("plan {} can't be ended: {}", plan, failed.error().message);
}

void Rebalancer::make_run(slots::PlanId plan, bool is_resumed) {
  const conf::Config& config = *cluster_.config();
  PlanRun::Options options;
  options.link.name_prefix = names_.prefix;
  options.link.incarnation = names_.incarnation;
  options.link.connect_timeout = config.timeouts.connect;
  options.link.silence = config.timeouts.node_silent;
  options.is_resumed = is_resumed;
  options.on_vouched = host_.on_vouched;
  options.flushes = host_.flushes;
  options.lost_flushes = host_.lost_flushes;
  options.on_committed = [this] { house_is_due_ = true; };
  options.on_end = [this] {
    has_run_ended_ = true;
    advance_soon();
  };
  run_ =
      std::make_unique<PlanRun>(plan, cluster_, fences_, mover_desk_, commons_, std::move(options));
  throttle_ = {};
  const control::PlanRecord& record = state().plans.at(plan);
  without_functions_ = joining_nodes(record.plan.content);
  set_limits(record);
}

// The share of a node's time is for its clients' sake: where nobody asks for anything, a plan is
// as fast as its limit on bytes.
void Rebalancer::set_limits(const control::PlanRecord& record) {
  throttle_.approve(record.limit);
  const std::uint64_t limit = throttle_.limit();
  const unsigned share =
      record.limit == 0 ? mover::Pacer::kWhole : cluster_.config()->rebalance.node_share;
  std::set<std::string> busy;  // Whoever it is, a whole share is a whole one.
  if (share < mover::Pacer::kWhole) busy = nodes_with_clients();
  for (const std::string& node : nodes_of(record.plan.content)) {
    commons_.pacers.of(node)->set_limits(
        {limit, busy.contains(node) ? share : mover::Pacer::kWhole}, steady_us());
  }
}

std::set<std::string> Rebalancer::nodes_with_clients() {
  constexpr double kAnyOperations = 1;  // A second.
  const slots::SlotMap& map = state().map;
  const std::vector<double> operations = slots::sums_by_node(
      map.owners(), host_.heat().rates().operations(slots::SlotRates::Over::TenSeconds),
      map.nodes().size());
  std::set<std::string> busy;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] >= kAnyOperations) busy.insert(map.nodes()[i].name);
  }
  return busy;
}

// Clients come first, where the configuration says so.
void Rebalancer::follow_latency() {
  const bool is_wanted = run_ != nullptr && cluster_.config()->rebalance.latency.is_set();
  host_.heat().look_closely(is_wanted);
  if (!run_ || !run_->is_moving()) return;
  const bool was_slowed = throttle_.is_slowed();
  throttle_.step(latencies(), run_->speed(), steady_us() / 1000);
  if (was_slowed == throttle_.is_slowed()) return;
  spdlog::info("plan {} {}", run_->plan(),
               was_slowed ? std::string("moves at its limit again") : throttle_.reason());
}

std::vector<mover::Throttle::Latency> Rebalancer::latencies() const {
  constexpr double kLeastUs = 1000;  // What is usual may be next to nothing.
  const conf::LatencyTarget& target = cluster_.config()->rebalance.latency;
  std::vector<mover::Throttle::Latency> found;
  if (!target.is_set()) return found;
  for (const std::string& node : nodes_of(state().plans.at(run_->plan()).plan.content)) {
    const HeatKeeper::Latency latency = host_.heat().latency(node);
    if (!latency.now) continue;
    if (target.at_most.count() > 0) {
      found.push_back(
          {node, *latency.now, static_cast<std::uint64_t>(target.at_most.count()) * 1000});
    } else if (latency.usual) {
      const double usual = std::max(static_cast<double>(*latency.usual), kLeastUs);
      found.push_back({node, *latency.now, static_cast<std::uint64_t>(usual * target.times_usual)});
    }
  }
  return found;
}

void Rebalancer::watch_spread() {
  const conf::Rebalance& rules = cluster_.config()->rebalance;
  const std::optional<double> spread = rules.propose_at > 0 ? spread_by(rules.propose_by) : 1;
  if (!spread) return;
  const control::SpreadWatch::Rule rule{rules.propose_at,
                                        static_cast<std::uint64_t>(rules.propose_after.count())};
  if (!spread_watch_.step(rule, *spread, !control::open_plans(state()).empty(), steady_us() / 1000))
    return;
  desk_.propose_balance(
      rules.propose_by,
      fmt::format("the spread has been above {} for {}: it is {:.2f}", rules.propose_at,
                  conf::print_duration(rules.propose_after), *spread));
}

// Nothing while a node can't be looked at, or when there is next to nothing to be spread.
std::optional<double> Rebalancer::spread_by(slots::Measure measure) {
  constexpr std::array<double, 4> kLeastSums{1, 10'000, 10'000'000, 100};  // By Measure.
  const slots::SlotMap& map = state().map;
  std::vector<double> weights;
  for (const slots::Node& node : map.nodes()) weights.push_back(node.weight);
  slots::SlotLoads by_slot{};
  if (measure == slots::Measure::Slots) by_slot.fill(1);
  if (measure == slots::Measure::Operations) by_slot = operations();
  std::vector<double> loads = slots::sums_by_node(map.owners(), by_slot, map.nodes().size());
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const control::NodeStatus status = host_.status(map.nodes()[i].name);
    if (status.state != NodeState::Up) return std::nullopt;
    if (measure == slots::Measure::Keys) loads[i] = static_cast<double>(status.facts.keys);
    if (measure == slots::Measure::Bytes) loads[i] = static_cast<double>(status.facts.dataset);
  }
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  if (sum < kLeastSums.at(static_cast<std::size_t>(measure))) return std::nullopt;
  return slots::spread_of(loads, weights);
}

// A node that joins gets the functions of one that gives it slots; scripts come with their first
// EVALSHA.
void Rebalancer::give_functions() {
  const std::string target = without_functions_.back();
  const auto& moves = state().plans.at(run_->plan()).plan.content.moves;
  const auto move = std::ranges::find(moves, target, &slots::Move::to);
  if (move == moves.end()) {
    without_functions_.pop_back();
    return advance_soon();
  }
  const conf::Timeouts& timeouts = cluster_.config()->timeouts;
  function_copy_ = std::make_unique<control::FunctionCopy>(
      loop_, asked_node(move->from), asked_node(target), names_.prefix + names_.incarnation,
      timeouts.connect, timeouts.node_silent, [this, target](slots::Status done) {
        if (done) {
          std::erase(without_functions_, target);
        } else {
          spdlog::warn("{} has no functions yet: {}", target, done.error().message);
        }
        soon_.start(std::chrono::milliseconds(done ? 0 : 500), [this] {
          function_copy_.reset();
          advance();
        });
      });
}

void Rebalancer::on_run_end() {
  const slots::PlanId plan = run_->plan();
  const mover::Finish result = run_->result();
  const control::PlanOutcome outcome = run_->outcome();
  const bool is_done = result.how == mover::Finish::How::Done;
  const PlanState how = is_done                                     ? PlanState::Done
                        : result.how == mover::Finish::How::Aborted ? PlanState::Aborted
                                                                    : PlanState::Failed;
  const control::PlanRecord& record = state().plans.at(plan);
  const std::set<std::string> nodes = nodes_of(record.plan.content);
  const control::Act act = by_system(
      how == PlanState::Aborted && record.is_aborting ? record.plan.reason : result.reason);
  auto ended = desk_.enter(control::end_plan(state(), plan, how, outcome, act), act, "");
  if (!ended && is_done) {
    const control::Act failed = by_system(ended.error().message);
    ended = desk_.enter(control::end_plan(state(), plan, PlanState::Failed, outcome, failed),
                        failed, "");
  }
  if (!ended) {
    spdlog::error("the end of plan {} can't be recorded: {}", plan, ended.error().message);
    is_held_ = true;
  }
  run_.reset();
  function_copy_.reset();
  // Nobody will look at a target that was withheld, or vouch for another process of it.
  for (const std::string& node : nodes) host_.on_vouched(node);
}

PlanNodes Rebalancer::nodes_of_plan(const control::PlanRecord& record) const {
  PlanNodes nodes{.problem = "", .are_up = true};
  for (const std::string& node : nodes_of(record.plan.content)) {
    const control::NodeStatus status = host_.status(node);
    nodes.are_up = nodes.are_up && status.state == NodeState::Up;
    if (status.state == NodeState::Up || status.state == NodeState::Unverified) continue;
    if (!nodes.problem.empty()) continue;
    nodes.problem = fmt::format("node {} is {}: {}", node, to_string(status.state), status.reason);
  }
  return nodes;
}

control::AskedNode Rebalancer::asked_node(const std::string& name) const {
  const auto& nodes = cluster_.table()->nodes;
  const auto route = std::ranges::find(nodes, name, &NodeRoute::name);
  if (route == nodes.end()) return {};
  return {route->name, route->address, route->username, route->password};
}

}  // namespace proxy
