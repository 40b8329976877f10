#include "proxy/control/plan_desk.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "proxy/control/plan_checks.h"
#include "proxy/control/plan_reports.h"

namespace proxy::control {

namespace {

constexpr std::chrono::seconds kChecksAge{2};
// For the forecast alone, and where the moves themselves depend on what is counted.
constexpr conf::Milliseconds kCountPatience{2000};
constexpr conf::Milliseconds kBalanceCountPatience{10'000};

std::uint64_t now_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

admin::HelpReport plan_help() {
  admin::HelpReport report;
  for (const admin::VerbHelp& verb : admin::kPlanVerbs) {
    report.verbs.push_back(
        {std::string(verb.verb), std::string(verb.arguments), std::string(verb.help)});
  }
  return report;
}

std::map<std::string, NodeFacts> facts_of(const AdminSnapshot& snapshot) {
  std::map<std::string, NodeFacts> facts;
  for (std::size_t i = 0; i < snapshot.table->nodes.size() && i < snapshot.nodes.size(); ++i) {
    if (snapshot.nodes[i].state == NodeState::Up)
      facts[snapshot.table->nodes[i].name] = snapshot.nodes[i].facts;
  }
  return facts;
}

const conf::NodeConfig* find_node(const conf::Config& config, const std::string& name) {
  const auto found = std::ranges::find(config.nodes, name, &conf::NodeConfig::name);
  return found == config.nodes.end() ? nullptr : &*found;
}

// What makes the map's nodes and weights those of the configuration.
std::vector<slots::Goal> goals_of_drift(const conf::Config& config, const slots::SlotMap& map) {
  std::vector<slots::Goal> goals;
  bool wants_slots = false;
  for (const conf::NodeConfig& node : config.nodes) {
    const auto index = map.find(node.name);
    if (!index) {
      goals.emplace_back(slots::AddGoal{{node.name, node.weight}});
      wants_slots = wants_slots || node.slots.has_value();
    } else if (map.nodes()[*index].weight != node.weight) {
      goals.emplace_back(slots::WeightGoal{node.name, node.weight});
    }
  }
  for (const slots::Node& node : map.nodes()) {
    if (find_node(config, node.name) == nullptr)
      goals.emplace_back(slots::DrainGoal{node.name, true});
  }
  // A new node that lists its slots wants those, and not a share by its weight.
  if (wants_slots) return {ownership_of(config)};
  return goals;
}

// Adds what a node does not say of itself: that its watch finds it wrong or silent, that it is
// another node's server.
void note_what_the_proxy_knows(Findings& findings, const AdminSnapshot& snapshot) {
  std::map<std::string, std::string> names;  // By run id.
  for (std::size_t i = 0; i < snapshot.table->nodes.size() && i < snapshot.nodes.size(); ++i) {
    const std::string& name = snapshot.table->nodes[i].name;
    const NodeStatus& status = snapshot.nodes[i];
    if (!status.run_id.empty()) names.emplace(status.run_id, name);
    const auto finding = findings.find(name);
    if (finding == findings.end() || !finding->second.problem.empty()) continue;
    if (status.state != NodeState::Up)
      finding->second.problem = fmt::format("is {}: {}", to_string(status.state), status.reason);
  }
  for (auto& [name, finding] : findings) {
    if (!finding.problem.empty()) continue;
    const auto [other, is_first] = names.emplace(finding.facts.run_id, name);
    if (!is_first && other->second != name) {
      finding.problem = fmt::format("is the same server as node {}", other->second);
    } else if (!finding.identity.empty()) {
      finding.problem = why_foreign(finding.identity, snapshot.table->cluster, name).value_or("");
    }
  }
}

bool has_other_nodes(const conf::Config& a, const conf::Config& b) {
  const auto is_in = [](const conf::NodeConfig& node, const conf::Config& config) {
    const conf::NodeConfig* same = find_node(config, node.name);
    return same != nullptr && same->weight == node.weight;
  };
  return a.nodes.size() != b.nodes.size() ||
         !std::ranges::all_of(a.nodes, [&](const auto& node) { return is_in(node, b); });
}

}  // namespace

slots::NodePlaces places_of(const AdminSnapshot& snapshot) {
  std::map<std::string, std::string> places;
  for (const NodeRoute& node : snapshot.table->nodes) {
    if (node.address != conf::Address{}) places[node.name] = node.address.text();
  }
  for (const conf::NodeConfig& node : snapshot.config->nodes)
    places[node.name] = node.address.text();
  return {places.begin(), places.end()};
}

PlanDesk::PlanDesk(uv_loop_t* loop, PlanPort& port, AuditLog audit, std::string client_name)
    : loop_(loop),
      port_(port),
      audit_(std::move(audit)),
      client_name_(std::move(client_name)),
      sweeper_(loop),
      surveys_(loop, client_name_) {}

void PlanDesk::run(const std::vector<std::string>& words, const AdminPeer& peer, Done done) {
  auto request = parse_plan_request(words, *port_.plan_snapshot().config);
  if (!request) return done(std::unexpected(std::move(request).error()));
  Asker asker;
  asker.request = *std::move(request);
  asker.peer = peer.text();
  asker.act = {asker.request.by.empty() ? asker.peer : asker.request.by, asker.request.reason,
               now_ms(), peer.credential()};
  asker.done = std::move(done);
  answer(std::move(asker));
}

void PlanDesk::answer(Asker asker) {
  const std::string& verb = asker.request.verb;
  const slots::PlanId plan = asker.request.plan;
  if (verb == "HELP") return asker.done(to_json(plan_help()));
  if (verb == "LIST") return asker.done(to_json(plans_report(port_.state())));
  if (verb == "HISTORY") {
    return asker.done(to_json(
        admin::HistoryReport{audit_.history(plan == 0 ? std::nullopt : std::optional(plan))}));
  }
  if (verb == "PROPOSE") return propose(std::move(asker));
  const auto known = port_.state().plans.find(plan);
  if (known == port_.state().plans.end()) {
    return asker.done(slots::fail(slots::Errc::NotFound,
                                  fmt::format("there is no plan {}; PLAN LIST shows them", plan)));
  }
  if (verb == "SHOW") return show(plan, std::move(asker.done));
  if (verb == "DIFF") return asker.done(to_json(plan_diff(port_.state(), known->second)));
  if (verb == "APPROVE") return approve(std::move(asker));
  if (verb != "RETRY" && verb != "REVERT") return change(asker);
  count(slots::Measure::Slots,
        [this, asker = std::move(asker)](const Census& census) { change(asker, census); });
}

void PlanDesk::count(slots::Measure measure, std::function<void(const Census&)> done) {
  const bool decides = measure == slots::Measure::Keys || measure == slots::Measure::Bytes;
  port_.count_slots(decides ? kBalanceCountPatience : kCountPatience,
                    [life = life_, done = std::move(done)](const Census& census) {
                      if (*life) done(census);
                    });
}

void PlanDesk::propose(Asker asker) {
  if (asker.request.propose.collects_strays) return propose_strays(asker);
  const slots::Measure measure = measure_of(asker.request.propose.goals);
  count(measure, [this, asker = std::move(asker), measure](const Census& census) {
    const auto id = enter(propose_plan(port_.state(), asker.request.propose,
                                       surroundings(measure, census), asker.act),
                          asker.act, asker.peer);
    if (!id) return asker.done(std::unexpected(id.error()));
    tell_proposal(*id, asker.done);
  });
}

void PlanDesk::propose_strays(const Asker& asker) {
  if (is_counting_strays_) {
    return asker.done(slots::fail(slots::Errc::Conflict,
                                  "strays are being counted for a proposal already; propose again "
                                  "when that is done"));
  }
  is_counting_strays_ = true;
  const PlanSurveys::Patience limits = patience();
  stray_survey_ = std::make_unique<StraySurvey>(
      loop_, port_.state().map, nodes_of_map(), client_name_, limits.connect, limits.answer,
      [this, asker, epoch = port_.state().map.epoch()](auto strays) {
        is_counting_strays_ = false;
        enter_strays(asker, epoch, std::move(strays));
      });
}

void PlanDesk::enter_strays(const Asker& asker, slots::Epoch epoch,
                            slots::Result<std::vector<slots::StrayMove>> strays) {
  if (!strays) {
    strays.error().message += ": strays are counted when all nodes answer; mend it, then propose";
    return asker.done(std::unexpected(std::move(strays).error()));
  }
  if (port_.state().map.epoch() != epoch) {
    return asker.done(slots::fail(slots::Errc::Conflict,
                                  "the map has changed while strays were counted; propose again"));
  }
  const auto id =
      enter(control::propose_strays(port_.state(), asker.request.propose, *std::move(strays),
                                    surroundings(slots::Measure::Slots), asker.act),
            asker.act, asker.peer);
  if (!id) return asker.done(std::unexpected(id.error()));
  tell_proposal(*id, asker.done);
}

void PlanDesk::tell_proposal(slots::PlanId plan, const Done& done, const Census& census) {
  check(plan, [this, plan, done, census](const Checked& checked) {
    refine_forecast(plan, checked, census);
    look_at_keys(plan, [this, plan, checked, done] { tell(plan, checked, done); });
  });
}

void PlanDesk::propose_balance(slots::Measure measure, const std::string& reason) {
  count(measure, [this, measure, reason](const Census& census) {
    if (!open_plans(port_.state()).empty()) return;
    ProposeRequest request;
    request.goals.emplace_back(slots::BalanceGoal{measure});
    const Act act{"system", reason, now_ms()};
    const auto id =
        enter(propose_plan(port_.state(), request, surroundings(measure, census), act), act, "");
    if (!id) spdlog::warn("no plan is proposed although {}: {}", reason, id.error().message);
  });
}

void PlanDesk::look_at_keys(slots::PlanId plan, std::function<void()> done) {
  surveys_.forget_others(port_.state());
  const auto known = port_.state().plans.find(plan);
  if (known == port_.state().plans.end() || surveys_.knows(plan)) return done();
  const slots::PlanContent& content = known->second.plan.content;
  std::vector<SampledNode> sources;
  for (AskedNode& asked : nodes_of(known->second)) {
    slots::SlotSet slots;
    for (const slots::Move& move : content.moves) {
      if (move.from == asked.name) slots.add(move.slots);
    }
    if (!slots.empty()) sources.push_back({std::move(asked), slots});
  }
  if (sources.empty()) return done();
  surveys_.sample(plan, std::move(sources), patience(), std::move(done));
}

// What the watch of the nodes knew was some seconds old. `census`: of a plan that was proposed
// without.
void PlanDesk::refine_forecast(slots::PlanId plan, const Checked& checked, const Census& census) {
  ClusterState next = port_.state();
  const auto known = next.plans.find(plan);
  if (known == next.plans.end()) return;
  for (auto& [node, load] : known->second.forecast.loads) {
    const auto facts = checked.facts.find(node);
    const auto index = next.map.find(node);
    if (facts != checked.facts.end() && index)
      load = expected_load(facts->second, next.map.slots_of(*index).size());
  }
  if (census != nullptr) take_census(known->second.forecast, known->second.plan.content, *census);
  if (slots::Status written = port_.commit(next); !written)
    spdlog::error("the forecast of plan {} is not recorded: {}", plan, written.error().message);
}

// The steps that need no questions to the nodes.
void PlanDesk::change(const Asker& asker, const Census& census) {
  const std::string& verb = asker.request.verb;
  const slots::PlanId plan = asker.request.plan;
  const ClusterState& now = port_.state();
  const Act& act = asker.act;
  ChangeResult change = slots::fail(slots::Errc::InvalidArgument, "unknown word");
  if (verb == "REJECT") change = reject_plan(now, plan, act);
  if (verb == "PAUSE") change = pause_plan(now, plan, false, act);
  if (verb == "RESUME") change = resume_plan(now, plan, act);
  if (verb == "ABORT") change = abort_plan(now, plan, act);
  if (verb == "THROTTLE") change = throttle_plan(now, plan, asker.request.rate, act);
  if (verb == "RETRY")
    change = propose_rest(now, plan, surroundings(slots::Measure::Slots, census), act);
  if (verb == "REVERT")
    change = propose_reverse(now, plan, surroundings(slots::Measure::Slots, census), act);
  const auto id = enter(std::move(change), act, asker.peer);
  if (!id) return asker.done(std::unexpected(id.error()));
  show(*id, asker.done);
}

void PlanDesk::approve(Asker asker) {
  const slots::PlanId plan = asker.request.plan;
  // What is refused anyway needs no questions.
  if (slots::Status may =
          check_approver(port_.state(), plan, port_.plan_snapshot().config->approval, asker.act);
      !may) {
    audit("approval refused: proposed by the same person", plan, asker.act, asker.peer);
    return asker.done(std::unexpected(std::move(may).error()));
  }
  auto trial = approve_plan(port_.state(), plan, asker.request.digest,
                            places_of(port_.plan_snapshot()), asker.act);
  if (!trial || trial->refusal) {
    const auto refused = enter(std::move(trial), asker.act, asker.peer);
    return asker.done(std::unexpected(refused.error()));
  }
  checked_.erase(plan);
  check(plan, [this, asker](const Checked& checked) { approve_checked(asker, checked); });
}

void PlanDesk::approve_checked(const Asker& asker, const Checked& checked) {
  const slots::PlanId plan = asker.request.plan;
  const auto failed = std::ranges::find(checked.checks, "fail", &admin::PlanCheck::result);
  if (failed != checked.checks.end()) {
    return asker.done(slots::fail(
        slots::Errc::Conflict,
        fmt::format("plan {} can't be approved now: {}. {}", plan, failed->what, failed->advice)));
  }
  const auto id = enter(approve_plan(port_.state(), plan, asker.request.digest,
                                     places_of(port_.plan_snapshot()), asker.act),
                        asker.act, asker.peer);
  if (!id) return asker.done(std::unexpected(id.error()));
  tell(plan, checked, asker.done);
}

void PlanDesk::show(slots::PlanId plan, Done done) {
  const auto known = port_.state().plans.find(plan);
  if (known == port_.state().plans.end() || known->second.plan.state != slots::PlanState::Proposed)
    return tell(plan, {}, done);
  if (uncounted_.erase(plan) > 0) {
    return count(slots::Measure::Slots, [this, plan, done = std::move(done)](const Census& census) {
      const auto found = port_.state().plans.find(plan);
      const bool is_proposed = found != port_.state().plans.end() &&
                               found->second.plan.state == slots::PlanState::Proposed;
      is_proposed ? tell_proposal(plan, done, census) : tell(plan, {}, done);
    });
  }
  check(plan, [this, plan, done = std::move(done)](const Checked& checked) {
    look_at_keys(plan, [this, plan, checked, done] { tell(plan, checked, done); });
  });
}

void PlanDesk::tell(slots::PlanId plan, const Checked& checked, const Done& done) {
  const auto known = port_.state().plans.find(plan);
  if (known == port_.state().plans.end())
    return done(slots::fail(slots::Errc::NotFound, fmt::format("plan {} is forgotten", plan)));
  std::map<std::string, NodeFacts> facts = facts_of(port_.plan_snapshot());
  for (const auto& [node, newer] : checked.facts) facts[node] = newer;
  done(to_json(plan_report(port_.state(), known->second, facts, checked.checks,
                           port_.progress(plan), surveys_.of(plan))));
}

void PlanDesk::check(slots::PlanId plan, std::function<void(const Checked&)> done) {
  const auto recent = checked_.find(plan);
  if (recent != checked_.end() && std::chrono::steady_clock::now() - recent->second.at < kChecksAge)
    return done(Checked(recent->second));
  std::vector<AskedNode> nodes = nodes_of(port_.state().plans.at(plan));
  if (nodes.empty()) return done({});
  const AdminSnapshot snapshot = port_.plan_snapshot();
  const std::uint64_t number = next_preflight_++;
  preflights_[number] = std::make_unique<Preflight>(
      loop_, std::move(nodes), client_name_, snapshot.config->timeouts.connect,
      snapshot.config->timeouts.node_silent,
      [this, number, plan, done = std::move(done)](Findings findings) {
        over_.push_back(number);
        sweeper_.start(std::chrono::milliseconds(0), [this] {
          for (const std::uint64_t over : std::exchange(over_, {})) preflights_.erase(over);
        });
        const auto known = port_.state().plans.find(plan);
        Checked checked;
        checked.at = std::chrono::steady_clock::now();
        note_what_the_proxy_knows(findings, port_.plan_snapshot());
        if (known != port_.state().plans.end()) checked.checks = judge(known->second, findings);
        for (const auto& [node, finding] : findings) {
          if (finding.problem.empty()) checked.facts[node] = finding.facts;
        }
        checked_[plan] = checked;
        std::erase_if(checked_,
                      [&](const auto& each) { return !port_.state().plans.contains(each.first); });
        done(checked);
      });
}

std::string PlanDesk::propose_drift(const conf::Config& before, const AdminPeer& peer) {
  const AdminSnapshot snapshot = port_.plan_snapshot();
  if (!has_other_nodes(before, *snapshot.config)) return "";
  ProposeRequest request;
  request.goals = goals_of_drift(*snapshot.config, *snapshot.table->map);
  if (request.goals.empty()) return "";
  const Act act{"system", "the configuration's nodes or weights changed", now_ms(),
                peer.credential()};
  const auto id =
      enter(propose_plan(port_.state(), request, surroundings(slots::Measure::Slots), act), act,
            peer.text());
  if (!id) {
    spdlog::warn("no plan is proposed for the changed configuration: {}", id.error().message);
    return "";
  }
  uncounted_.insert(*id);  // The reload does not wait for it.
  return fmt::format("plan {} is proposed: {}; see slotctl plan show {}", *id,
                     port_.state().plans.at(*id).plan.content.purpose, *id);
}

slots::Result<slots::PlanId> PlanDesk::enter(ChangeResult change, const Act& act,
                                             const std::string& peer) {
  if (!change) return std::unexpected(std::move(change).error());
  if (slots::Status written = port_.commit(change->state); !written)
    return std::unexpected(std::move(written).error());
  audit(change->what, change->plan, act, peer);
  checked_.erase(change->plan);
  port_.on_plan_changed(change->plan);
  if (change->refusal) return std::unexpected(*std::move(change->refusal));
  return change->plan;
}

void PlanDesk::audit(const std::string& what, slots::PlanId plan, const Act& act,
                     const std::string& peer) {
  spdlog::info("plan {}: {} by {}{}{}", plan, what, act.by, act.reason.empty() ? "" : ": ",
               act.reason);
  const slots::Status written = audit_.append({.at_ms = act.now_ms,
                                               .plan = plan,
                                               .who = act.by,
                                               .peer = peer,
                                               .what = what,
                                               .why = act.reason});
  if (!written) spdlog::error("{}", written.error().message);
}

Surroundings PlanDesk::surroundings(slots::Measure measure, const Census& census) {
  const AdminSnapshot snapshot = port_.plan_snapshot();
  const slots::SlotMap& map = *snapshot.table->map;
  Surroundings around;
  around.places = places_of(snapshot);
  around.defaults = snapshot.config->rebalance;
  around.census = census;
  const std::map<std::string, NodeFacts> facts = facts_of(snapshot);
  for (std::size_t i = 0; i < map.nodes().size(); ++i) {
    const auto known = facts.find(map.nodes()[i].name);
    if (known == facts.end()) continue;
    const std::size_t owned = map.slots_of(static_cast<slots::NodeIndex>(i)).size();
    around.expected[known->first] = expected_load(known->second, owned);
  }
  if (measure == slots::Measure::Operations) around.loads = port_.operations();
  if (measure != slots::Measure::Keys && measure != slots::Measure::Bytes) return around;
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot) {
    const auto id = static_cast<slots::SlotId>(slot);
    const bool is_keys = measure == slots::Measure::Keys;
    if (census != nullptr && census->counted.contains(id)) {
      around.loads[slot] = is_keys ? census->keys[slot] : census->bytes[slot];
      continue;
    }
    const auto known = around.expected.find(map.nodes()[map.owner(id)].name);
    if (known == around.expected.end()) continue;
    const SlotLoad& load = known->second;
    around.loads[slot] = load.keys_per_slot * (is_keys ? 1 : load.bytes_per_key);
  }
  return around;
}

std::vector<AskedNode> PlanDesk::nodes_of(const PlanRecord& plan) {
  const AdminSnapshot snapshot = port_.plan_snapshot();
  std::map<std::string, PlanRole> roles = roles_in(plan.plan.content);
  std::vector<AskedNode> nodes;
  for (const auto& [name, place] : plan.plan.content.places) {
    const auto route = std::ranges::find(snapshot.table->nodes, name, &NodeRoute::name);
    if (route != snapshot.table->nodes.end()) {
      nodes.push_back({name, route->address, route->username, route->password, roles[name]});
    } else if (const conf::NodeConfig* node = find_node(*snapshot.config, name)) {
      nodes.push_back({name, node->address, node->username, node->password, roles[name]});
    }
  }
  return nodes;
}

std::vector<SurveyedNode> PlanDesk::nodes_of_map() {
  const AdminSnapshot snapshot = port_.plan_snapshot();
  std::vector<SurveyedNode> nodes;
  for (const slots::Node& node : port_.state().map.nodes()) {
    SurveyedNode& surveyed = nodes.emplace_back();
    surveyed.asked.name = node.name;
    surveyed.kept = slots_copied_to(port_.state(), node.name);
    const auto route = std::ranges::find(snapshot.table->nodes, node.name, &NodeRoute::name);
    if (route == snapshot.table->nodes.end()) continue;
    surveyed.asked.address = route->address;
    surveyed.asked.username = route->username;
    surveyed.asked.password = route->password;
  }
  return nodes;
}

PlanSurveys::Patience PlanDesk::patience() {
  const conf::Timeouts& timeouts = port_.plan_snapshot().config->timeouts;
  return {timeouts.connect, timeouts.node_silent};
}

}  // namespace proxy::control
