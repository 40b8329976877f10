#include "proxy/mover/carrier.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "proxy/mover/ask_durability.h"
#include "proxy/mover/replies.h"
#include "proxy/resp/reply_cursor.h"
#include "slots/assert.h"

namespace proxy::mover {

namespace {

constexpr std::chrono::milliseconds kWishAge{20};    // So old an answer is good enough.
constexpr std::chrono::milliseconds kWatchStep{20};  // Wishes and ticks come up so often.
constexpr std::chrono::milliseconds kFeedGather{
    2};                                     // One more look at a feed that speaks, at most.
constexpr std::uint64_t kNameBytes = 40;    // Of a key's name in SCAN's reply, about.
constexpr std::uint64_t kFrameBytes = 120;  // Of a value's commands and replies, about.
// A gentle step keeps a server for some 100 us: so many keys are looked at, or exchanged, and so
// many bytes of them, which cost about 5 ns each to compress and check.
constexpr std::uint32_t kGentleScanCount = 50;
constexpr std::size_t kGentleKeys = 10;
constexpr std::uint64_t kGentleBytes = 16U << 10;
constexpr std::chrono::microseconds kUsualPause{3000};
// A copy this large may have a large one in its place already: replacing that would free it in the
// server's main thread (450 ms for a million fields), UNLINK does not.
constexpr std::size_t kLargeBytes = 16U << 10;

}  // namespace

Carrier::Carrier(CarrierOptions options, MoveHost& host, Pacer& source, Pacer& target,
                 LostClients& lost_clients, std::function<void()> on_tick)
    : options_(std::move(options)),
      host_(host),
      on_tick_(std::move(on_tick)),
      source_(options_.link, lost_clients, source),
      target_(options_.link, lost_clients, target),
      marker_key_(marker_key(options_.spec.plan, options_.spec.source)),
      piece_key_(piece_key(options_.spec.plan, options_.spec.source)),
      durability_(options_.grace) {}

Event Carrier::start() { return event_of(Started{}); }

Event Carrier::carry_out(const Action& action) {
  on_tick_();
  Answer answer = std::visit([this](const auto& what) { return act(what); }, action);
  if (answer) {
    settle(Side::Source);
    settle(Side::Target);
    return event_of(std::move(*answer));
  }
  lift();
  Event event = event_of(std::move(answer).error());
  source_.link.close();
  target_.link.close();
  return event;
}

Event Carrier::event_of(Outcome outcome) {
  return {.outcome = std::move(outcome),
          .source = source_.link.take_notices(),
          .target = target_.link.take_notices(),
          .wish = wish(),
          .now_ms = now_ms()};
}

// --- connecting

Carrier::Answer Carrier::act(const Connect&) {
  if (auto opened = open(Side::Source); !opened) return std::unexpected(opened.error());
  if (auto opened = open(Side::Target); !opened) return std::unexpected(opened.error());
  target_.link.add({"GET", marker_key_});
  auto replies = exchange(Side::Target);
  if (!replies) return std::unexpected(std::move(replies).error());
  if (is_error(replies->front())) {
    return std::unexpected(refused(Side::Target, "GET", replies->front()));
  }
  Connected connected{.source_run_id = source_.link.traits().run_id,
                      .target_run_id = target_.link.traits().run_id,
                      .marker = number_of(bulk_of(replies->front())),
                      .may_evict_marker = target_.link.traits().may_evict_any_key,
                      .databases = {.source = source_.link.traits().databases,
                                    .target = target_.link.traits().databases}};
  if (known_target_ != connected.target_run_id) {
    known_target_ = connected.target_run_id;
    durability_.on_marker(now_ms());
  }
  return connected;
}

Carrier::OrLost<void> Carrier::open(Side side) {
  const auto access = host_.access(name(side));
  if (!access) return std::unexpected(NodeLost{side, access.error().message});
  if (auto opened = link(side).open(*access); !opened) {
    return std::unexpected(NodeLost{side, opened.error().message});
  }
  return {};
}

// --- copying

Carrier::Answer Carrier::act(const Scan& scan) {
  const std::uint32_t count = is_gentle() ? std::min(scan.count, kGentleScanCount) : scan.count;
  if (auto asked = ask(scan.side, count * kNameBytes); !asked)
    return std::unexpected(asked.error());
  link(scan.side).select(scan.database);
  link(scan.side).add({"SCAN", fmt::format("{}", scan.cursor), "COUNT", fmt::format("{}", count)});
  auto replies = exchange(scan.side);
  if (!replies) return std::unexpected(std::move(replies).error());
  resp::ReplyCursor page(replies->front());
  const auto header = page.read_header();
  const auto cursor = page.read_bulk();
  const auto keys = page.read_header();
  if (!header || header->type != '*' || !cursor || !keys) {
    return std::unexpected(refused(scan.side, "SCAN", replies->front()));
  }
  Scanned scanned{.cursor = number_of(*cursor), .keys = {}};
  scanned.keys.reserve(static_cast<std::size_t>(keys->count));
  for (std::int64_t i = 0; i < keys->count; ++i) {
    scanned.keys.emplace_back(page.read_bulk().value_or(std::string_view{}));
  }
  return scanned;
}

Carrier::Answer Carrier::act(const Read& read) {
  link(Side::Source).select(read.database);
  OrLost<Step> step = Step{.keys = read.keys.size()};
  if (!read.is_whole) {
    const std::size_t keys = read.keys.size();
    step = measure(std::span(read.keys).first(is_gentle() ? std::min(keys, kGentleKeys) : keys));
  }
  if (!step) return std::unexpected(std::move(step).error());
  step->large.resize(step->keys);
  step->gone.resize(step->keys);
  if (auto asked = ask(Side::Source, step->bytes); !asked) return std::unexpected(asked.error());
  // The value first: a change after it is reported behind its reply, and one between value and
  // expiry likewise.
  const bool knows_expire_time = source_.link.traits().knows_expire_time;
  const std::size_t replies_each = knows_expire_time ? 2 : 3;
  for (std::size_t i = 0; i < step->keys; ++i) {
    if (step->large[i] > 0 || step->gone[i]) continue;
    source_.link.add({"DUMP", read.keys[i]});
    source_.link.add({knows_expire_time ? "PEXPIRETIME" : "PTTL", read.keys[i]});
    if (!knows_expire_time) source_.link.add({"TIME"});
  }
  auto replies = exchange(Side::Source);
  if (!replies) return std::unexpected(std::move(replies).error());
  ReadDone done;
  done.values.reserve(step->keys);
  std::size_t at = 0;  // In replies.
  for (std::size_t i = 0; i < step->keys; ++i) {
    if (step->large[i] > 0) {
      done.values.push_back({.name = read.keys[i], .payload = {}, .large_bytes = step->large[i]});
      continue;
    }
    if (step->gone[i]) {
      done.values.push_back({.name = read.keys[i], .payload = {}});
      continue;
    }
    const std::string_view dump = (*replies)[at];
    const std::string_view expiry = (*replies)[at + 1];
    const std::string_view time = knows_expire_time ? expiry : (*replies)[at + 2];
    at += replies_each;
    if (is_error(dump)) return std::unexpected(refused(Side::Source, "DUMP", dump));
    if (!expiry.starts_with(':')) return std::unexpected(refused(Side::Source, "PTTL", expiry));
    KeyValue& value = done.values.emplace_back();
    value.name = read.keys[i];
    value.expire_at_ms = integer_of(expiry);
    value.exists = dump.starts_with('$') && value.expire_at_ms != -2;
    if (!value.exists) continue;
    value.payload = bulk_of(dump);
    if (knows_expire_time || value.expire_at_ms < 0) continue;
    const auto now_ms = time_of(time);
    if (!now_ms) return std::unexpected(refused(Side::Source, "TIME", time));
    value.expire_at_ms += *now_ms;
  }
  return done;
}

// DUMP needs as much room as MEMORY USAGE says at most, in all shapes of values that were tried. A
// key that is not there needs no more questions: if it comes to be, the feed says so afterwards.
Carrier::OrLost<Carrier::Step> Carrier::measure(std::span<const std::string> keys) {
  if (auto asked = ask(Side::Source, keys.size() * kNameBytes); !asked)
    return std::unexpected(asked.error());
  for (const std::string& key : keys) source_.link.add({"MEMORY", "USAGE", key});
  auto replies = exchange(Side::Source);
  if (!replies) return std::unexpected(std::move(replies).error());
  const PieceRules rules = piece_rules();
  // Under a fence nobody has time to go in steps; the machine has chosen a group that is small.
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
  if (!is_fenced_) room = std::min<std::uint64_t>(options_.spec.batch_bytes, chunk());
  if (is_gentle()) room = std::min(room, kGentleBytes);
  Step step;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto usage =
        static_cast<std::uint64_t>(std::max<std::int64_t>(integer_of((*replies)[i]), 0));
    const bool is_large = usage >= rules.large_bytes;
    const std::uint64_t bytes = is_large ? 0 : usage + 2 * keys[i].size() + kFrameBytes;
    if (step.keys > 0 && step.bytes + bytes > room) break;
    step.bytes += bytes;
    step.large.push_back(is_large ? usage : 0);
    step.gone.push_back(is_null((*replies)[i]));
    ++step.keys;
  }
  return step;
}

Carrier::Answer Carrier::act(const Write& write) {
  std::uint64_t bytes = 0;
  for (const KeyValue& value : write.values)
    bytes += value.payload.size() + value.name.size() + kFrameBytes;
  if (auto asked = ask(Side::Target, bytes); !asked) return std::unexpected(asked.error());
  link(Side::Target).select(write.database);
  std::vector<std::uint32_t> owners;  // Whose reply it is.
  for (std::uint32_t i = 0; i < write.values.size(); ++i) {
    const KeyValue& value = write.values[i];
    if (!value.exists || value.payload.size() >= kLargeBytes) {
      target_.link.add({"UNLINK", value.name});
      owners.push_back(i);
    }
    if (!value.exists) continue;
    target_.link.add({"RESTORE", value.name, fmt::format_int(value.restore_expiry_ms()).c_str(),
                      value.payload, "REPLACE", "ABSTTL"});
    owners.push_back(i);
  }
  auto replies = exchange(Side::Target);
  if (!replies) return std::unexpected(std::move(replies).error());
  WriteDone done;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!is_error((*replies)[i])) continue;
    if (!done.failures.empty() && done.failures.back().index == owners[i]) continue;
    const std::string_view text = error_text((*replies)[i]);
    done.failures.push_back({owners[i], fate_of(text), std::string(text)});
  }
  return done;
}

Carrier::Answer Carrier::act(const Remove& remove) {
  link(remove.side).select(remove.database);
  const std::size_t most = is_gentle() ? kGentleKeys : remove.keys.size();
  for (std::span<const std::string> left = remove.keys; !left.empty();) {
    const auto keys = left.first(std::min(most, left.size()));
    left = left.subspan(keys.size());
    std::vector<std::string_view> unlink = {"UNLINK"};
    std::uint64_t bytes = kFrameBytes;
    for (const std::string& key : keys) {
      unlink.push_back(key);
      bytes += key.size() + 10;
    }
    if (auto asked = ask(remove.side, bytes); !asked) return std::unexpected(asked.error());
    link(remove.side).add(unlink);
    auto replies = exchange(remove.side);
    if (!replies) return std::unexpected(std::move(replies).error());
    if (is_error(replies->front()))
      return std::unexpected(refused(remove.side, "UNLINK", replies->front()));
  }
  return Removed{};
}

// Whoever had an answer to a write before this INFO was sent: its notice has been sent before the
// answer, and its database is named there. Both nodes work at it at the same time.
//
// A fence follows right after it: the rest that is due after the one before is taken here, when
// nobody waits, and not between the look at what has changed and the fence.
Carrier::Answer Carrier::act(const CatchFeeds&) {
  for (const Side side : {Side::Source, Side::Target}) {
    if (auto asked = ask(side, 0); !asked) return std::unexpected(asked.error());
  }
  for (const Side side : {Side::Source, Side::Target}) {
    link(side).add({"INFO", "keyspace"});
    if (auto sent = link(side).send(); !sent)
      return std::unexpected(NodeLost{side, sent.error().message});
  }
  Caught caught;
  for (const Side side : {Side::Source, Side::Target}) {
    auto replies = exchange(side);
    if (!replies) return std::unexpected(replies.error());
    const std::string_view info = replies->front();
    if (is_error(info)) return std::unexpected(refused(side, "INFO", info));
    (side == Side::Source ? caught.databases.source : caught.databases.target) =
        databases_in(bulk_of(info));
  }
  return caught;
}

// --- the fence

Carrier::Answer Carrier::act(const Fence& fence) {
  const conf::Milliseconds limit{fence.limit_ms};
  fenced_at_ = Clock::now();
  const auto grant = host_.fence(fence.slots, options_.spec.source, limit);
  if (!grant) {
    end_pause();
    return NotFenced{grant.error().message};
  }
  fenced_at_ = std::max(fenced_at_, grant->begun);
  fenced_until_ = fenced_at_ + limit;
  is_fenced_ = true;
  for (const Side side : {Side::Source, Side::Target}) {
    link(side).set_alarm(fenced_until_, [this] { lift(); });
  }
  if (grant->lost_client_ids.empty()) return Fenced{held_ms()};
  for (const std::uint64_t id : grant->lost_client_ids) {
    source_.link.add({"CLIENT", "KILL", "ID", fmt::format("{}", id)});
  }
  auto replies = exchange(Side::Source);
  if (!replies) return std::unexpected(std::move(replies).error());
  for (const std::string_view reply : *replies) {
    if (is_error(reply)) return std::unexpected(refused(Side::Source, "CLIENT KILL", reply));
  }
  return Fenced{held_ms()};
}

Carrier::Answer Carrier::act(const LiftFence&) {
  lift();
  return Lifted{};
}

Carrier::Answer Carrier::act(const PutMarker& marker) {
  link(Side::Target).select(0);
  target_.link.add({"SET", marker_key_, fmt::format("{}", marker.number)});
  auto replies = exchange(Side::Target);
  if (!replies) return std::unexpected(std::move(replies).error());
  if (is_error(replies->front()))
    return std::unexpected(refused(Side::Target, "SET", replies->front()));
  durability_.on_marker(now_ms());
  return MarkerPut{};
}

Carrier::Answer Carrier::act(const Commit& commit) {
  if (is_fenced_ && Clock::now() >= fenced_until_) lift();
  if (!is_fenced_) {
    return NotCommitted{.reason = "the last copy took longer than clients may have to wait"};
  }
  is_fenced_ = false;  // The host lifts it, either way.
  const TransferSpec& spec = options_.spec;
  const auto epoch = host_.commit(spec.plan, commit.slots, spec.source, spec.target, commit.marker,
                                  commit.target_run_id);
  end_pause();
  if (!epoch) return NotCommitted{.reason = epoch.error().message, .is_fatal = true};
  return Committed{*epoch};
}

void Carrier::lift() {
  if (!std::exchange(is_fenced_, false)) return;
  host_.lift_fence();
  end_pause();
}

std::uint64_t Carrier::held_ms() const {
  const auto held = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - fenced_at_);
  return static_cast<std::uint64_t>(held.count());
}

void Carrier::end_pause() {
  source_.link.clear_alarm();
  target_.link.clear_alarm();
  const auto pause =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - fenced_at_);
  pauses_us_.push_back(static_cast<std::uint32_t>(pause.count()));
  // The next one is to come after a while. What is beyond the usual was no work of the nodes.
  for (End* node : {&source_, &target_})
    node->pacer.note_busy(static_cast<std::uint64_t>(std::min(pause, kUsualPause).count()),
                          now_us());
}

// --- afterwards

Carrier::Answer Carrier::act(const AskDurability&) {
  auto durability = ask_durability(target_.link, durability_, now_ms());
  if (!durability) return std::unexpected(NodeLost{Side::Target, durability.error().message});
  if (!durability->waits_for.empty())
    durability->waits_for = fmt::format("{}: {}", options_.spec.target, durability->waits_for);
  return *std::move(durability);
}

Carrier::Answer Carrier::act(const Vouch& vouch) {
  const TransferSpec& spec = options_.spec;
  const auto noted = host_.vouch(spec.plan, vouch.slots, spec.target, vouch.target_run_id);
  if (!noted) return NotNoted{noted.error().message};
  return Noted{};
}

Carrier::Answer Carrier::act(const GiveBack& give_back) {
  const TransferSpec& spec = options_.spec;
  const auto epoch = host_.give_back(spec.plan, give_back.slots, spec.source, spec.target);
  if (!epoch) return NotGivenBack{epoch.error().message};
  return GaveBack{*epoch};
}

Carrier::Answer Carrier::act(const Collected& collected) {
  const auto noted =
      host_.note_collected(options_.spec.plan, collected.slots, options_.spec.source);
  if (!noted) return NotNoted{noted.error().message};
  return Noted{};
}

Carrier::Answer Carrier::act(const Wait& wait) {
  if (auto watched = watch(Clock::now() + std::chrono::milliseconds(wait.ms)); !watched)
    return std::unexpected(watched.error());
  return Waited{};
}

Carrier::Answer Carrier::act(const Finish&) { SP_ASSERT(false); }

// --- bytes and time

Carrier::OrLost<void> Carrier::ask(Side side, std::uint64_t bytes) {
  if (is_fenced_) return {};
  settle(side);
  Pacer& pacer = end(side).pacer;
  while (const std::uint64_t wait_us = pacer.ask(bytes, now_us())) {
    (pacer.is_resting(now_us()) ? rested_us_ : waited_us_) += wait_us;
    const auto until = Clock::now() + std::chrono::microseconds(wait_us);
    while (Clock::now() < until) {
      if (auto watched = watch(until); !watched) return watched;
    }
  }
  end(side).asked = bytes;
  return {};
}

Carrier::OrLost<NodeLink::Replies> Carrier::exchange(Side side) {
  const std::uint64_t began_us = now_us();
  auto replies = link(side).exchange();
  if (!replies) return std::unexpected(NodeLost{side, std::move(replies).error().message});
  if (!is_fenced_) note_busy(end(side), now_us() - began_us);  // Else the whole pause counts.
  return *replies;
}

// What an exchange took beyond a mere round trip was the node's time, or the wait for others that
// the node serves: then it needs its rest all the more.
void Carrier::note_busy(End& node, std::uint64_t took_us) {
  node.round_trip_us = std::min(took_us, node.round_trip_us + 1);
  node.pacer.note_busy(took_us - node.round_trip_us, now_us());
}

bool Carrier::is_gentle() const {
  return !is_fenced_ && (source_.pacer.is_gentle() || target_.pacer.is_gentle());
}

bool Carrier::take_was_resting() {
  const std::uint64_t rested_us = std::exchange(rested_us_, 0);
  return rested_us > std::exchange(waited_us_, 0);
}

void Carrier::settle(Side side) {
  End& node = end(side);
  const std::uint64_t bytes = node.link.take_bytes();
  node.bytes += bytes;
  const std::uint64_t asked = std::exchange(node.asked, 0);
  if (bytes != asked) {
    node.pacer.settle(static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(asked),
                      now_us());
  }
}

// Ends early when a feed has spoken, a little later so that more of it comes along, and when the
// wish has changed.
Carrier::OrLost<void> Carrier::watch(Clock::time_point until) {
  const Wish before = wish_;
  while (Clock::now() < until) {
    std::array<pollfd, 3> polled = {pollfd{source_.link.socket(), POLLIN, 0},
                                    pollfd{target_.link.socket(), POLLIN, 0},
                                    pollfd{options_.link.interrupt, POLLIN, 0}};
    const auto slice = std::min(until, Clock::now() + kWatchStep);
    const auto left = std::max(slice - Clock::now(), Clock::duration::zero());
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{.tv_sec = nanoseconds / 1'000'000'000,
                           .tv_nsec = nanoseconds % 1'000'000'000};
    ::ppoll(polled.data(), polled.size(), &timeout, nullptr);
    if (polled[2].revents != 0) return std::unexpected(NodeLost{Side::Source, "interrupted"});
    bool has_spoken = false;
    for (const Side side : {Side::Source, Side::Target}) {
      if (auto read = link(side).read_feed(); !read)
        return std::unexpected(NodeLost{side, read.error().message});
      has_spoken = has_spoken || link(side).has_notices();
    }
    on_tick_();
    if (wish() != before) return {};
    if (has_spoken) until = std::min(until, Clock::now() + kFeedGather);
  }
  return {};
}

Wish Carrier::wish() {
  if (Clock::now() >= wish_at_ + kWishAge) {
    wish_ = host_.wish(options_.spec.plan);
    wish_at_ = Clock::now();
  }
  return wish_;
}

const std::string& Carrier::name(Side side) const {
  return side == Side::Source ? options_.spec.source : options_.spec.target;
}

std::uint64_t Carrier::now_us() const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
          .count());
}

}  // namespace proxy::mover
