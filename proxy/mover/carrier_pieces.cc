// Carrying out what a Transfer wants of keys that go in pieces.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/mover/carrier.h"
#include "proxy/mover/replies.h"
#include "proxy/mover/stream_groups.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {
namespace {

constexpr std::uint64_t kQuestionBytes = 400;  // A few short commands and their replies.

WriteFate fate_of_reply(std::string_view reply) { return fate_of(error_text(reply)); }

// The last element of EXEC's reply, RENAME's own, or EXEC's error.
std::string_view last_of(std::string_view exec) {
  resp::ReplyCursor cursor(exec);
  const auto header = cursor.read_header();
  if (is_error(exec) || !header || header->type != '*') return exec;
  std::string_view last = exec;
  for (std::int64_t i = 0; i < header->count; ++i) last = cursor.read_raw();
  return last;
}

}  // namespace

std::uint64_t Carrier::chunk() const {
  return std::min(source_.pacer.chunk(), target_.pacer.chunk());
}

PieceRules Carrier::piece_rules() const {
  return piece_rules_within(chunk(), piece_key_, target_.link.traits().knows_expire_time);
}

Ask Carrier::asker(Side side, Database database) {
  return [this, side, database](const std::vector<Words>& commands,
                                std::uint64_t bytes) -> OrLost<NodeLink::Replies> {
    if (auto asked = ask(side, bytes); !asked) return std::unexpected(asked.error());
    link(side).select(database);
    for (const Words& command : commands) {
      link(side).add(std::vector<std::string_view>(command.begin(), command.end()));
    }
    return exchange(side);
  };
}

Carrier::Answer Carrier::act(const ReadPiece& read) {
  auto piece = read_piece(read, piece_rules(), asker(Side::Source, read.database));
  if (!piece) return std::unexpected(std::move(piece).error());
  return std::move(*piece);
}

Carrier::Answer Carrier::act(const WritePiece& write) {
  auto written = write_piece(write, piece_rules(), asker(Side::Target, write.database));
  if (!written) return std::unexpected(std::move(written).error());
  return std::move(*written);
}

Carrier::Answer Carrier::act(const Publish& publish) {
  const Ask source = asker(Side::Source, publish.database);
  const Ask target = asker(Side::Target, publish.database);
  const std::string length(length_command(publish.type));
  auto replies = target({{length, piece_key_}}, kQuestionBytes);
  if (!replies) return std::unexpected(replies.error());
  if (is_error(replies->front())) {
    return Published{fate_of_reply(replies->front()), std::string(error_text(replies->front()))};
  }
  const std::int64_t copied = integer_of(replies->front());
  // The expiry at last: a change of it afterwards is reported.
  const bool knows_expire_time = source_.link.traits().knows_expire_time;
  replies = source({{"TYPE", publish.key},
                    {length, publish.key},
                    {"TIME"},
                    {knows_expire_time ? "PEXPIRETIME" : "PTTL", publish.key}},
                   kQuestionBytes);
  if (!replies) return std::unexpected(replies.error());
  if (bulk_of((*replies)[0]) != publish.type) {
    return Published{WriteFate::Incomplete, "it is another value than it was"};
  }
  const std::int64_t length_now = integer_of((*replies)[1]);
  if (length_now != copied) {
    return Published{WriteFate::Incomplete,
                     fmt::format("the copy on {} has {} elements instead of {}",
                                 options_.spec.target, copied, length_now)};
  }
  if (!(*replies)[3].starts_with(':')) {
    return std::unexpected(refused(Side::Source, "PTTL", (*replies)[3]));
  }
  std::int64_t expire_at_ms = integer_of((*replies)[3]);
  if (expire_at_ms >= 0 && !knows_expire_time) expire_at_ms += time_of((*replies)[2]).value_or(0);
  // What had the name before is freed in the background, which RENAME would not do.
  std::vector<Words> commands = {{"MULTI"}, {"UNLINK", publish.key}};
  if (expire_at_ms >= 0) {
    commands.push_back({"PEXPIREAT", piece_key_, fmt::format("{}", expire_at_ms)});
  }
  commands.push_back({"RENAME", piece_key_, publish.key});
  commands.push_back({"EXEC"});
  replies = target(commands, kQuestionBytes);
  if (!replies) return std::unexpected(replies.error());
  // What was refused when it was queued says why; EXEC then only says that something was.
  for (const std::string_view reply : replies->first(replies->size() - 1)) {
    if (is_error(reply)) return Published{fate_of_reply(reply), std::string(error_text(reply))};
  }
  const std::string_view renamed = last_of(replies->back());
  if (renamed == "+OK\r\n") return Published{};
  // It has expired: the older copy is gone too, and so is the key at the source by now.
  if (renamed.starts_with("-ERR no such key")) {
    return Published{WriteFate::Incomplete, "it expired, or its copy was removed"};
  }
  return Published{fate_of_reply(renamed), std::string(error_text(renamed))};
}

Carrier::Answer Carrier::act(const RenewGroups& renew) {
  auto renewed =
      renew_groups(renew, target_.link.traits().knows_expire_time,
                   asker(Side::Source, renew.database), asker(Side::Target, renew.database));
  if (!renewed) return std::unexpected(std::move(renewed).error());
  return std::move(*renewed);
}

}  // namespace proxy::mover
