// What a StrayCollector does under WATCH at the target.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "proxy/mover/replies.h"
#include "proxy/mover/stray_collector.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/stray_notes.h"
#include "slots/key_hash.h"

namespace proxy::mover {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr std::uint64_t kQuestionBytes = 400;  // A few short commands and their replies.
constexpr unsigned kTriesMax = 3;

// Restores and notes in one step, or does neither.
constexpr std::string_view kRestore =
    "local r = redis.pcall('RESTORE', KEYS[1], ARGV[1], ARGV[2], 'ABSTTL') "
    "if r.ok then redis.call('SADD', KEYS[2], ARGV[3]) end return r";

// The same of a value that has grown under a hidden name. When its time is over, RENAME fails.
constexpr std::string_view kPublish =
    "if redis.call('EXISTS', KEYS[2]) == 1 then "
    "return redis.error_reply('ERR its owner has a key of that name') end "
    "if redis.call(ARGV[1], KEYS[1]) ~= tonumber(ARGV[2]) then "
    "return redis.error_reply('ERR its copy is not whole') end "
    "if tonumber(ARGV[3]) >= 0 then redis.call('PEXPIREAT', KEYS[1], ARGV[3]) end "
    "redis.call('RENAME', KEYS[1], KEYS[2]) "
    "redis.call('SADD', KEYS[3], ARGV[4]) return redis.status_reply('OK')";

Status lost(const NodeLost& node) { return fail(Errc::Unavailable, node.reason); }

}  // namespace

void StrayCollector::note_given(const std::string& name, std::uint64_t bytes) {
  given_.push_back(name);
  given_bytes_ += bytes;
  ++progress_.keys_copied;
  progress_.payload_bytes += bytes;
}

Result<StrayCollector::Names> StrayCollector::watch_absent(const Names& names) {
  const auto watched = watch(target_, names);
  if (!watched) return std::unexpected(watched.error());
  for (const std::string& name : watched->touched)
    leave(name, "clients have used the name at its owner meanwhile");
  if (watched->untouched.empty()) return Names{};
  for (const std::string& name : watched->untouched) target_.link.add({"EXISTS", name});
  auto replies = exchange(target_);
  if (!replies) return std::unexpected(replies.error());
  Names absent;
  for (std::size_t i = 0; i < watched->untouched.size(); ++i) {
    const std::string& name = watched->untouched[i];
    if (integer_of((*replies)[i]) == 0) {
      absent.push_back(name);
    } else {
      leave(name, "its owner has a key of that name");
    }
  }
  return absent;
}

Status StrayCollector::give(const std::vector<KeyValue>& values, unsigned tries) {
  if (values.empty()) return {};
  Names names;
  for (const KeyValue& value : values) names.push_back(value.name);
  const auto absent = watch_absent(names);
  if (!absent) return std::unexpected(absent.error());
  std::vector<KeyValue> wanted;
  std::ranges::copy_if(values, std::back_inserter(wanted), [&](const KeyValue& value) {
    return std::ranges::find(*absent, value.name) != absent->end();
  });
  return restore(wanted, tries);
}

Status StrayCollector::restore(const std::vector<KeyValue>& values, unsigned tries) {
  if (values.empty()) return {};
  target_.link.add({"MULTI"});
  for (const KeyValue& value : values) {
    target_.link.add({"EVAL", kRestore, "2", value.name, resp::kNotedKey,
                      fmt::format_int(value.restore_expiry_ms()).c_str(), value.payload,
                      resp::noted_name(spec_.source, value.name)});
  }
  target_.link.add({"EXEC"});
  auto replies = exchange(target_);
  if (!replies) return std::unexpected(replies.error());
  const std::string_view executed = replies->back();
  if (is_error(executed))
    return fail(Errc::Unavailable, fmt::format("{} says: {}", spec_.target, error_text(executed)));
  if (!is_executed(executed)) {
    // Somebody was faster with one of the names, or with a flush, which the feed tells.
    if (values.size() == 1 && tries == 1) {
      leave(values.front().name, "its owner is written to all the time");
      return hear();
    }
    for (const KeyValue& value : values) {
      if (Status given = give({value}, values.size() == 1 ? tries - 1 : tries); !given)
        return given;
    }
    return {};
  }
  resp::ReplyCursor results(executed);
  (void)results.read_header();
  std::vector<KeyValue> later;
  Names unreadable;
  for (const KeyValue& value : values) {
    const std::string_view result = results.read_raw();
    if (!is_error(result)) {
      note_given(value.name, value.payload.size());
      continue;
    }
    switch (fate_of(error_text(result))) {
      case WriteFate::OutOfMemory:
      case WriteFate::NotNow:
        progress_.waits_for = fmt::format("{}: {}", spec_.target, error_text(result));
        later.push_back(value);
        break;
      case WriteFate::TooNew:
      case WriteFate::Unreadable:
        unreadable.push_back(value.name);
        break;
      default:
        leave(value.name, error_text(result));
    }
  }
  for (const std::string& name : unreadable) {
    if (Status given = give_in_pieces(name); !given) return given;
  }
  if (later.empty()) {
    progress_.waits_for.clear();
    return {};
  }
  if (Status rested = rest(std::chrono::seconds(1)); !rested) return rested;
  const auto goes_on = may_go_on();
  if (!goes_on) return std::unexpected(goes_on.error());
  return *goes_on ? give(later, tries) : Status{};
}

// --- in pieces

Status StrayCollector::give_in_pieces(const std::string& name) {
  ReadPiece read{.key = name, .from = {}, .is_any_size = true};
  std::uint64_t bytes = 0;
  const auto is_copied = copy_in_pieces(read, bytes);
  if (!is_copied) return std::unexpected(is_copied.error());
  if (*is_copied) {
    if (Status published = publish(name, read.from.type, bytes); !published) return published;
  }
  return drop_pieces();
}

// Whether all of the value is there, under the hidden name.
Result<bool> StrayCollector::copy_in_pieces(ReadPiece& read, std::uint64_t& bytes) {
  for (bool is_first = true;; is_first = false) {
    const auto goes_on = may_go_on();
    if (!goes_on) return std::unexpected(goes_on.error());
    if (!*goes_on) return false;
    auto piece = read_piece(read, piece_rules(), asker(source_));
    if (!piece) return std::unexpected(lost(piece.error()).error());
    if (piece->fate == PieceRead::Fate::Gone) return false;
    if (piece->fate != PieceRead::Fate::Ok) {
      leave(read.key, piece->text.empty() ? "it can't be read in pieces" : piece->text);
      return false;
    }
    bytes += piece->bytes;
    const auto written =
        write_piece({std::move(piece->commands), is_first}, piece_rules(), asker(target_));
    if (!written) return std::unexpected(lost(written.error()).error());
    if (written->fate != WriteFate::Ok) {
      leave(read.key, written->text);
      return false;
    }
    read.from = std::move(piece->next);
    if (piece->is_last) return true;
  }
}

Status StrayCollector::publish(const std::string& name, const std::string& type,
                               std::uint64_t bytes) {
  const std::string length(length_command(type));
  const bool knows_expire_time = source_.link.traits().knows_expire_time;
  const auto asked =
      asker(source_)({{length, name}, {"TIME"}, {knows_expire_time ? "PEXPIRETIME" : "PTTL", name}},
                     kQuestionBytes);
  if (!asked) return lost(asked.error());
  const std::int64_t elements = integer_of((*asked)[0]);
  std::int64_t expire_at_ms = integer_of((*asked)[2]);
  if (expire_at_ms >= 0 && !knows_expire_time) expire_at_ms += time_of((*asked)[1]).value_or(0);
  // A server tells of a turn's changes after its replies: one more turn has to go by.
  source_.link.add({"PING"});
  if (auto ponged = exchange(source_); !ponged) return std::unexpected(ponged.error());
  if (source_.touched.contains(slots::key_hash(name))) {
    leave(name, "it has changed or expired at the node that is not its owner");
    return {};
  }
  for (unsigned tries = 0; tries < kTriesMax; ++tries) {
    const auto absent = watch_absent({name});
    if (!absent) return std::unexpected(absent.error());
    if (absent->empty()) return {};
    target_.link.add({"MULTI"});
    target_.link.add({"EVAL", kPublish, "3", piece_key_, name, resp::kNotedKey, length,
                      fmt::format_int(elements).c_str(), fmt::format_int(expire_at_ms).c_str(),
                      resp::noted_name(spec_.source, name)});
    target_.link.add({"EXEC"});
    auto replies = exchange(target_);
    if (!replies) return std::unexpected(replies.error());
    const std::string_view executed = replies->back();
    if (is_error(executed)) {
      return fail(Errc::Unavailable,
                  fmt::format("{} says: {}", spec_.target, error_text(executed)));
    }
    if (!is_executed(executed)) continue;
    resp::ReplyCursor results(executed);
    (void)results.read_header();
    const std::string_view result = results.read_raw();
    if (is_error(result)) {
      leave(name, error_text(result));
    } else {
      note_given(name, bytes);
    }
    return {};
  }
  leave(name, "its owner is written to all the time");
  return hear();
}

Status StrayCollector::drop_pieces() {
  target_.link.add({"UNLINK", piece_key_});
  auto replies = exchange(target_);
  return replies ? Status{} : std::unexpected(replies.error());
}

}  // namespace proxy::mover
