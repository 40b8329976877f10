#include "proxy/mover/stray_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/mover/ask_durability.h"
#include "proxy/mover/replies.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reserved_key.h"
#include "proxy/resp/stray_notes.h"
#include "slots/key_hash.h"
#include "slots/key_slot.h"

namespace proxy::mover {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr const char* kKeysPerScan = "1000";
constexpr std::uint64_t kScanBytes = 40'000;  // Of such a reply, about.
constexpr std::uint64_t kFrameBytes = 250;    // Of a key's commands and replies, about.
constexpr std::uint64_t kBatchBytes = 256U << 10;
constexpr std::size_t kBatchKeys = 50;
constexpr std::size_t kRoundKeys = 10'000;
constexpr std::uint64_t kRoundBytes = 64U << 20;
constexpr unsigned kTriesMax = 3;
constexpr std::chrono::milliseconds kAskAgain{100};
constexpr std::chrono::milliseconds kFenceLimit{1000};
constexpr std::chrono::seconds kAbortPatience{30};  // For the target to keep what it got.

}  // namespace

StrayCollector::StrayCollector(LinkOptions options, StraySpec spec, conf::Milliseconds grace,
                               MoveHost& host, Pacer& source, Pacer& target,
                               LostClients& lost_clients, std::function<bool()> on_tick)
    : spec_(std::move(spec)),
      host_(host),
      on_tick_(std::move(on_tick)),
      source_{.link = NodeLink(options, lost_clients), .pacer = source, .name = spec_.source},
      target_{.link = NodeLink(options, lost_clients), .pacer = target, .name = spec_.target},
      piece_key_(piece_key(spec_.plan, spec_.source)),
      durability_(grace) {}

Finish StrayCollector::run() {
  const Status worked = work();
  progress_.phase = Phase::Ended;
  progress_.waits_for.clear();
  if (!worked) {
    return {Finish::How::Failed,
            fmt::format("{}; {}; what is left can be proposed anew: slotctl plan propose "
                        "--collect-strays",
                        worked.error().message, summary())};
  }
  const bool is_aborted = host_.wish(spec_.plan) == Wish::Abort;
  return {is_aborted ? Finish::How::Aborted : Finish::How::Done, summary()};
}

Status StrayCollector::work() {
  for (End* end : {&source_, &target_}) {
    const auto access = host_.access(end->name);
    if (!access) return std::unexpected(access.error());
    if (Status opened = end->link.open(*access); !opened) return opened;
  }
  progress_.phase = Phase::Copying;
  if (Status waited = wait_for_flushes(); !waited) return waited;
  if (Status dropped = drop_pieces(); !dropped) return dropped;
  if (Status taken = take_up_noted(); !taken) return taken;
  if (spec_.is_resumed) {
    return fail(Errc::Conflict,
                "the proxy was started again meanwhile, and what clients deleted since is not "
                "known");
  }
  if (Status passed = pass(); !passed) return passed;
  return finish_round();
}

// With feeds on both nodes, every flush that begins later is heard of; none is to be half done.
Status StrayCollector::wait_for_flushes() {
  auto grant = host_.fence({}, spec_.target, kFenceLimit);
  for (unsigned tries = 1; !grant && tries < kTriesMax; ++tries)
    grant = host_.fence({}, spec_.target, kFenceLimit);
  if (!grant) return std::unexpected(grant.error());
  host_.lift_fence();
  if (grant->lost_client_ids.empty()) return {};
  for (const std::uint64_t id : grant->lost_client_ids)
    target_.link.add({"CLIENT", "KILL", "ID", fmt::format("{}", id)});
  if (auto killed = exchange(target_); !killed) return std::unexpected(killed.error());
  return hear();
}

// What an earlier collection has given and not removed.
Status StrayCollector::take_up_noted() {
  target_.link.add({"SMEMBERS", resp::kNotedKey});
  auto replies = exchange(target_);
  if (!replies) return std::unexpected(replies.error());
  if (is_error(replies->front())) {
    return fail(Errc::Unavailable,
                fmt::format("{} says: {}", spec_.target, error_text(replies->front())));
  }
  resp::ReplyCursor members(replies->front());
  const auto header = members.read_header();
  Names noted;
  for (std::int64_t i = 0; header && i < header->count; ++i) {
    const auto note = members.read_bulk().value_or(std::string_view{});
    const std::string_view key = resp::key_of_note(spec_.source, note);
    if (!key.empty()) noted.emplace_back(key);
  }
  if (noted.empty()) return {};
  for (const std::string& name : noted) source_.link.add({"EXISTS", name});
  replies = exchange(source_);
  if (!replies) return std::unexpected(replies.error());
  Names gone;
  for (std::size_t i = 0; i < noted.size(); ++i) {
    // A slot that has changed hands since makes the note void: the source may be its owner now.
    const bool is_stray =
        integer_of((*replies)[i]) == 1 && spec_.target_slots.contains(slots::slot_of_key(noted[i]));
    (is_stray ? given_ : gone).push_back(noted[i]);
  }
  if (Status forgotten = forget_noted(gone); !forgotten) return forgotten;
  return finish_round();
}

// --- copying

Status StrayCollector::pass() {
  std::string cursor = "0";
  do {
    const auto goes_on = may_go_on();
    if (!goes_on) return std::unexpected(goes_on.error());
    if (!*goes_on) return {};
    if (Status asked = ask(source_, kScanBytes); !asked) return asked;
    source_.link.add({"SCAN", cursor, "COUNT", kKeysPerScan});
    auto replies = exchange(source_);
    if (!replies) return std::unexpected(replies.error());
    resp::ReplyCursor page(replies->front());
    const auto header = page.read_header();
    const auto next = page.read_bulk();
    const auto count = page.read_header();
    if (!header || !next || !count)
      return fail(Errc::Unavailable, fmt::format("{} does not answer SCAN", spec_.source));
    cursor = *next;
    Names strays;
    for (std::int64_t i = 0; i < count->count; ++i) {
      const std::string_view name = page.read_bulk().value_or(std::string_view{});
      const bool is_stray =
          !resp::is_reserved_key(name) && spec_.slots.contains(slots::slot_of_key(name));
      const bool is_left =
          is_stray && std::ranges::binary_search(spec_.left_alone, slots::key_hash(name));
      if (is_left) leave(std::string(name), "its owner had a key of that name at the proposal");
      if (is_stray && !is_left) strays.emplace_back(name);
    }
    if (Status copied = copy(strays); !copied) return copied;
    if (given_.size() < kRoundKeys && given_bytes_ < kRoundBytes) continue;
    if (Status finished = finish_round(); !finished) return finished;
  } while (cursor != "0");
  return {};
}

Status StrayCollector::copy(const Names& names) {
  for (std::size_t at = 0; at < names.size();) {
    const auto goes_on = may_go_on();
    if (!goes_on) return std::unexpected(goes_on.error());
    if (!*goes_on) return {};
    const std::size_t most = std::min(names.size() - at, kBatchKeys);
    for (std::size_t i = at; i < at + most; ++i) source_.link.add({"MEMORY", "USAGE", names[i]});
    auto usages = exchange(source_);
    if (!usages) return std::unexpected(usages.error());
    const PieceRules rules = piece_rules();
    Names batch;
    std::string large;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < most && large.empty(); ++i) {
      const auto usage =
          static_cast<std::uint64_t>(std::max<std::int64_t>(integer_of((*usages)[i]), 0));
      const std::uint64_t more = usage + 2 * names[at].size() + kFrameBytes;
      if (!batch.empty() && bytes + more > std::min(kBatchBytes, rules.large_bytes)) break;
      if (usage >= rules.large_bytes) {
        large = names[at];
      } else {
        bytes += more;
        batch.push_back(names[at]);
      }
      ++at;
    }
    if (!batch.empty()) {
      if (Status asked = ask(source_, bytes); !asked) return asked;
      const auto values = read(batch);
      if (!values) return std::unexpected(values.error());
      if (Status asked = ask(target_, bytes); !asked) return asked;
      if (Status given = give(*values, kTriesMax); !given) return given;
    }
    if (large.empty()) continue;
    if (Status given = give_in_pieces(large); !given) return given;
  }
  return {};
}

// Those that exist. The value first: a change that comes after it is reported.
Result<std::vector<KeyValue>> StrayCollector::read(const Names& names) {
  const bool knows_expire_time = source_.link.traits().knows_expire_time;
  for (const std::string& name : names) {
    source_.link.add({"DUMP", name});
    source_.link.add({knows_expire_time ? "PEXPIRETIME" : "PTTL", name});
    source_.link.add({"TIME"});
  }
  auto replies = exchange(source_);
  if (!replies) return std::unexpected(replies.error());
  std::vector<KeyValue> values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view dump = (*replies)[3 * i];
    const std::int64_t expiry = integer_of((*replies)[3 * i + 1]);
    if (is_error(dump)) {
      leave(names[i], error_text(dump));
      continue;
    }
    if (!dump.starts_with('$') || expiry == -2) continue;
    KeyValue& value = values.emplace_back();
    value.name = names[i];
    value.exists = true;
    value.payload = bulk_of(dump);
    value.expire_at_ms = expiry;
    if (knows_expire_time || expiry < 0) continue;
    const auto now_ms = time_of((*replies)[3 * i + 2]);
    if (!now_ms) return fail(Errc::Unavailable, fmt::format("{} denies TIME", spec_.source));
    value.expire_at_ms += *now_ms;
  }
  return values;
}

// --- removing

Status StrayCollector::finish_round() {
  if (given_.empty()) return {};
  if (Status durable = wait_until_durable(); !durable) return durable;
  progress_.phase = Phase::Collecting;
  for (std::size_t at = 0; at < given_.size(); at += kBatchKeys) {
    const Names batch(
        given_.begin() + static_cast<std::ptrdiff_t>(at),
        given_.begin() + static_cast<std::ptrdiff_t>(std::min(at + kBatchKeys, given_.size())));
    std::uint64_t bytes = kFrameBytes;
    for (const std::string& name : batch) bytes += 3 * name.size();
    if (Status asked = ask(source_, bytes); !asked) return asked;
    if (Status removed = remove(batch); !removed) return removed;
  }
  given_.clear();
  given_bytes_ = 0;
  progress_.phase = Phase::Copying;
  return {};
}

Status StrayCollector::wait_until_durable() {
  progress_.phase = Phase::Keeping;
  durability_.on_marker(now_us() / 1000);
  for (std::optional<Clock::time_point> aborted_at;;) {
    const auto asked = ask_durability(target_.link, durability_, now_us() / 1000);
    if (!asked) return std::unexpected(asked.error());
    if (Status heard = hear(); !heard) return heard;
    if (asked->is_durable) break;
    progress_.waits_for = fmt::format("{}: {}", spec_.target, asked->waits_for);
    if (!aborted_at && host_.wish(spec_.plan) == Wish::Abort) aborted_at = Clock::now();
    if (aborted_at && Clock::now() > *aborted_at + kAbortPatience)
      return fail(Errc::Timeout, progress_.waits_for);
    if (Status rested = rest(kAskAgain); !rested) return rested;
  }
  progress_.waits_for.clear();
  return {};
}

Status StrayCollector::remove(const Names& names) {
  const auto watched = watch(source_, names);
  if (!watched) return std::unexpected(watched.error());
  Names settled = watched->touched;
  for (const std::string& name : watched->touched)
    leave(name, "it has changed or expired at the node that is not its owner");
  if (!watched->untouched.empty()) {
    source_.link.add({"MULTI"});
    std::vector<std::string_view> unlink = {"UNLINK"};
    unlink.insert(unlink.end(), watched->untouched.begin(), watched->untouched.end());
    source_.link.add(unlink);
    source_.link.add({"EXEC"});
    auto replies = exchange(source_);
    if (!replies) return std::unexpected(replies.error());
    const std::string_view executed = replies->back();
    if (is_error(executed)) {
      return fail(Errc::Unavailable,
                  fmt::format("{} says: {}", spec_.source, error_text(executed)));
    }
    if (is_executed(executed)) {
      settled.insert(settled.end(), watched->untouched.begin(), watched->untouched.end());
      progress_.keys_collected += watched->untouched.size();
    } else if (watched->untouched.size() > 1) {
      for (const std::string& name : watched->untouched) {
        if (Status removed = remove({name}); !removed) return removed;
      }
    } else {
      leave(watched->untouched.front(), "it has changed at the node that is not its owner");
      settled.push_back(watched->untouched.front());
    }
  }
  return forget_noted(settled);
}

Status StrayCollector::forget_noted(const Names& names) {
  if (names.empty()) return {};
  Names notes;
  for (const std::string& name : names) notes.push_back(resp::noted_name(spec_.source, name));
  std::vector<std::string_view> forget = {"SREM", resp::kNotedKey};
  forget.insert(forget.end(), notes.begin(), notes.end());
  target_.link.add(forget);
  auto replies = exchange(target_);
  return replies ? Status{} : std::unexpected(replies.error());
}

}  // namespace proxy::mover
