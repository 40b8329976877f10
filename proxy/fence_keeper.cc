#include "proxy/fence_keeper.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace proxy {

void FenceKeeper::begin(Owner owner, const slots::SlotSet& slots, const std::string& source,
                        conf::Milliseconds limit, Done done) {
  queue_.push_back({owner, slots, source, limit, std::move(done)});
  begin_next();
}

void FenceKeeper::begin_next() {
  if (current_ || queue_.empty() || is_frozen_) return;
  current_ = std::move(queue_.front());
  queue_.pop_front();
  grant_ = {};
  for (unsigned worker = 0; worker < workers_; ++worker) waiting_for_.insert(worker);
  timer_.start(current_->limit, [this] {
    end(slots::Error{slots::Errc::Timeout,
                     fmt::format("{} of {} workers had unanswered requests after {} ms",
                                 waiting_for_.size(), workers_, current_->limit.count())});
  });
  auto fence = std::make_shared<Fence>();
  fence->id = ++last_id_;
  fence->slots = current_->slots;
  fence->source = current_->source;
  cluster_.publish([&](RoutingTable& table) { table.fence = fence; });
}

void FenceKeeper::on_ack(const FenceAck& ack) {
  if (!current_ || ack.fence != last_id_ || waiting_for_.erase(ack.worker) == 0) return;
  for (const std::uint64_t id : ack.lost_client_ids) {
    if (id == 0) {
      return end(slots::Error{slots::Errc::Unavailable,
                              fmt::format("a connection to {} was lost before it had a name there: "
                                          "what it carried may still run",
                                          current_->source)});
    }
    grant_.lost_client_ids.push_back(id);
  }
  if (!waiting_for_.empty()) return;
  timer_.stop();
  if (current_->done) std::exchange(current_->done, nullptr)(std::move(grant_));
}

// Lifts the fence that is not granted yet.
void FenceKeeper::end(std::optional<slots::Error> error) {
  const Done done = std::exchange(current_->done, nullptr);
  const Owner owner = current_->owner;
  lift(owner);
  if (done && error) done(std::unexpected(*std::move(error)));
}

bool FenceKeeper::holds(Owner owner, const slots::SlotSet& slots) const {
  return current_ && current_->owner == owner && current_->slots == slots && waiting_for_.empty();
}

void FenceKeeper::lift(Owner owner) {
  if (is_frozen_) return;
  std::erase_if(queue_, [&](const Wanted& wanted) { return wanted.owner == owner; });
  if (!current_ || current_->owner != owner) return;
  cluster_.publish([&](RoutingTable& table) { lift(owner, table); });
  begin_next();
}

void FenceKeeper::lift(Owner owner, RoutingTable& table) {
  if (!current_ || current_->owner != owner) return;
  timer_.stop();
  waiting_for_.clear();
  current_.reset();
  table.fence = nullptr;
  // The next one has a table of its own.
}

}  // namespace proxy
