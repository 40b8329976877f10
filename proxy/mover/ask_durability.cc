#include "proxy/mover/ask_durability.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "proxy/mover/replies.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {

namespace {

// The value in CONFIG GET's reply to one name; empty when it may not be read.
std::string_view config_value(std::string_view reply) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  if (!header || header->type != '%' || header->count != 1 || !cursor.skip()) return {};
  return cursor.read_bulk().value_or(std::string_view{});
}

}  // namespace

slots::Result<Durability> ask_durability(NodeLink& target, DurabilityWatch& watch,
                                         std::uint64_t now_ms) {
  target.add({"INFO", "persistence"});
  target.add({"INFO", "replication"});
  target.add({"CONFIG", "GET", "save"});
  target.add({"CONFIG", "GET", "appendfsync"});
  auto replies = target.exchange();
  if (!replies) return std::unexpected(std::move(replies).error());
  if (is_error(replies->front())) {
    return slots::fail(slots::Errc::Unavailable,
                       fmt::format("INFO says: {}", error_text(replies->front())));
  }
  const PersistenceFacts facts =
      parse_persistence(bulk_of((*replies)[0]), bulk_of((*replies)[1]), config_value((*replies)[2]),
                        config_value((*replies)[3]));
  const DurabilityWatch::Verdict verdict = watch.judge(facts, now_ms);
  if (!verdict.wants_save) return verdict.durability;
  target.add({"BGSAVE"});
  replies = target.exchange();
  if (!replies) return std::unexpected(std::move(replies).error());
  watch.on_save(replies->front(), now_ms);
  return verdict.durability;
}

}  // namespace proxy::mover
