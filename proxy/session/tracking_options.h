// TrackingOptions: what CLIENT TRACKING was given, and Redis's rules for it. Pure.
// Format: https://redis.io/commands/client-tracking/
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/command_spec.h"
#include "slots/result.h"

namespace proxy::session {

struct TrackingOptions {
  std::uint64_t redirect = 0;  // The client that is told instead; 0: none.
  bool is_broadcast = false;
  bool opt_in = false;
  bool opt_out = false;
  bool no_loop = false;
};

// A client's prefixes, in the order of their bytes.
using Prefixes = std::set<std::string, std::less<>>;

// The words behind CLIENT TRACKING ON or OFF, read one by one as Redis does.
struct TrackingWords {
  TrackingOptions options;
  std::vector<std::string> prefixes;
  // The first word that is wrong, as an error without '-'; empty: none. A `redirect` before it is
  // judged first: whether there is such a client.
  std::string error;
};
[[nodiscard]] TrackingWords read_tracking_words(resp::Args words);

// Whether a client may turn tracking on so. `now`: what it has turned on already; null: nothing.
// Errors: InvalidArgument with Redis's text.
[[nodiscard]] slots::Status check_tracking(const TrackingWords& wanted, const TrackingOptions* now,
                                           const Prefixes& prefixes);

inline constexpr std::string_view kNoRedirectTarget =
    "ERR The client ID you want redirect to does not exist";

}  // namespace proxy::session
