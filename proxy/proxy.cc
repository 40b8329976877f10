#include "proxy/proxy.h"

#include <malloc.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "slots/assert.h"

namespace proxy {

namespace {

constexpr std::uint64_t kTickMs = 1000;

std::string random_hex() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

unsigned worker_count(const conf::Config& config) {
  if (config.workers) return *config.workers;
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Proxy::Proxy(conf::Config config, std::string config_path)
    : cluster_(std::make_shared<conf::Config>(std::move(config))),
      config_path_(std::move(config_path)),
      incarnation_(random_hex()),
      scripts_(worker_count(*cluster_.config())),
      pubsub_(pubsub_options()) {
  SP_ASSERT(uv_loop_init(&loop_) == 0);
  mailbox_.open(&loop_);
  cluster_.deliver_to(
      [this](const std::shared_ptr<const RoutingTable>& table, std::function<void()> applied) {
        deliver(table, std::move(applied));
      });
}

pubsub::HubOptions Proxy::pubsub_options() {
  pubsub::HubOptions options;
  options.workers = worker_count(config());
  options.connection_name = connection_prefix() + incarnation_;
  options.to_worker = [this](unsigned worker, std::function<void(pubsub::Receiver&)> work) {
    workers_[worker]->post_messages(std::move(work));
  };
  options.on_fenced = [this](FenceAck ack) {
    mailbox_.post([this, ack = std::move(ack)] { rebalancer_->on_fenced(ack); });
  };
  return options;
}

Proxy::~Proxy() {
  if (!has_ended_) {
    pubsub_.stop();
    mailbox_.close();
    for (auto& listeners : listeners_) {
      for (WorkerListener& listener : listeners) ::close(listener.descriptor);
    }
    rebalancer_.reset();
    heat_.reset();
    health_.reset();
    admin_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
  }
  uv_loop_close(&loop_);
}

slots::Result<std::unique_ptr<Proxy>> Proxy::open(conf::Config config, std::string config_path) {
  std::unique_ptr<Proxy> proxy(new Proxy(std::move(config), std::move(config_path)));
  if (slots::Status opened = proxy->cluster_.open(); !opened)
    return std::unexpected(opened.error());
  for (auto step : {&Proxy::open_listeners, &Proxy::open_workers}) {
    if (slots::Status done = (proxy.get()->*step)(); !done) return std::unexpected(done.error());
  }
  return proxy;
}

// One for each worker, or a single one for the first, which hands connections over.
slots::Result<std::vector<WorkerListener>> Proxy::open_listener(const conf::Address& address,
                                                                const std::string& node) {
  auto opened = net::open_listeners(address, address.is_unix() ? 1 : worker_count(config()));
  if (!opened) return std::unexpected(opened.error());
  std::vector<WorkerListener> listeners;
  for (int descriptor : *opened) {
    auto facts = std::make_shared<session::ListenerFacts>();
    facts->is_redirect = !node.empty();
    facts->node_name = node;
    facts->node = facts->is_redirect ? cluster_.table()->map->find(node).value_or(slots::kNoNode)
                                     : slots::kNoNode;
    facts->port = address.port;
    facts->address = address.text();
    facts->is_tcp = !address.is_unix();
    listeners.push_back({descriptor, facts, address.is_unix()});
  }
  return listeners;
}

slots::Status Proxy::open_listeners() {
  listeners_.resize(worker_count(config()));
  auto add = [&](const conf::Address& address, const std::string& node) -> slots::Status {
    auto opened = open_listener(address, node);
    if (!opened) return std::unexpected(opened.error());
    for (std::size_t i = 0; i < opened->size(); ++i) listeners_[i].push_back((*opened)[i]);
    return {};
  };
  for (const conf::Address& address : config().listen.forward) {
    if (auto added = add(address, ""); !added) return added;
  }
  for (const NodeRoute& node : cluster_.table()->nodes) {
    if (!node.endpoint) continue;
    if (auto added = add(*node.endpoint, node.name); !added) return added;
    open_endpoints_.insert(node.name + " " + node.endpoint->text());
  }
  return {};
}

// Of a node that joins while clients are served. It stays open when the node leaves.
slots::Status Proxy::open_endpoint(const conf::NodeConfig& node) {
  const std::string name = node.name + " " + node.endpoint->text();
  if (open_endpoints_.contains(name)) return {};
  auto opened = open_listener(*node.endpoint, node.name);
  if (!opened) return std::unexpected(opened.error());
  open_endpoints_.insert(name);
  for (std::size_t i = 0; i < opened->size(); ++i) workers_[i]->listen({(*opened)[i]});
  return {};
}

slots::Status Proxy::open_workers() {
  auto admin =
      control::AdminServer::open(&loop_, config().listen.admin, config().listen.admin_password,
                                 *this, config().listen.admin_users);
  if (!admin) return std::unexpected(admin.error());
  admin_ = std::move(*admin);
  for (unsigned i = 0; i < listeners_.size(); ++i) {
    WorkerOptions options;
    options.index = i;
    options.count = static_cast<unsigned>(listeners_.size());
    options.connection_name = connection_prefix() + incarnation_;
    options.scripts = &scripts_;
    options.refusals = &refusals_;
    options.pubsub = &pubsub_;
    options.counts = &counts_;
    options.on_fenced = [this](FenceAck ack) {
      mailbox_.post([this, ack = std::move(ack)] { rebalancer_->on_fenced(ack); });
    };
    workers_.push_back(std::make_unique<Worker>(options, cluster_.table(), workers_));
  }
  return {};
}

// --- the control loop

int Proxy::run(std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
  start_control();
  uv_run(&loop_, UV_RUN_DEFAULT);
  has_ended_ = true;
  return 0;
}

void Proxy::start_control() {
  const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    uv_signal_init(&loop_, &signals_[i]);
    signals_[i].data = this;
    uv_signal_start(
        &signals_[i],
        [](uv_signal_t* handle, int number) {
          static_cast<Proxy*>(handle->data)->on_signal(number);
        },
        numbers[i]);
  }
  uv_timer_init(&loop_, &ticker_);
  ticker_.data = this;
  uv_timer_start(
      &ticker_, [](uv_timer_t* handle) { static_cast<Proxy*>(handle->data)->tick(); }, kTickMs,
      kTickMs);

  control::HealthOptions options;
  options.cluster = config().cluster;
  options.client_name_prefix = connection_prefix();
  options.incarnation = incarnation_;
  options.connect = config().timeouts.connect;
  options.node_silent = config().timeouts.node_silent;
  control::HealthCallbacks callbacks;
  callbacks.on_change = [this](const std::string& node, const control::NodeStatus& status) {
    on_health(node, status);
  };
  callbacks.on_identity = [this](const std::string& node, const std::string& value) {
    cluster_.record_identity(node, value);
  };
  callbacks.on_warning = [](const std::string& node, const std::string& text) {
    spdlog::warn("node {}: {}", node, text);
  };
  callbacks.first_round_done = [this] { start_workers(); };
  health_ =
      std::make_unique<control::HealthWatcher>(&loop_, std::move(options), std::move(callbacks));
  heat_ = std::make_unique<HeatKeeper>(
      &loop_, workers_, [this](std::function<void()> work) { mailbox_.post(std::move(work)); });
  make_rebalancer();
  watch_nodes();
}

void Proxy::make_rebalancer() {
  Rebalancer::Host host;
  host.snapshot = [this] { return snapshot(); };
  host.status = [this](const std::string& node) { return health_->status(node); };
  host.post = [this](std::function<void()> work) { mailbox_.post(std::move(work)); };
  host.on_nodes_changed = [this] { watch_nodes(); };
  host.open_endpoint = [this](const conf::NodeConfig& node) { return open_endpoint(node); };
  host.flushes = [this] { return sum_of(&WorkerStats::flushes); };
  host.lost_flushes = [this] { return sum_of(&WorkerStats::lost_flushes); };
  host.heat = [this]() -> HeatKeeper& { return *heat_; };
  host.count_slots = [this](conf::Milliseconds patience, Rebalancer::CountDone done) {
    count_slots(patience, std::move(done));
  };
  host.on_vouched = [this](const std::string& node) { on_health(node, health_->status(node)); };
  rebalancer_ = std::make_unique<Rebalancer>(&loop_, cluster_, workers_.size() + 1, std::move(host),
                                             Rebalancer::Names{connection_prefix(), incarnation_});
  rebalancer_->take_up();
}

void Proxy::watch_nodes() { health_->set_nodes(cluster_.watched_nodes()); }

// Once every node has been looked at: up or not, clients are served from now on.
void Proxy::start_workers() {
  if (workers_started_ || is_draining_) return;
  workers_started_ = true;
  pubsub_.start();
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i]->start(std::move(listeners_[i]));
  listeners_.clear();
  cluster_.publish([](RoutingTable&) {});
  for (const std::string& line : cluster_.drift()) spdlog::warn("drift: {}", line);
  if (on_ready_) on_ready_();
  if (cluster_.is_first_start()) warn_of_strays();
  rebalancer_->begin();
}

// `applied` runs on this thread once the last worker has taken the table.
void Proxy::deliver(const std::shared_ptr<const RoutingTable>& table,
                    std::function<void()> applied) {
  if (!workers_started_) {
    if (applied) mailbox_.post(std::move(applied));
    return;
  }
  pubsub_.install(table);
  auto waiting = std::make_shared<std::size_t>(workers_.size());
  for (const auto& worker : workers_) {
    if (!applied) {
      worker->install(table, nullptr);
      continue;
    }
    worker->install(table, [this, waiting, applied] {
      mailbox_.post([waiting, applied] {
        if (--*waiting == 0) applied();
      });
    });
  }
}

void Proxy::on_health(const std::string& node, const control::NodeStatus& status) {
  auto index = cluster_.table()->map->find(node);
  if (!index) return;
  NodeState before = cluster_.table()->nodes[*index].state;
  NodeState state = status.state;
  std::string reason = status.reason;
  if (std::string why = rebalancer_->why_withheld(node, status.run_id);
      state == NodeState::Up && !why.empty()) {
    state = NodeState::Unverified;
    reason = std::move(why);
  }
  rebalancer_->on_health();
  if (status.state == NodeState::Up) learn_commands(node);
  cluster_.publish([&](RoutingTable& table) {
    NodeRoute& route = table.nodes[*index];
    route.state = state;
    route.reason = reason;
    route.is_busy = status.is_busy;
    route.incarnation = status.incarnation;
    route.only_run_id = rebalancer_->only_run_id(node);
    if (table.redis_version.empty()) table.redis_version = status.version;
  });
  if (before == state) return;
  if (state == NodeState::Up) {
    spdlog::info("node {} is up: redis {}", node, status.version);
  } else {
    spdlog::warn("node {} can't be used: {}", node, reason);
  }
}

void Proxy::learn_commands(const std::string& node) {
  auto reply = health_->command_reply(node);
  if (reply == nullptr ||
      std::find(learned_from_.begin(), learned_from_.end(), reply) != learned_from_.end())
    return;
  learned_from_.push_back(reply);
  if (auto learned = cluster_.learn_commands(*reply); !learned)
    spdlog::warn("node {}: {}", node, learned.error().message);
}

void Proxy::tick() {
  std::uint64_t requests = sum_of(&WorkerStats::requests);
  ops_per_second_ =
      static_cast<double>(requests - requests_before_) * 1000.0 / static_cast<double>(kTickMs);
  requests_before_ = requests;
  if (workers_started_) heat_->tick();
  rebalancer_->tick();
  give_memory_back();
}

// glibc keeps freed pages between live ones until it is asked for them: worth it once many clients
// have left or a rush is over. Only this thread asks: the first call may be what initialises
// glibc's allocator (where a sanitizer's stands before it), and that is no business of two threads
// at once.
void Proxy::give_memory_back() {
  std::uint64_t clients = sum_of(&WorkerStats::clients);
  std::uint64_t bytes =
      sum_of(&WorkerStats::bytes_from_clients) + sum_of(&WorkerStats::bytes_to_clients);
  std::uint64_t traffic = bytes - std::exchange(bytes_before_, bytes);
  most_clients_ = std::max(most_clients_, clients);
  most_traffic_ = std::max(most_traffic_, traffic);
  bool have_left = most_clients_ > clients + 100;
  bool is_rush_over = most_traffic_ > 1'000'000 && traffic < most_traffic_ / 4;
  if (!have_left && !is_rush_over) return;
  ::malloc_trim(0);
  most_clients_ = clients;
  most_traffic_ = traffic;
}

std::uint64_t Proxy::sum_of(Counter WorkerStats::* counter) const {
  std::uint64_t total = 0;
  for (const auto& worker : workers_) total += (worker->stats().*counter).get();
  return total;
}

// --- the end

void Proxy::on_signal(int number) {
  if (number == SIGHUP) {
    // Only this user and root can send it.
    const control::AdminPeer sender{.is_unix = true, .pid = ::getpid(), .uid = ::geteuid()};
    return reload(sender, [](slots::Result<std::vector<std::string>> notes) {
      if (!notes) spdlog::error("reload refused: {}", notes.error().message);
    });
  }
  if (is_draining_) return end();
  begin_drain();
}

void Proxy::begin_drain() {
  is_draining_ = true;
  rebalancer_->hold();
  if (!workers_started_) return end();
  spdlog::info("draining: no new clients; those there end at a reply boundary, within {} ms",
               config().timeouts.drain.count());
  drain_timer_ = std::make_unique<net::LoopTimer>(&loop_);
  drain_timer_->start(config().timeouts.drain, [this] { end(); });
  draining_workers_ = workers_.size();
  for (const auto& worker : workers_) {
    worker->drain([this] {
      mailbox_.post([this] {
        if (--draining_workers_ == 0) end();
      });
    });
  }
}

void Proxy::end() {
  if (has_ended_) return;
  has_ended_ = true;
  rebalancer_->stop();
  for (const auto& worker : workers_) {
    workers_started_ ? worker->stop() : worker->discard();
  }
  pubsub_.stop();
  for (auto& listeners : listeners_) {
    for (WorkerListener& listener : listeners) ::close(listener.descriptor);
  }
  drain_timer_.reset();
  stray_count_.reset();
  slot_count_.reset();
  rebalancer_.reset();
  heat_.reset();
  health_.reset();
  admin_.reset();
  for (uv_signal_t& handle : signals_) uv_close(reinterpret_cast<uv_handle_t*>(&handle), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&ticker_), nullptr);
  mailbox_.close();
}

}  // namespace proxy
