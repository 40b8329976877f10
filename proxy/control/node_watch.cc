#include "proxy/control/node_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/resp/reserved_key.h"

namespace proxy::control {

namespace {

using conf::Milliseconds;

// A restarted node is used within a second; a dead one costs a connection attempt a second.
constexpr Milliseconds kRetryDelayMin{50};
constexpr Milliseconds kRetryDelayMax{1000};
constexpr Milliseconds kBeatMax{1000};
// A node must not stay down because its COMMAND can't be read.
constexpr int kCommandsFailuresMax = 2;

std::uint64_t random_bits() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::string text_of(Milliseconds time) {
  return time.count() % 1000 == 0 ? fmt::format("{} s", time.count() / 1000)
                                  : fmt::format("{} ms", time.count());
}

}  // namespace

NodeWatch::NodeWatch(uv_loop_t* loop, const HealthOptions& options, WatchedNode node,
                     Listener& listener)
    : options_(options),
      node_(std::move(node)),
      listener_(listener),
      client_(loop),
      timer_(loop),
      retry_delay_(kRetryDelayMin),
      random_(std::random_device{}()) {
  status_.since = Clock::now();
  status_.reason = "not reached yet";
  client_.on_lost([this](const slots::Error& error) { on_lost(error); });
  attempt();
}

void NodeWatch::change(WatchedNode node) {
  if (node.expected_identity.empty()) node.expected_identity = node_.expected_identity;
  const bool moved = node.address != node_.address;
  const bool connects_anew = moved || node.username != node_.username ||
                             node.password != node_.password ||
                             node.expected_identity != node_.expected_identity;
  node_ = std::move(node);
  if (!connects_anew) return;
  client_.close();
  lost_at_ = Clock::now();
  retry_delay_ = kRetryDelayMin;
  commands_failures_ = 0;
  if (moved) {
    predecessors_ended_ = false;
    listener_.release_run_id(node_.name);
    set_state(NodeState::Unverified, "not reached yet at its new address");
  }
  attempt();
}

// --- Connecting ---

void NodeWatch::attempt() {
  timer_.stop();
  phase_ = Phase::Connecting;
  client_.connect(node_.address, std::min(options_.connect, answer_timeout()),
                  [this](slots::Status status) {
                    if (!status) return fail(std::move(status.error().message));
                    verify();
                  });
}

void NodeWatch::on_lost(const slots::Error& error) {
  timer_.stop();
  const bool silent = error.code == slots::Errc::Timeout;
  if (phase_ != Phase::Watching) {
    if (phase_ == Phase::Verifying && asked_ == "COMMAND") ++commands_failures_;
    return fail(silent ? silent_reason() : error.message);
  }
  lost_at_ = Clock::now();
  if (silent) set_state(NodeState::Down, silent_reason());
  if (lost_at_ - watching_since_ < options_.established) return wait(next_delay());
  retry_delay_ = kRetryDelayMin;
  attempt();
}

void NodeWatch::fail(std::string reason) {
  client_.close();
  set_state(NodeState::Down, std::move(reason));
  wait(next_delay());
  settle();
}

void NodeWatch::refuse(std::string reason) {
  client_.close();
  listener_.release_run_id(node_.name);
  set_state(NodeState::Refused, std::move(reason));
  wait(options_.refused_delay);
  settle();
}

void NodeWatch::wait(Milliseconds delay) {
  phase_ = Phase::Waiting;
  timer_.start(delay, [this] { attempt(); });
}

// --- Verifying ---

VerifyOptions NodeWatch::verify_options() {
  VerifyOptions options;
  options.cluster = options_.cluster;
  options.node = node_.name;
  options.username = node_.username;
  options.password = node_.password;
  options.expected_identity = node_.expected_identity;
  options.new_identity = identity_of(options_.cluster, node_.name, random_bits());
  options.client_name_prefix = options_.client_name_prefix;
  options.incarnation = options_.incarnation;
  options.kill_predecessors = !predecessors_ended_;
  options.fetch_commands = commands_failures_ < kCommandsFailuresMax;
  options.claim_run_id = [this](const std::string& run_id) {
    return listener_.claim_run_id(node_.name, run_id);
  };
  return options;
}

void NodeWatch::verify() {
  phase_ = Phase::Verifying;
  verifier_.emplace(verify_options());
  send(verifier_->first_command());
}

void NodeWatch::send(const Command& command) {
  asked_ = command.front();
  client_.call(command, answer_timeout(), [this](const slots::Result<Reply>& reply) {
    if (reply) on_step(verifier_->on_reply(*reply));  // Otherwise on_lost() follows.
  });
}

void NodeWatch::on_step(NodeVerifier::Step step) {
  if (const auto* command = std::get_if<Command>(&step)) return send(*command);
  on_verdict(std::get<Verdict>(std::move(step)));
}

void NodeWatch::on_verdict(Verdict verdict) {
  switch (verdict.outcome) {
    case VerifyOutcome::Verified:
      return on_verified();
    case VerifyOutcome::Alive:
      return on_alive(std::move(verdict.reason));
    case VerifyOutcome::Refused:
      return refuse(std::move(verdict.reason));
    case VerifyOutcome::Failed:
      return fail(std::move(verdict.reason));
  }
}

void NodeWatch::on_verified() {
  predecessors_ended_ = true;
  if (node_.expected_identity.empty() && !verifier_->identity().empty()) {
    node_.expected_identity = verifier_->identity();
    listener_.on_identity(node_.name, node_.expected_identity);
  }
  if (!verifier_->warning().empty()) listener_.on_warning(node_.name, verifier_->warning());
  if (verifier_->killed_connections() > 0) {
    listener_.on_warning(
        node_.name,
        fmt::format("still had connections of this proxy's previous run; they were ended: {}",
                    verifier_->killed_connections()));
  }
  if (std::string commands = verifier_->take_commands(); !commands.empty()) {
    commands_ = listener_.shared(std::move(commands));
  }
  status_.facts = verifier_->facts();
  status_.version = status_.facts.version;
  status_.is_busy = false;  // It answered everything.
  const bool is_another = status_.run_id != status_.facts.run_id;
  status_.run_id = status_.facts.run_id;
  if (is_another) ++status_.incarnation;
  if (is_another && status_.state == NodeState::Up) listener_.on_status(node_.name);
  set_state(NodeState::Up, {});
  phase_ = Phase::Watching;
  watching_since_ = facts_at_ = Clock::now();
  timer_.start(beat_interval(), [this] { beat(); });
  settle();
}

void NodeWatch::on_alive(std::string reason) {
  const std::string& run_id = verifier_->facts().run_id;
  const bool same_server = !run_id.empty() && run_id == status_.run_id;
  if (status_.state == NodeState::Unverified) {
    set_state(NodeState::Unverified, std::move(reason));
  } else if (status_.state != NodeState::Up || !same_server) {
    set_state(NodeState::Down, std::move(reason));
  } else {
    lost_at_ = Clock::now();  // It answered: its silence begins anew.
  }
  phase_ = Phase::AskingAgain;
  timer_.start(next_delay(), [this] { verify(); });
  settle();
}

// --- Watching ---

void NodeWatch::beat() {
  timer_.start(beat_interval(), [this] { beat(); });
  if (client_.pending_calls() > 0) return;  // Its own timer decides when that is too long.
  if (Clock::now() - facts_at_ >= options_.facts_age) return refresh();
  client_.call({"PING"}, options_.node_silent, [this](const slots::Result<Reply>& reply) {
    if (reply) note_busy(*reply);
  });
}

void NodeWatch::refresh() {
  facts_at_ = Clock::now();
  client_.call({"INFO"}, options_.node_silent, [this](const slots::Result<Reply>& reply) {
    if (reply) note_busy(*reply);
    if (reply && !reply->is_error())
      on_info(*reply);  // LOADING and BUSY are answers, only not this one.
  });
}

void NodeWatch::on_info(const Reply& reply) {
  NodeFacts facts = parse_info(reply.text);
  if (auto reason = why_unsuitable(facts))
    return refuse(std::move(*reason));  // Made a replica, for one.
  status_.facts = std::move(facts);
  if (node_.expected_identity.empty()) return;
  // A client's FLUSHALL takes the identity with it. Written back only now that the server has shown
  // to be a primary.
  client_.call({"SET", std::string(resp::kIdentityKey), node_.expected_identity, "NX"},
               options_.node_silent, [](const slots::Result<Reply>&) {});
}

// --- State and times ---

void NodeWatch::note_busy(const Reply& reply) {
  const bool is_busy = reply.is_error() && reply.text.starts_with("BUSY ");
  if (status_.is_busy == is_busy) return;
  status_.is_busy = is_busy;
  listener_.on_status(node_.name);
}

void NodeWatch::set_state(NodeState state, std::string reason) {
  const bool changed = status_.state != state;
  if (!changed && status_.reason == reason) return;
  status_.state = state;
  status_.reason = std::move(reason);
  if (changed) status_.since = Clock::now();
  listener_.on_status(node_.name);
}

Milliseconds NodeWatch::answer_timeout() const {
  if (status_.state != NodeState::Up) return options_.node_silent;
  // Still Up while it is connected and verified anew, but not for longer than any silence.
  const auto gone = std::chrono::duration_cast<Milliseconds>(Clock::now() - lost_at_);
  return std::max(Milliseconds{1}, options_.node_silent - gone);
}

Milliseconds NodeWatch::beat_interval() const {
  return std::clamp(options_.node_silent / 3, Milliseconds{1}, kBeatMax);
}

// Doubles up to the maximum, with jitter, so that many proxies do not return to a node in step.
Milliseconds NodeWatch::next_delay() {
  const Milliseconds ceiling = retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, kRetryDelayMax);
  std::uniform_int_distribution<Milliseconds::rep> pick(ceiling.count() / 2, ceiling.count());
  return Milliseconds(pick(random_));
}

std::string NodeWatch::silent_reason() const {
  return "does not answer for " + text_of(options_.node_silent);
}

}  // namespace proxy::control
