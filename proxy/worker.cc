#include "proxy/worker.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "slots/assert.h"

namespace proxy {

namespace {

constexpr std::uint64_t kTickMs = 100;
constexpr std::size_t kFrameArgsKept = 10'000;

// The list may grow while it is worked on.
void flush_all(std::vector<Flushable*>& dirty) {
  for (std::size_t i = 0; i < dirty.size(); ++i) dirty[i]->flush();
  dirty.clear();
}

}  // namespace

Worker::Worker(WorkerOptions options, std::shared_ptr<const RoutingTable> table,
               const WorkersByIndex& workers)
    : options_(std::move(options)), workers_(workers) {
  SP_ASSERT(uv_loop_init(&loop_) == 0);
  core_.loop = &loop_;
  core_.worker = options_.index;
  core_.started_ms = uv_now(&loop_);
  core_.connection_name = options_.connection_name;
  core_.scripts = options_.scripts;
  core_.refusals = options_.refusals;
  core_.pubsub = options_.pubsub;
  core_.table = std::move(table);
  mailbox_.open(&loop_);
}

Worker::~Worker() { SP_ASSERT(!thread_.joinable()); }

void Worker::start(std::vector<WorkerListener> listeners) {
  thread_ = std::thread([this, listeners = std::move(listeners)] {
    pthread_setname_np(pthread_self(), ("worker-" + std::to_string(options_.index)).c_str());
    open(listeners);
    run();
  });
}

void Worker::open(const std::vector<WorkerListener>& listeners) {
  backends_ = std::make_unique<backend::Backends>(core_);
  core_.backends = backends_.get();
  backends_->install(nullptr);
  sessions_ = std::make_unique<session::Sessions>(core_, *this, *options_.counts, options_.count);

  // What a turn produced leaves before the loop sleeps: behind the events that made it, and behind
  // timers.
  uv_prepare_init(&loop_, &before_sleep_);
  uv_check_init(&loop_, &after_events_);
  before_sleep_.data = after_events_.data = ticker_.data = fence_check_.data = this;
  uv_prepare_start(&before_sleep_,
                   [](uv_prepare_t* handle) { static_cast<Worker*>(handle->data)->end_turn(); });
  uv_check_start(&after_events_,
                 [](uv_check_t* handle) { static_cast<Worker*>(handle->data)->end_turn(); });
  uv_prepare_init(&loop_, &fence_check_);
  uv_timer_init(&loop_, &ticker_);
  uv_timer_start(
      &ticker_, [](uv_timer_t* handle) { static_cast<Worker*>(handle->data)->tick(); }, kTickMs,
      kTickMs);

  open_listeners(listeners);
}

void Worker::listen(std::vector<WorkerListener> listeners) {
  post([listeners = std::move(listeners)](Worker& worker) { worker.open_listeners(listeners); });
}

void Worker::open_listeners(const std::vector<WorkerListener>& listeners) {
  for (const WorkerListener& listener : listeners) {
    listener_facts_.push_back(listener.facts);
    auto accepting = std::make_unique<net::Listener>(
        &loop_, [this, listener](int descriptor) { adopt(descriptor, listener); },
        [this] { core_.stats.clients_refused.add(); });
    accepting->start(listener.descriptor);
    listeners_.push_back(std::move(accepting));
  }
}

void Worker::run() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  SP_ASSERT(uv_loop_close(&loop_) == 0);
}

void Worker::adopt(int descriptor, const WorkerListener& listener) {
  if (!listener.hands_over) return sessions_->adopt(descriptor, listener.facts);
  Worker& to = *workers_[next_worker_++ % workers_.size()];
  if (&to == this) return sessions_->adopt(descriptor, listener.facts);
  to.post([descriptor, facts = listener.facts](Worker& worker) {
    worker.sessions_->adopt(descriptor, facts);
  });
}

void Worker::end_turn() {
  // Flushing may let sessions go on, and those make more to flush.
  while (sessions_->has_resumables() || !core_.dirty_connections.empty() ||
         !core_.dirty_sessions.empty()) {
    if (sessions_->has_resumables()) sessions_->resume_all();
    flush_all(core_.dirty_connections);
    flush_all(core_.dirty_sessions);
  }
  if (!core_.graveyard.empty()) core_.graveyard.clear();
}

void Worker::tick() {
  sessions_->tick();
  backends_->tick();
  if (core_.hot_keys != nullptr) core_.hot_keys->pace();
  if (drained_ && sessions_->size() == 0) std::exchange(drained_, nullptr)();
  core_.blocks.trim();
  core_.tickets.trim();
  if (core_.frame.args.capacity() > kFrameArgsKept) core_.frame = {};
}

void Worker::post(std::function<void(Worker&)> work) {
  mailbox_.post([this, work = std::move(work)] { work(*this); });
}

void Worker::post_messages(std::function<void(pubsub::Receiver&)> work) {
  mailbox_.post([this, work = std::move(work)] { work(sessions_->subscribers()); });
}

void Worker::install(std::shared_ptr<const RoutingTable> table, std::function<void()> applied) {
  post([table = std::move(table), applied = std::move(applied)](Worker& worker) mutable {
    std::shared_ptr<const RoutingTable> before =
        std::exchange(worker.core_.table, std::move(table));
    for (const auto& facts : worker.listener_facts_) {
      if (!facts->is_redirect) continue;
      facts->node = worker.core_.table->map->find(facts->node_name).value_or(slots::kNoNode);
    }
    worker.sessions_->follow_users(*before);
    worker.backends_->install(before.get());
    worker.sessions_->follow_map();
    worker.sessions_->subscribers().follow_table();
    worker.follow_fence();
    if (applied) applied();
  });
}

void Worker::take_latencies(std::uint32_t every_ms,
                            std::function<void(std::map<std::string, LatencyHistogram>)> done) {
  post([every_ms, done = std::move(done)](Worker& worker) {
    worker.core_.latency_every_ms = every_ms;
    std::map<std::string, LatencyHistogram> latencies;
    for (std::size_t i = 0; i < worker.backends_->count(); ++i) {
      backend::NodeBackend& node = worker.backends_->node(static_cast<slots::NodeIndex>(i));
      if (const auto latency = node.take_latency()) latencies[node.route().name] = *latency;
    }
    done(std::move(latencies));
  });
}

void Worker::begin_hot_keys() {
  post([](Worker& worker) {
    worker.core_.hot_keys = std::make_unique<slots::TopKeys>(uv_hrtime() + worker.options_.index);
  });
}

void Worker::take_hot_keys(std::function<void(std::shared_ptr<const slots::TopKeys>)> done) {
  post([done = std::move(done)](Worker& worker) { done(std::move(worker.core_.hot_keys)); });
}

void Worker::follow_fence() {
  std::shared_ptr<const Fence> next = core_.table->fence;
  if ((next ? next->id : 0) == (fence_ ? fence_->id : 0)) return;
  std::shared_ptr<const Fence> last = std::exchange(fence_, std::move(next));
  const slots::SlotMap& map = *core_.table->map;
  if (last) {
    uv_prepare_stop(&fence_check_);
    if (auto source = map.find(last->source)) {
      std::vector<slots::SlotRange> ranges = last->slots.ranges();
      bool has_moved = !ranges.empty() && map.owner(ranges.front().first) != *source;
      backends_->node(*source).end_fence(has_moved);
    }
    sessions_->end_fence(last);
  }
  if (fence_) {
    if (auto source = map.find(fence_->source)) backends_->node(*source).begin_fence(fence_->slots);
    sessions_->begin_fence(*fence_);
    uv_prepare_start(&fence_check_, [](uv_prepare_t* handle) {
      static_cast<Worker*>(handle->data)->acknowledge_fence();
    });
  }
}

void Worker::acknowledge_fence() {
  // A flush that the target executes late would empty slots that were not its own when it was sent.
  if (core_.flushes_under_way > 0) return;
  FenceAck ack{fence_->id, options_.index, {}};
  if (auto source = core_.table->map->find(fence_->source)) {
    backend::NodeBackend& node = backends_->node(*source);
    if (!node.has_answered()) return;
    ack.lost_client_ids = node.hand_over_lost_clients();
  }
  uv_prepare_stop(&fence_check_);
  if (options_.on_fenced) options_.on_fenced(std::move(ack));
}

void Worker::drain(std::function<void()> drained) {
  post([drained = std::move(drained)](Worker& worker) mutable {
    worker.close_listeners();
    worker.sessions_->drain();
    worker.drained_ = std::move(drained);
  });
}

void Worker::close_listeners() {
  for (auto& listener : listeners_) {
    net::Listener* closing = listener.get();
    closing->stop(std::move(listener));
  }
  listeners_.clear();
}

void Worker::close() {
  close_listeners();
  sessions_->close_all();
  open_questions_.clear();
  backends_->close_all("the proxy ends");
  end_turn();
  backends_.reset();
  core_.graveyard.clear();  // Connections that were opened meanwhile, to send something again.
  uv_close(reinterpret_cast<uv_handle_t*>(&before_sleep_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&after_events_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&fence_check_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&ticker_), nullptr);
  mailbox_.close();
}

void Worker::stop() {
  post([](Worker& worker) { worker.close(); });
  thread_.join();
}

void Worker::discard() {
  mailbox_.close();
  uv_run(&loop_, UV_RUN_DEFAULT);
  SP_ASSERT(uv_loop_close(&loop_) == 0);
}

session::WorkerTotals Worker::totals() const {
  session::WorkerTotals totals;
  for (const auto& worker : workers_) {
    totals.requests += worker->stats().requests.get();
    totals.clients += worker->stats().clients_total.get();
    totals.errors += worker->stats().errors.get();
    totals.blocked_clients += worker->stats().blocked_clients.get();
    totals.tracking_clients += worker->stats().tracking_clients.get();
    totals.tracked_keys += worker->stats().tracked_keys.get();
    totals.tracked_items += worker->stats().tracked_items.get();
    totals.tracked_prefixes += worker->stats().tracked_prefixes.get();
  }
  return totals;
}

void Worker::tell_all(std::function<void(session::Sessions&)> tell) {
  const auto shared = std::make_shared<std::function<void(session::Sessions&)>>(std::move(tell));
  for (const auto& worker : workers_)
    worker->post([shared](Worker& each) { (*shared)(*each.sessions_); });
}

void Worker::ask_all(std::function<std::string(session::Sessions&)> ask,
                     std::function<void(std::vector<std::string>)> answer) {
  struct Round {
    std::function<std::string(session::Sessions&)> ask;
    std::function<void(std::vector<std::string>)> answer;
    std::vector<std::string> answers;
    std::atomic<std::size_t> waiting;
  };
  auto round = std::make_shared<Round>();
  round->ask = std::move(ask);
  round->answer = std::move(answer);
  round->answers.resize(workers_.size());
  round->waiting = workers_.size();
  open_questions_.push_back(round);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i]->post([round, i, asker = this](Worker& worker) {
      round->answers[i] = round->ask(*worker.sessions_);
      if (round->waiting.fetch_sub(1) != 1) return;
      asker->post([round](Worker& asking) {
        std::erase(asking.open_questions_, round);
        round->answer(std::move(round->answers));
      });
    });
  }
}

}  // namespace proxy
