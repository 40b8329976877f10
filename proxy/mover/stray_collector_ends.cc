// A StrayCollector's two nodes: their feeds, and how many bytes are exchanged with them when.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "conf/words.h"
#include "proxy/mover/replies.h"
#include "proxy/mover/stray_collector.h"
#include "proxy/resp/reserved_key.h"
#include "slots/key_hash.h"
#include "slots/key_slot.h"

namespace proxy::mover {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr std::chrono::milliseconds kStep{20};
constexpr std::size_t kNamesLogged = 20;

}  // namespace

Result<StrayCollector::Watched> StrayCollector::watch(End& end, const Names& names) {
  std::vector<std::string_view> watch = {"WATCH", resp::kIdentityKey};
  watch.insert(watch.end(), names.begin(), names.end());
  end.link.add({"UNWATCH"});
  end.link.add(watch);
  auto replies = exchange(end);
  if (!replies) return std::unexpected(replies.error());
  if (is_error(replies->back())) {
    return fail(Errc::Unavailable,
                fmt::format("{} says: {}", end.name, error_text(replies->back())));
  }
  // A server tells of a turn's changes after its replies: one more turn has to go by.
  end.link.add({"PING"});
  if (auto ponged = exchange(end); !ponged) return std::unexpected(ponged.error());
  Watched watched;
  for (const std::string& name : names) {
    const bool is_touched = end.touched.contains(slots::key_hash(name));
    (is_touched ? watched.touched : watched.untouched).push_back(name);
  }
  return watched;
}

Status StrayCollector::ask(End& end, std::uint64_t bytes) {
  if (Status heard = hear(); !heard) return heard;
  for (;;) {
    const auto goes_on = may_go_on();
    if (!goes_on) return std::unexpected(goes_on.error());
    const std::uint64_t wait_us = end.pacer.ask(bytes, now_us());
    if (wait_us == 0) break;
    const auto wait = std::min<Clock::duration>(std::chrono::microseconds(wait_us), kStep);
    if (Status rested = rest(wait); !rested) return rested;
  }
  end.asked += bytes;
  return {};
}

Status StrayCollector::rest(Clock::duration time) {
  const auto until = Clock::now() + time;
  do {
    if (Status heard = hear(); !heard) return heard;
    std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), kStep));
  } while (Clock::now() < until);
  return {};
}

// What both feeds have said, and that both connections live.
Status StrayCollector::hear() {
  if (!on_tick_()) return fail(Errc::Unavailable, "interrupted");
  for (End* end : {&source_, &target_}) {
    if (Status read = end->link.read_feed(); !read) return read;
    if (Status taken = take_notices(*end); !taken) return taken;
  }
  return {};
}

Status StrayCollector::take_notices(End& end) {
  const std::uint64_t bytes = end.link.take_bytes();
  const std::uint64_t asked = std::exchange(end.asked, 0);
  if (bytes != asked) {
    end.pacer.settle(static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(asked), now_us());
  }
  progress_.wire_bytes += bytes;
  const Notices notices = end.link.take_notices();
  if (notices.all) return fail(Errc::Conflict, fmt::format("{} was flushed meanwhile", end.name));
  for (const std::string& name : notices.keys) {
    if (!resp::is_reserved_key(name) && spec_.target_slots.contains(slots::slot_of_key(name)))
      end.touched.insert(slots::key_hash(name));
  }
  if (end.touched.size() <= kTouchedMax) return {};
  return fail(
      Errc::LimitExceeded,
      fmt::format("clients have changed more than {} keys of {} meanwhile", kTouchedMax, end.name));
}

Result<NodeLink::Replies> StrayCollector::exchange(End& end) {
  auto replies = end.link.exchange();
  if (!replies) return replies;
  if (Status taken = take_notices(end); !taken) return std::unexpected(taken.error());
  return replies;
}

Ask StrayCollector::asker(End& end) {
  const Side side = &end == &source_ ? Side::Source : Side::Target;
  return [this, &end, side](const std::vector<Words>& commands,
                            std::uint64_t bytes) -> std::expected<NodeLink::Replies, NodeLost> {
    if (Status asked = ask(end, bytes); !asked)
      return std::unexpected(NodeLost{side, asked.error().message});
    for (const Words& command : commands)
      end.link.add(std::vector<std::string_view>(command.begin(), command.end()));
    auto replies = exchange(end);
    if (!replies) return std::unexpected(NodeLost{side, replies.error().message});
    return *replies;
  };
}

Result<bool> StrayCollector::may_go_on() {
  for (;;) {
    const Wish wish = host_.wish(spec_.plan);
    progress_.is_paused = wish == Wish::Pause;
    if (wish != Wish::Pause) return wish == Wish::Run;
    if (Status rested = rest(kStep); !rested) return std::unexpected(rested.error());
  }
}

PieceRules StrayCollector::piece_rules() const {
  const std::uint64_t chunk = std::min(source_.pacer.chunk(), target_.pacer.chunk());
  return piece_rules_within(chunk, piece_key_, target_.link.traits().knows_expire_time);
}

// Of a clock that never goes back.
std::uint64_t StrayCollector::now_us() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
          .count());
}

void StrayCollector::leave(const std::string& name, std::string_view why) {
  if (left_alone_++ == 0) first_left_ = fmt::format("{}: {}", conf::in_quotes(name), why);
  if (left_alone_ <= kNamesLogged) {
    spdlog::info("plan {}: the stray {} on {} is left alone: {}", spec_.plan, conf::in_quotes(name),
                 spec_.source, why);
  }
}

std::string StrayCollector::summary() const {
  std::string text = fmt::format("{} keys given to {}, {} removed from {}", progress_.keys_copied,
                                 spec_.target, progress_.keys_collected, spec_.source);
  if (left_alone_ > 0) text += fmt::format(", {} left alone ({})", left_alone_, first_left_);
  return text;
}

}  // namespace proxy::mover
