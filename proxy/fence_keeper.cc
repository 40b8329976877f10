#include "proxy/fence_keeper.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace proxy {

void FenceKeeper::begin(Owner owner, const slots::SlotSet& slots, const std::string& source,
                        const std::string& target, conf::Milliseconds limit, Done done) {
  queue_.push_back({owner, slots, source, target, limit, std::move(done)});
  begin_next();
}

void FenceKeeper::begin_next() {
  if (current_ || queue_.empty() || is_frozen_) return;
  current_ = std::move(queue_.front());
  queue_.pop_front();
  grant_ = {.begun = port_.now()};
  for (unsigned worker = 0; worker < workers_; ++worker) waiting_for_.insert(worker);
  port_.set_deadline(current_->limit);
  auto fence = std::make_shared<Fence>();
  fence->id = ++last_id_;
  fence->slots = current_->slots;
  fence->source = current_->source;
  fence->target = current_->target;
  port_.publish(std::move(fence));
}

void FenceKeeper::on_deadline() {
  if (!current_ || waiting_for_.empty()) return;
  end({slots::Errc::Timeout, fmt::format("{} of {} threads were not ready after {} ms: unanswered "
                                         "requests, or sharded channels not heard at the target",
                                         waiting_for_.size(), workers_, current_->limit.count())});
}

void FenceKeeper::on_ack(const FenceAck& ack) {
  if (!current_ || ack.fence != last_id_ || waiting_for_.erase(ack.worker) == 0) return;
  for (const std::uint64_t id : ack.lost_client_ids) {
    if (id == 0) {
      return end({slots::Errc::Unavailable,
                  fmt::format("a connection to {} was lost before it had a name there: what it "
                              "carried may still run",
                              current_->source)});
    }
    grant_.lost_client_ids.push_back(id);
  }
  if (!waiting_for_.empty()) return;
  port_.set_deadline(std::nullopt);
  if (current_->done) std::exchange(current_->done, nullptr)(std::move(grant_));
}

// Lifts the fence that is not granted yet.
void FenceKeeper::end(slots::Error error) {
  const Done done = std::exchange(current_->done, nullptr);
  const Owner owner = current_->owner;
  lift(owner);
  if (done) done(std::unexpected(std::move(error)));
}

bool FenceKeeper::holds(Owner owner, const slots::SlotSet& slots) const {
  return current_ && current_->owner == owner && current_->slots == slots && waiting_for_.empty();
}

void FenceKeeper::lift(Owner owner) {
  if (is_frozen_) return;
  std::erase_if(queue_, [&](const Wanted& wanted) { return wanted.owner == owner; });
  if (!forget(owner)) return;
  port_.publish(nullptr);
  begin_next();  // With a table of its own.
}

void FenceKeeper::lift(Owner owner, RoutingTable& table) {
  if (forget(owner)) table.fence = nullptr;
}

bool FenceKeeper::forget(Owner owner) {
  if (!current_ || current_->owner != owner) return false;
  port_.set_deadline(std::nullopt);
  waiting_for_.clear();
  current_.reset();
  return true;
}

}  // namespace proxy
