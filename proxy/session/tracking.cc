#include "proxy/session/tracking.h"

#include <algorithm>
#include <utility>

#include "proxy/session/client_session.h"

namespace proxy::session {

void Tracking::note_sent(const ClientSession& session, std::vector<KeyHash> keys) {
  session.newest_ticket()->tracked = true;
  under_way_.push_back(std::move(keys));
  if (under_way_.size() < checked_size_) return;
  drop_answered(session);
  checked_size_ = std::max<std::size_t>(64, 2 * under_way_.size());
}

void Tracking::drop_answered(const ClientSession& session) {
  std::size_t waiting = 0;
  for (const backend::Ticket* ticket = session.oldest_ticket(); ticket != nullptr;
       ticket = ticket->next_in_session) {
    if (ticket->tracked) ++waiting;
  }
  while (under_way_.size() > waiting) under_way_.pop_front();
}

backend::Ticket* Tracking::last_with(const ClientSession& session, std::span<const KeyHash> keys) {
  drop_answered(session);
  backend::Ticket* last = nullptr;
  auto place = under_way_.begin();
  for (backend::Ticket* ticket = session.oldest_ticket(); ticket != nullptr;
       ticket = ticket->next_in_session) {
    if (!ticket->tracked) continue;
    const std::vector<KeyHash>& named = *place++;
    if (std::ranges::find_first_of(named, keys) != named.end()) last = ticket;
  }
  return last;
}

}  // namespace proxy::session
