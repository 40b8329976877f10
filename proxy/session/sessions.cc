#include "proxy/session/sessions.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "slots/assert.h"

namespace proxy::session {

namespace {

void refuse(int descriptor, std::string_view error) {
  [[maybe_unused]] ssize_t written =
      ::send(descriptor, error.data(), error.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(descriptor);
}

}  // namespace

Sessions::~Sessions() { SP_ASSERT(sessions_.empty()); }

void Sessions::adopt(int descriptor, std::shared_ptr<const ListenerFacts> listener) {
  if (counts_.clients.fetch_add(1, std::memory_order_relaxed) >= core_.table->limits.clients) {
    counts_.clients.fetch_sub(1, std::memory_order_relaxed);
    core_.stats.clients_refused.add();
    return refuse(descriptor, "-ERR max number of clients reached\r\n");
  }
  core_.stats.clients.add();
  core_.stats.clients_total.add();
  std::uint64_t id = counts_.next_id.fetch_add(1, std::memory_order_relaxed);
  auto session = std::make_unique<ClientSession>(core_, *this, std::move(listener), id);
  ClientSession* started = session.get();
  sessions_.emplace(id, std::move(session));
  started->start(descriptor);
}

void Sessions::for_each(const std::function<void(ClientSession&)>& visit) {
  std::vector<ClientSession*> all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  for (ClientSession* session : all) visit(*session);
}

ClientSession* Sessions::find(std::uint64_t id) {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Sessions::remove(ClientSession* session) {
  auto found = sessions_.find(session->id());
  SP_ASSERT(found != sessions_.end());
  std::unique_ptr<ClientSession> self = std::move(found->second);
  sessions_.erase(found);
  std::replace(resumables_.begin(), resumables_.end(), session,
               static_cast<ClientSession*>(nullptr));
  if (session->is_held_for(Hold::Fence)) {
    std::ranges::replace(fenced_, session, static_cast<ClientSession*>(nullptr));
    core_.stats.fenced_clients.subtract(1);
  }
  if (session->is_held_for(Hold::Pause)) paused_.remove(session);
  counts_.clients.fetch_sub(1, std::memory_order_relaxed);
  core_.stats.clients.subtract(1);
  session->end(std::move(self));
}

void Sessions::resume_all() {
  blocked_calls_.run_due();
  // Sessions that are held again and released meanwhile come behind, in the next round of the same
  // turn.
  for (std::size_t i = 0; i < resumables_.size(); ++i) {
    ClientSession* session = resumables_[i];
    resumables_[i] = nullptr;
    if (session != nullptr) session->resume();
  }
  resumables_.clear();
}

void Sessions::follow_map() {
  for (ClientSession* session : watching_) session->follow_map();
  blocked_calls_.follow_map();
  trackers_.follow_table();
}

void Sessions::follow_users(const RoutingTable& before) {
  if (before.users == core_.table->users) return;
  for_each([](ClientSession& session) { session.follow_users(); });
}

void Sessions::end_fence(const std::shared_ptr<const Fence>& fence) {
  for (ClientSession* session : std::exchange(fenced_, {})) {
    if (session == nullptr) continue;
    core_.stats.fenced_clients.subtract(1);
    session->on_fence_ended(fence);
  }
  blocked_calls_.end_fence();
}

WorkerTotals Sessions::totals() const {
  WorkerTotals totals = others_.totals();
  totals.requests -= counts_.requests_before;
  totals.clients -= counts_.clients_before;
  totals.errors -= counts_.errors_before;
  return totals;
}

void Sessions::reset_totals() {
  const WorkerTotals totals = others_.totals();
  counts_.requests_before = totals.requests;
  counts_.clients_before = totals.clients;
  counts_.errors_before = totals.errors;
}

void Sessions::drain() {
  for_each([](ClientSession& session) { session.drain(); });
}

void Sessions::close_all() {
  for_each([](ClientSession& session) { session.close_now(); });
  trackers_.close();
  monitors_.close();
}

void Sessions::tick() {
  paused_.tick();
  delayed_logins_.tick(*this, core_.now_ms());
  trackers_.tick();
  monitors_.tick();
  std::uint64_t limit = static_cast<std::uint64_t>(core_.table->timeouts.stalled_client.count());
  std::uint64_t now = core_.now_ms();
  // Those that owe us bytes are looked for once a second only: that is a walk over all.
  bool look_at_all = ++ticks_ % 10 == 0;
  if (limit > 0 && (core_.stats.unread_bytes.get() > 0 || look_at_all)) {
    for_each([&](ClientSession& session) {
      if (!session.is_stalled(now, limit)) return;
      core_.stats.stalled_clients.add();
      session.close_now();
    });
  }
  // A worker with less than its share leaves it to the others, so that not each closes somebody at
  // the same moment.
  std::uint64_t limit_all = core_.table->limits.unread_replies_total;
  while (counts_.unread_bytes.load(std::memory_order_relaxed) > limit_all &&
         core_.stats.unread_bytes.get() > limit_all / workers_ && !sessions_.empty()) {
    close_the_most_unread();
  }
}

// Somebody has to go so that the others stay: whoever holds most.
void Sessions::close_the_most_unread() {
  auto most =
      std::max_element(sessions_.begin(), sessions_.end(), [](const auto& a, const auto& b) {
        return a.second->unread_bytes() < b.second->unread_bytes();
      });
  core_.stats.overflowing_clients.add();
  most->second->close_now();
}

}  // namespace proxy::session
