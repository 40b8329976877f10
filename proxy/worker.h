// Worker: one thread, one loop, its listeners, its sessions, its connections to nodes, its
// snapshot.
//
// Thread:  the constructor, listen(), start(), post() and join() are the control thread's;
// everything else runs on the
//          worker's own thread, reached through post().
// Owns:    its thread and everything on it.
#pragma once

#include <uv.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proxy/backend/backends.h"
#include "proxy/backend/refusals.h"
#include "proxy/latency_histogram.h"
#include "proxy/net/listener.h"
#include "proxy/net/mailbox.h"
#include "proxy/pubsub/hub.h"
#include "proxy/session/sessions.h"
#include "proxy/worker_core.h"

namespace proxy {

struct WorkerOptions {
  unsigned index = 0;
  unsigned count = 1;
  std::string connection_name;
  session::ScriptCache* scripts = nullptr;
  backend::Refusals* refusals = nullptr;
  pubsub::Hub* pubsub = nullptr;
  session::SessionCounts* counts = nullptr;
  // Runs on the worker's thread, at most once for each fence, and not after its end.
  std::function<void(FenceAck)> on_fenced;
};

// A listening descriptor and what its sessions are told.
struct WorkerListener {
  int descriptor = -1;
  std::shared_ptr<session::ListenerFacts> facts;
  bool hands_over = false;  // A Unix socket: accepted descriptors go to all workers in turn.
};

class Worker final : public session::OtherWorkers {
 public:
  using WorkersByIndex = std::vector<std::unique_ptr<Worker>>;

  Worker(WorkerOptions options, std::shared_ptr<const RoutingTable> table,
         const WorkersByIndex& workers);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(std::vector<WorkerListener> listeners);
  // More listeners, while it runs.
  void listen(std::vector<WorkerListener> listeners);
  void post(std::function<void(Worker&)> work);
  // The worker routes by the new snapshot once `applied` runs (on the worker's thread).
  void install(std::shared_ptr<const RoutingTable> table, std::function<void()> applied);
  // Stops accepting, ends sessions at reply boundaries; `drained` runs on the worker's thread when
  // none is left.
  void drain(std::function<void()> drained);
  // Ends everything at once and joins the thread.
  void stop();
  // Instead of stop(), for one that was never started.
  void discard();

  // Runs it on the worker's thread, with what takes messages there.
  void post_messages(std::function<void(pubsub::Receiver&)> work);

  [[nodiscard]] const WorkerStats& stats() const { return core_.stats; }
  [[nodiscard]] const SlotTraffic& traffic() const { return *core_.traffic; }
  // How long answers have taken since this was last asked, by node, of those that have answered.
  // From now on each connection measures no more often than each `every_ms`. `done` runs on the
  // worker's thread, or never when the worker ends first.
  void take_latencies(std::uint32_t every_ms,
                      std::function<void(std::map<std::string, LatencyHistogram>)> done);
  // Counts which keys come most often, from now until they are taken; null when it did not.
  void begin_hot_keys();
  void take_hot_keys(std::function<void(std::shared_ptr<const slots::TopKeys>)> done);

 private:
  void run();
  void open(const std::vector<WorkerListener>& listeners);
  void open_listeners(const std::vector<WorkerListener>& listeners);
  void close();
  void end_turn();
  void tick();
  void follow_fence();
  void acknowledge_fence();
  void adopt(int descriptor, const WorkerListener& listener);
  void close_listeners();
  [[nodiscard]] session::WorkerTotals totals() const override;
  void ask_all(std::function<std::string(session::Sessions&)> ask,
               std::function<void(std::vector<std::string>)> answer) override;
  void tell_all(std::function<void(session::Sessions&)> tell) override;

  WorkerOptions options_;
  const WorkersByIndex& workers_;
  uv_loop_t loop_{};
  WorkerCore core_;
  net::Mailbox mailbox_;
  uv_prepare_t before_sleep_{};
  uv_check_t after_events_{};
  uv_timer_t ticker_{};
  uv_prepare_t fence_check_{};          // Active while a fence waits for answers.
  std::shared_ptr<const Fence> fence_;  // That has begun.
  std::unique_ptr<backend::Backends> backends_;
  std::unique_ptr<session::Sessions> sessions_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::vector<std::shared_ptr<session::ListenerFacts>> listener_facts_;
  std::function<void()> drained_;
  // Questions of this worker that are not answered yet: what waits for them must outlive its
  // sessions.
  std::vector<std::shared_ptr<void>> open_questions_;
  std::size_t next_worker_ = 0;  // Whose turn it is to get a handed-over descriptor.
  std::thread thread_;
};

}  // namespace proxy
