#include "proxy/heat_keeper.h"

#include <chrono>
#include <utility>

namespace proxy {

namespace {

constexpr std::uint64_t kTicksPerRound = 10;  // Without a close look.
constexpr std::uint32_t kCloseEveryMs = 1;
constexpr std::uint64_t kAnswersMin = 20;    // Fewer say nothing about one in a hundred.
constexpr std::uint64_t kRoundsToFade = 12;  // What is usual follows what changes within minutes.

std::optional<std::uint64_t> p99_of(const LatencyHistogram& histogram) {
  if (histogram.total() < kAnswersMin) return std::nullopt;
  return histogram.quantile(0.99);
}

}  // namespace

double HeatKeeper::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

slots::SlotTotals HeatKeeper::totals() const {
  slots::SlotTotals totals(slots::kSlotCount);
  for (const auto& worker : workers_) worker->traffic().add_to(totals);
  return totals;
}

void HeatKeeper::tick() {
  if (const double at = now(); history_.is_due(at)) history_.mark(totals(), at);
  if (waiting_ == 0 && (++ticks_ % kTicksPerRound == 0 || is_close_)) begin_round();
}

slots::SlotRates HeatKeeper::rates() const { return history_.rates(totals(), now()); }

void HeatKeeper::begin_round() {
  waiting_ = workers_.size();
  for (const auto& worker : workers_) {
    worker->take_latencies(is_close_ ? kCloseEveryMs : WorkerCore::kLatencyEveryMs,
                           [this, life = life_](std::map<std::string, LatencyHistogram> latencies) {
                             post_([this, life, latencies = std::move(latencies)] {
                               if (!*life) return;
                               for (const auto& [node, latency] : latencies)
                                 round_[node].merge(latency);
                               if (--waiting_ == 0) end_round();
                             });
                           });
  }
}

void HeatKeeper::end_round() {
  const bool is_fading = !is_close_ && ++rounds_ % kRoundsToFade == 0;
  for (auto& [node, measured] : measured_) {
    measured.before = std::exchange(measured.last, {});
    if (is_fading) measured.usual.fade();
  }
  for (const auto& [node, latency] : std::exchange(round_, {})) {
    Measured& measured = measured_[node];
    measured.last = latency;
    if (!is_close_) measured.usual.merge(latency);
  }
}

HeatKeeper::Latency HeatKeeper::latency(const std::string& node) const {
  const auto found = measured_.find(node);
  if (found == measured_.end()) return {};
  LatencyHistogram now = found->second.last;
  now.merge(found->second.before);
  return {p99_of(now), p99_of(found->second.usual)};
}

void HeatKeeper::watch_keys(std::chrono::seconds duration, KeysDone done) {
  if (keys_done_ != nullptr) {
    return done(slots::fail(slots::Errc::Conflict,
                            "keys are being watched already; ask again when that is over"));
  }
  keys_done_ = std::move(done);
  for (const auto& worker : workers_) worker->begin_hot_keys();
  watch_timer_.start(duration, [this] { take_keys(); });
}

void HeatKeeper::take_keys() {
  auto all = std::make_shared<slots::TopKeys>(1);
  auto waiting = std::make_shared<std::size_t>(workers_.size());
  for (const auto& worker : workers_) {
    worker->take_hot_keys(
        [this, life = life_, all, waiting](std::shared_ptr<const slots::TopKeys> keys) {
          post_([this, life, all, waiting, keys = std::move(keys)] {
            if (!*life) return;
            if (keys != nullptr) all->merge(*keys);
            if (--*waiting == 0) std::exchange(keys_done_, nullptr)(all);
          });
        });
  }
}

}  // namespace proxy
