#include "proxy/control/slot_counter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "proxy/resp/keyspace_info.h"
#include "proxy/resp/reserved_key.h"
#include "slots/key_hash.h"
#include "slots/key_slot.h"

namespace proxy::control {

namespace {

constexpr double kMeasuredKeys = 20'000;
constexpr const char* kKeysPerScan = "100";  // Some tens of microseconds of the node's time.

// Which keys are measured must be the same tomorrow. Folded, for its low bits alone decide.
std::uint64_t folded_hash(std::string_view key) {
  const std::uint64_t hash = slots::key_hash(key);
  return hash ^ hash >> 32;
}

}  // namespace

SlotCounter::SlotCounter(uv_loop_t* loop, NodeClient& client, const slots::SlotSet& owned,
                         conf::Milliseconds timeout, conf::Milliseconds patience, Done done)
    : loop_(loop),
      client_(client),
      timeout_(timeout),
      done_(std::move(done)),
      pause_(loop),
      tally_(std::make_shared<slots::SlotTally>(owned)),
      end_at_ms_(uv_now(loop) + static_cast<std::uint64_t>(patience.count())) {
  client_.call({"INFO", "keyspace"}, timeout_, [this, life = life_](slots::Result<Reply> reply) {
    if (!*life) return;
    if (!reply) return end(std::unexpected(std::move(reply.error())));
    if (reply->is_error()) return end(slots::fail(slots::Errc::Unavailable, reply->text));
    for (const auto& [database, keys] : resp::keys_by_database(reply->text)) {
      all_keys_ += static_cast<double>(keys);
      databases_.insert(databases_.begin(), database);
    }
    measured_every_ =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(all_keys_ / kMeasuredKeys));
    if (databases_.empty()) return end(NodeTally{tally_, 0, true});
    select_next();
  });
}

void SlotCounter::select_next() {
  if (databases_.back() == 0) return scan();
  client_.call({"SELECT", std::to_string(databases_.back())}, timeout_,
               [this, life = life_](slots::Result<Reply> reply) {
                 if (!*life) return;
                 if (!reply) return end(std::unexpected(std::move(reply.error())));
                 if (reply->is_error())
                   return end(slots::fail(slots::Errc::Unavailable, reply->text));
                 scan();
               });
}

void SlotCounter::scan() {
  sent_at_ns_ = uv_hrtime();
  client_.call({"SCAN", cursor_, "COUNT", kKeysPerScan}, timeout_,
               [this, life = life_](slots::Result<Reply> reply) {
                 if (!*life) return;
                 if (!reply) return end(std::unexpected(std::move(reply.error())));
                 on_keys(*reply);
               });
}

void SlotCounter::on_keys(const Reply& reply) {
  if (reply.is_error()) return end(slots::fail(slots::Errc::Unavailable, reply.text));
  if (!reply.is_array() || reply.elements.size() != 2 || !reply.elements[0].is_string() ||
      !reply.elements[1].is_array()) {
    return end(slots::fail(slots::Errc::Unavailable,
                           "the node does not answer SCAN as a redis-server does"));
  }
  cursor_ = reply.elements[0].text;
  if (cursor_ == "0") databases_.pop_back();
  for (const Reply& key : reply.elements[1].elements) {
    if (resp::is_reserved_key(key.text)) continue;
    const slots::SlotId slot = slots::slot_of_key(key.text);
    if (!tally_->add_key(slot) || !may_measure_ || folded_hash(key.text) % measured_every_ != 0)
      continue;
    ask_size(key.text, slot);
  }
  if (sizes_awaited_ == 0) go_on();
}

void SlotCounter::ask_size(const std::string& key, slots::SlotId slot) {
  ++sizes_awaited_;
  client_.call({"MEMORY", "USAGE", key}, timeout_,
               [this, life = life_, slot](slots::Result<Reply> reply) {
                 if (!*life) return;
                 if (!reply) return end(std::unexpected(std::move(reply.error())));
                 if (reply->type == Reply::Type::Integer)
                   tally_->add_size(slot, static_cast<double>(reply->integer));
                 may_measure_ = may_measure_ && !reply->is_error();
                 if (--sizes_awaited_ == 0) go_on();
               });
}

void SlotCounter::go_on() {
  const bool is_whole = databases_.empty();
  if (is_whole || uv_now(loop_) >= end_at_ms_) return end(NodeTally{tally_, all_keys_, is_whole});
  // As long idle as the node was asked to work; the trip there and back counts as work.
  const auto worked_ms = static_cast<std::int64_t>((uv_hrtime() - sent_at_ns_) / 1'000'000);
  pause_.start(conf::Milliseconds(1 + worked_ms),
               [this] { cursor_ == "0" ? select_next() : scan(); });
}

void SlotCounter::end(slots::Result<NodeTally> result) {
  *life_ = false;
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace proxy::control
