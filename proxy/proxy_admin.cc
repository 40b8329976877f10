// Proxy, the answers: what the admin port asks of it, and what it counts for plans.

#include <spdlog/spdlog.h>

#include <utility>

#include "conf/loader.h"
#include "proxy/control/plan_reports.h"
#include "proxy/load_config.h"
#include "proxy/log.h"
#include "proxy/proxy.h"
#include "proxy/reload.h"

namespace proxy {

namespace {

constexpr std::size_t kStrayNamesMax = 1000;

control::WorkerFacts facts_of(const WorkerStats& stats) {
  control::WorkerFacts facts;
  facts.clients = stats.clients.get();
  facts.commands = stats.requests.get();
  facts.errors = stats.errors.get();
  facts.bytes_in = stats.bytes_from_clients.get();
  facts.bytes_out = stats.bytes_to_clients.get();
  facts.counters = {{"clients_total", stats.clients_total.get()},
                    {"clients_refused", stats.clients_refused.get()},
                    {"redirects", stats.redirects.get()},
                    {"outcome_unknown", stats.outcome_unknown.get()},
                    {"stalled_clients", stats.stalled_clients.get()},
                    {"overflowing_clients", stats.overflowing_clients.get()},
                    {"slow_subscribers", stats.slow_subscribers.get()},
                    {"backend_connects", stats.backend_connects.get()},
                    {"backend_failures", stats.backend_failures.get()},
                    {"fenced_clients", stats.fenced_clients.get()},
                    {"blocked_clients", stats.blocked_clients.get()},
                    {"blocking_refused", stats.blocking_refused.get()},
                    {"unread_bytes", stats.unread_bytes.get()}};
  return facts;
}

}  // namespace

// --- strays

void Proxy::warn_of_strays() {
  count_strays(true, 0, [](slots::Result<std::vector<control::NodeStrayCount>> counts) {
    if (!counts) return;
    for (const control::NodeStrayCount& count : *counts) {
      if (!count.report || count.report->strays == 0) continue;
      spdlog::warn(
          "node {} holds keys of slots that it does not own: {} of {} keys {}; clients can't see "
          "them. "
          "slotctl strays counts them",
          count.node, count.report->strays, count.report->keys,
          count.report->is_whole ? "in all" : "looked at");
    }
  });
}

void Proxy::count_strays(
    bool list, std::function<void(slots::Result<std::vector<control::NodeStrayCount>>)> done) {
  count_strays(false, list ? kStrayNamesMax : 0, std::move(done));
}

void Proxy::count_strays(
    bool sample_only, std::size_t names_max,
    std::function<void(slots::Result<std::vector<control::NodeStrayCount>>)> done) {
  if (stray_count_ != nullptr) {
    return done(slots::fail(slots::Errc::Conflict,
                            "a count of strays is under way; ask again when it is over"));
  }
  auto ended = [this, done = std::move(done)](std::vector<control::NodeStrayCount> counts) {
    // Not from inside the count's own call.
    mailbox_.post([this, done, counts = std::move(counts)]() mutable {
      stray_count_.reset();
      done(std::move(counts));
    });
  };
  stray_count_ =
      std::make_unique<StrayCount>(&loop_, cluster_.table(), connection_prefix() + incarnation_,
                                   sample_only, names_max, std::move(ended));
}

// --- what slots hold

// Whoever asks while a count is under way gets what that one finds.
void Proxy::count_slots(conf::Milliseconds patience, Rebalancer::CountDone done) {
  census_askers_.push_back(std::move(done));
  if (slot_count_ != nullptr) return;
  std::vector<double> bytes_per_key;
  for (const NodeRoute& node : cluster_.table()->nodes) {
    const control::NodeFacts facts = health_->status(node.name).facts;
    bytes_per_key.push_back(
        facts.keys == 0 ? 0 : static_cast<double>(facts.dataset) / static_cast<double>(facts.keys));
  }
  auto ended = [this](std::shared_ptr<const slots::SlotCensus> census) {
    // Not from inside the count's own call.
    mailbox_.post([this, census = std::move(census)] {
      slot_count_.reset();
      census_ = census;
      census_taken_at_ = std::chrono::steady_clock::now();
      for (const auto& each : std::exchange(census_askers_, {})) each(census);
    });
  };
  slot_count_ =
      std::make_unique<SlotCount>(&loop_, cluster_.table(), connection_prefix() + incarnation_,
                                  std::move(bytes_per_key), patience, std::move(ended));
}

// --- admin

control::AdminSnapshot Proxy::snapshot() {
  control::AdminSnapshot snapshot;
  snapshot.table = cluster_.table();
  for (const NodeRoute& node : cluster_.table()->nodes)
    snapshot.nodes.push_back(health_->status(node.name));
  for (const auto& worker : workers_) snapshot.workers.push_back(facts_of(worker->stats()));
  snapshot.ops_per_second = ops_per_second_;
  snapshot.uptime = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - started_at_);
  snapshot.config_path = config_path_;
  snapshot.config = cluster_.config();
  snapshot.drift = cluster_.drift();
  snapshot.plans = control::open_plans(cluster_.state());
  snapshot.is_draining = is_draining_;
  return snapshot;
}

control::HeatFacts Proxy::heat() {
  const auto age = std::chrono::steady_clock::now() - census_taken_at_;
  control::HeatFacts facts{
      heat_->rates(), census_, std::chrono::duration_cast<std::chrono::seconds>(age), {}};
  for (const NodeRoute& node : cluster_.table()->nodes) {
    const HeatKeeper::Latency latency = heat_->latency(node.name);
    if (const auto p99 = latency.now ? latency.now : latency.usual)
      facts.latency_p99_ms[node.name] = static_cast<double>(*p99) / 1000;
  }
  return facts;
}

void Proxy::watch_keys(
    std::chrono::seconds duration,
    std::function<void(slots::Result<std::shared_ptr<const slots::TopKeys>>)> done) {
  if (!workers_started_) {
    return done(
        slots::fail(slots::Errc::Unavailable, "no clients are served yet; ask again in a moment"));
  }
  heat_->watch_keys(duration, std::move(done));
}

void Proxy::plan(const std::vector<std::string>& words, const control::AdminPeer& peer,
                 std::function<void(slots::Result<std::string>)> done) {
  rebalancer_->plan(words, peer, std::move(done));
}

void Proxy::reload(const control::AdminPeer& peer,
                   std::function<void(slots::Result<std::vector<std::string>>)> done) {
  if (config_path_.empty()) {
    return done(
        slots::fail(slots::Errc::NotFound, "this proxy was not started from a configuration file"));
  }
  auto loaded = load_config(config_path_);
  if (!loaded)
    return done(
        slots::fail(slots::Errc::InvalidArgument, loaded.error().text() + "\nnothing was changed"));
  Reload change = plan_reload(config(), *loaded, *cluster_.table()->map);
  const std::shared_ptr<const conf::Config> before = cluster_.config();
  cluster_.set_config(std::make_shared<conf::Config>(change.config));
  set_log_level(config().log.level);
  health_->set_timeouts(config().timeouts.connect, config().timeouts.node_silent);
  admin_->set_passwords(config().listen.admin_password, config().listen.admin_users);
  watch_nodes();
  if (std::string note = rebalancer_->propose_drift(*before, peer); !note.empty())
    change.notes.push_back(std::move(note));
  for (const std::string& note : change.notes) spdlog::info("reload: {}", note);
  done(change.notes);
}

}  // namespace proxy
