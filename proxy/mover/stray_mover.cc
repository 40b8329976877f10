#include "proxy/mover/stray_mover.h"

#include <optional>
#include <utility>

namespace proxy::mover {

StrayMover::StrayMover(LinkOptions link, StraySpec spec, conf::Milliseconds grace, MoveHost& host,
                       MoverCommons& commons, OnEnd on_end)
    : link_(std::move(link)),
      spec_(std::move(spec)),
      grace_(grace),
      host_(host),
      commons_(commons),
      on_end_(std::move(on_end)) {
  link_.interrupt = interrupt();
}

void StrayMover::run() {
  std::optional<Finish> finish;
  {
    std::unique_ptr<StrayCollector> collector;
    const auto on_tick = [&] {
      if (std::chrono::steady_clock::now() >= reported_at_ + kReportEvery) report(*collector);
      return !is_stopped();
    };
    collector = std::make_unique<StrayCollector>(
        link_, spec_, grace_, host_, *commons_.pacers.of(spec_.source),
        *commons_.pacers.of(spec_.target), commons_.lost_clients, on_tick);
    Finish ended = collector->run();
    if (!is_stopped()) finish = std::move(ended);
    report(*collector);
  }
  on_end_(std::move(finish));
}

void StrayMover::report(const StrayCollector& collector) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> elapsed = now - reported_at_;
  Progress progress = collector.progress();
  // Both ends carry every key.
  progress.bytes_per_second = static_cast<std::uint64_t>(
      static_cast<double>(progress.wire_bytes - reported_bytes_) / 2 / elapsed.count());
  reported_at_ = now;
  reported_bytes_ = progress.wire_bytes;
  host_.report(spec_.plan, spec_.source, spec_.target, progress);
}

}  // namespace proxy::mover
