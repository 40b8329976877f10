#include "proxy/session/delayed_logins.h"

#include <vector>

#include "proxy/acl/login_guard.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

bool DelayedLogins::has_to_wait(std::uint64_t session, bool delays, std::uint64_t now_ms) {
  const auto found = due_ms_.find(session);
  if (found == due_ms_.end()) {
    if (delays) due_ms_.emplace(session, now_ms + acl::LoginGuard::kDelayMs);
    return delays;
  }
  if (now_ms < found->second) return true;
  due_ms_.erase(found);
  return false;
}

void DelayedLogins::tick(Sessions& sessions, std::uint64_t now_ms) {
  std::vector<ClientSession*> due;
  std::erase_if(due_ms_, [&](const auto& entry) {
    ClientSession* session = sessions.find(entry.first);
    if (session != nullptr && entry.second <= now_ms) due.push_back(session);
    return session == nullptr;
  });
  for (ClientSession* session : due) session->release(Hold::Stream);
}

}  // namespace proxy::session
