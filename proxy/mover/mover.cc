#include "proxy/mover/mover.h"

#include <algorithm>
#include <utility>

namespace proxy::mover {

Mover::Mover(CarrierOptions options, MoveHost& host, MoverCommons& commons, OnEnd on_end)
    : options_(std::move(options)),
      host_(host),
      commons_(commons),
      source_(commons.pacers.of(options_.spec.source)),
      target_(commons.pacers.of(options_.spec.target)),
      on_end_(std::move(on_end)) {
  options_.link.interrupt = interrupt();
}

void Mover::run() {
  std::optional<Finish> finish;
  {
    Transfer transfer(options_.spec);
    std::unique_ptr<Carrier> carrier;
    const auto on_tick = [&] { report_now_and_then(transfer.progress(), *carrier); };
    carrier = std::make_unique<Carrier>(options_, host_, *source_, *target_, commons_.lost_clients,
                                        on_tick);
    Event event = carrier->start();
    while (!is_stopped()) {
      const Action action = transfer.step(std::move(event));
      if (const auto* end = std::get_if<Finish>(&action)) {
        finish = *end;
        break;
      }
      event = carrier->carry_out(action);
    }
    report(transfer.progress(), *carrier);
  }
  on_end_(std::move(finish));
}

void Mover::report_now_and_then(const Progress& progress, Carrier& carrier) {
  if (std::chrono::steady_clock::now() >= reported_at_ + kReportEvery) report(progress, carrier);
}

void Mover::report(Progress progress, Carrier& carrier) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> elapsed = now - reported_at_;
  progress.wire_bytes = carrier.bytes();
  progress.bytes_per_second = static_cast<std::uint64_t>(
      static_cast<double>(carrier.busier_bytes() - reported_bytes_) / elapsed.count());
  progress.is_resting = carrier.take_was_resting();
  progress.pauses_us = carrier.take_pauses();
  reported_at_ = now;
  reported_bytes_ = carrier.busier_bytes();
  host_.report(options_.spec.plan, options_.spec.source, options_.spec.target, progress);
}

}  // namespace proxy::mover
