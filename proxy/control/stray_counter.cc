#include "proxy/control/stray_counter.h"

#include <utility>

#include "proxy/resp/reserved_key.h"
#include "slots/assert.h"
#include "slots/key_slot.h"

namespace proxy::control {

namespace {

constexpr std::size_t kSampleScans = 100;
constexpr const char* kKeysPerScan = "100";  // Some tens of microseconds of the node's time.

}  // namespace

StrayCounter::StrayCounter(uv_loop_t* loop, NodeClient& client, const slots::SlotSet& owned,
                           conf::Milliseconds timeout)
    : client_(client), owned_(owned), timeout_(timeout), pause_(loop) {}

void StrayCounter::sample(Done done) {
  is_paced_ = false;
  start(kSampleScans, 0, std::move(done));
}

void StrayCounter::count(std::size_t names_max, Done done) {
  is_paced_ = true;
  start(0, names_max, std::move(done));
}

void StrayCounter::start(std::size_t scans_max, std::size_t names_max, Done done) {
  SP_ASSERT(done_ == nullptr);
  done_ = std::move(done);
  report_ = {};
  seen_.clear();
  scans_left_ = scans_max;
  names_max_ = names_max;
  cursor_ = "0";
  run_ = std::make_shared<bool>(true);
  scan();
}

void StrayCounter::cancel() {
  if (run_ != nullptr) *run_ = false;
  pause_.stop();
  done_ = nullptr;
}

void StrayCounter::scan() {
  sent_at_ns_ = uv_hrtime();
  const Command command = {"SCAN", cursor_, "COUNT", kKeysPerScan};
  client_.call(command, timeout_, [this, run = run_](slots::Result<Reply> reply) {
    if (!*run) return;
    if (!reply) return end(std::unexpected(std::move(reply.error())));
    on_keys(*reply);
  });
}

void StrayCounter::on_keys(const Reply& reply) {
  if (reply.is_error()) return end(slots::fail(slots::Errc::Unavailable, reply.text));
  if (!reply.is_array() || reply.elements.size() != 2 || !reply.elements[0].is_string() ||
      !reply.elements[1].is_array()) {
    return end(slots::fail(slots::Errc::Unavailable,
                           "the node does not answer SCAN as a redis-server does"));
  }
  for (const Reply& key : reply.elements[1].elements) look_at(key.text);
  cursor_ = reply.elements[0].text;
  report_.is_whole = cursor_ == "0";
  if (report_.is_whole) return end(std::move(report_));
  if (!is_paced_) return --scans_left_ == 0 ? end(std::move(report_)) : scan();
  // Twice as long idle as the node was asked to work; the trip there and back counts as work.
  const auto worked_ms = static_cast<std::int64_t>((uv_hrtime() - sent_at_ns_) / 1'000'000);
  pause_.start(conf::Milliseconds(1 + 2 * worked_ms), [this] { scan(); });
}

void StrayCounter::look_at(const std::string& key) {
  if (resp::is_reserved_key(key)) return;
  ++report_.keys;
  const slots::SlotId slot = slots::slot_of_key(key);
  if (owned_.contains(slot)) return;
  if (seen_.size() >= kDistinctMax) {
    report_.is_exact = false;
  } else if (!seen_.insert(std::hash<std::string>{}(key)).second) {
    return;  // SCAN shows keys twice while the node's table grows or shrinks.
  }
  ++report_.strays;
  report_.slots.add(slot);
  if (report_.names.size() < names_max_) report_.names.push_back(key);
}

void StrayCounter::end(slots::Result<StrayReport> result) {
  seen_ = {};
  if (run_ != nullptr) *run_ = false;
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace proxy::control
