// CLIENT LIST's lines and CLIENT KILL's filters. Pure.
// Format: https://redis.io/commands/client-list/
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/command_spec.h"
#include "slots/result.h"

namespace proxy::session {

// What a line says of a client.
struct ClientFacts {
  std::uint64_t id = 0;
  std::string address;        // Of the client, "127.0.0.1:51324".
  std::string local_address;  // The one that it connected to.
  int descriptor = 0;
  std::string name;
  std::string user = "default";
  std::string library_name;
  std::string library_version;
  std::string last_command;
  std::uint64_t age_seconds = 0;
  std::uint64_t idle_seconds = 0;
  std::size_t input_bytes = 0;
  std::size_t unread_bytes = 0;
  int protocol = 2;
  unsigned database = 0;
  std::size_t channels = 0;  // That it has subscribed.
  std::size_t patterns = 0;
  std::size_t sharded_channels = 0;
  int queued = -1;             // Commands of an open transaction; -1: none is open.
  bool is_blocked = false;     // Waits at a node (BLPOP), or is held by CLIENT PAUSE.
  bool is_unix = false;        // Came by a Unix socket.
  std::int64_t redirect = -1;  // Of CLIENT TRACKING: who is told instead, 0 nobody; -1: it is off.
  bool is_broadcast = false;   // Of CLIENT TRACKING.
  bool is_redirect_broken = false;
  bool is_monitor = false;
};

[[nodiscard]] inline bool is_subscriber(const ClientFacts& facts) {
  return facts.channels + facts.patterns + facts.sharded_channels > 0;
}
[[nodiscard]] std::string client_line(const ClientFacts& facts);  // Without a line end.
// The lines of several lists, each with its line end, as one list by id: the oldest first, as in
// Redis's.
[[nodiscard]] std::string lines_by_id(const std::vector<std::string>& lists);

// Which clients CLIENT KILL or CLIENT LIST means: all conditions that are given must hold.
struct ClientFilter {
  std::vector<std::int64_t> ids;  // Empty: any.
  std::optional<std::string> address;
  std::optional<std::string> local_address;
  std::optional<std::string> user;    // KILL only.
  bool none = false;                  // A TYPE that no client of a proxy has (master, replica).
  std::optional<bool> is_subscriber;  // TYPE pubsub, or normal.
  bool skip_me = true;                // KILL only.
  bool old_form = false;              // CLIENT KILL addr:port: answers OK or an error, not a count.

  [[nodiscard]] bool matches(const ClientFacts& facts) const;
};

// Redis's rules: options are judged one by one, and of one that is given twice the last counts.
// Errors: InvalidArgument with Redis's text.
// CLIENT KILL ...; `is_user`: whether there is a user of this name.
[[nodiscard]] slots::Result<ClientFilter> parse_kill_filter(
    resp::Args args, const std::function<bool(std::string_view)>& is_user);
[[nodiscard]] slots::Result<ClientFilter> parse_list_filter(resp::Args args);  // CLIENT LIST ...

}  // namespace proxy::session
