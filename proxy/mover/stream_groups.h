// What a server says of a stream and its consumer groups, and how two of them are made alike.
//
// The change feed says nothing of groups: XREADGROUP, XACK, XCLAIM, XGROUP and XSETID announce
// nothing. So they are compared under the fence.
//
// Thread:  none; blocks in its Ask.
// Errors:  as pieces.h.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/mover/pieces.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

struct StreamConsumer {
  std::string name;
  std::uint64_t pending = 0;
  std::int64_t idle_ms = 0;
};

struct StreamGroup {
  std::string name;
  std::uint64_t pending = 0;
  std::string last_id;
  std::string entries_read;  // "-1": unknown. Empty: the server does not count them.
  std::vector<StreamConsumer> consumers = {};
};

struct StreamFacts {
  std::uint64_t length = 0;
  std::string last_id;
  std::string entries_added;  // Empty: the server does not count them.
  std::string max_deleted_id;
  std::vector<StreamGroup> groups = {};
  std::int64_t read_at_ms = 0;  // The server's clock.

  [[nodiscard]] std::uint64_t pending() const;
};

// Nothing when there is no such stream.
[[nodiscard]] std::expected<std::optional<StreamFacts>, NodeLost> read_stream_facts(
    Side side, const std::string& key, const Ask& ask);

// An entry that was delivered to a consumer, who has not acknowledged it.
struct PendingEntry {
  std::string id;
  std::string consumer;
  std::int64_t delivered_at_ms = 0;  // The server's clock.
  std::int64_t deliveries = 0;
};
[[nodiscard]] Words pending_command(const std::string& key, const std::string& group,
                                    const std::string& from, const std::string& to,
                                    std::uint64_t count);
// Nothing when the reply is none of XPENDING's.
[[nodiscard]] std::optional<std::vector<PendingEntry>> parse_pending(std::string_view reply,
                                                                     std::int64_t now_ms);
// Commands that make these pending on the stream `name`.
void claim(std::vector<Words>& commands, const std::string& name, const std::string& group,
           const std::vector<PendingEntry>& entries);

// What is to be said at last: where groups and stream stand.
[[nodiscard]] Words group_position(const std::string& name, const StreamGroup& group,
                                   bool has_counters);
[[nodiscard]] Words stream_position(const std::string& name, const StreamFacts& facts,
                                    bool has_counters);

[[nodiscard]] std::expected<GroupsRenewed, NodeLost> renew_groups(const RenewGroups& renew,
                                                                  bool target_has_counters,
                                                                  const Ask& source,
                                                                  const Ask& target);

}  // namespace proxy::mover
