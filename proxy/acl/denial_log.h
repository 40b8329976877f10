// DenialLog: what ACL LOG shows: logins that failed and requests that were refused, the newest
// first, alike ones together, as Redis keeps them. https://redis.io/docs/latest/commands/acl-log/
//
// Thread:  any; behind a mutex, which only who is refused takes.
// Limits:  kEntriesMax entries, names cut at kTextMax bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace proxy::acl {

struct Denial {
  std::string reason;   // "auth", "command", "key" or "channel".
  std::string context;  // "toplevel" or "multi".
  std::string object;   // The command, the key, the channel.
  std::string user;
  std::string client;  // As CLIENT LIST shows it.
  std::uint64_t count = 1;
  std::uint64_t last_ms = 0;
};

class DenialLog {
 public:
  void add(Denial denial, std::uint64_t now_ms);
  [[nodiscard]] std::vector<Denial> newest(std::size_t count) const;
  void clear();

  static constexpr std::size_t kEntriesMax = 128;  // Redis's acllog-max-len.
  static constexpr std::size_t kTextMax = 1024;

 private:
  mutable std::mutex mutex_;
  std::deque<Denial> entries_;  // The newest first.
};

}  // namespace proxy::acl
