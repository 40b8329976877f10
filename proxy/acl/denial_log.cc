#include "proxy/acl/denial_log.h"

#include <algorithm>
#include <utility>

namespace proxy::acl {

namespace {

constexpr std::uint64_t kTogetherMs = 60'000;
constexpr std::size_t kLookedThrough = 10;

bool are_alike(const Denial& a, const Denial& b) {
  return a.reason == b.reason && a.context == b.context && a.object == b.object && a.user == b.user;
}

}  // namespace

void DenialLog::add(Denial denial, std::uint64_t now_ms) {
  denial.last_ms = now_ms;
  for (std::string* text : {&denial.object, &denial.user, &denial.client}) {
    if (text->size() > kTextMax) text->resize(kTextMax);
  }
  const std::lock_guard guard(mutex_);
  const auto end =
      entries_.begin() + static_cast<std::ptrdiff_t>(std::min(entries_.size(), kLookedThrough));
  const auto known = std::find_if(entries_.begin(), end, [&](const Denial& entry) {
    return are_alike(entry, denial) && now_ms <= entry.last_ms + kTogetherMs;
  });
  if (known != end) {
    denial.count = known->count + 1;
    entries_.erase(known);
  }
  entries_.push_front(std::move(denial));
  if (entries_.size() > kEntriesMax) entries_.pop_back();
}

std::vector<Denial> DenialLog::newest(std::size_t count) const {
  const std::lock_guard guard(mutex_);
  const auto some = static_cast<std::ptrdiff_t>(std::min(count, entries_.size()));
  return {entries_.begin(), entries_.begin() + some};
}

void DenialLog::clear() {
  const std::lock_guard guard(mutex_);
  entries_.clear();
}

}  // namespace proxy::acl
