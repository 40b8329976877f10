// DelayedLogins: sessions whose AUTH waits, since others from their address have failed too often
// (acl/login_guard.h). The request stays unread in its session meanwhile.
//
// Thread:  one worker's.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace proxy::session {

class ClientSession;
class Sessions;

class DelayedLogins {
 public:
  // Whether the session's login has to wait, by `delays` when it comes first; false from the second
  // on, once its time is over.
  [[nodiscard]] bool has_to_wait(std::uint64_t session, bool delays, std::uint64_t now_ms);
  // Sessions whose time is over go on.
  void tick(Sessions& sessions, std::uint64_t now_ms);

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> due_ms_;  // By the session's id.
};

}  // namespace proxy::session
