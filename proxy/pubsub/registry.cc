#include "proxy/pubsub/registry.h"

#include <algorithm>
#include <mutex>

#include "proxy/pubsub/glob.h"
#include "slots/assert.h"

namespace proxy::pubsub {

bool Registry::add(unsigned worker, Kind kind, std::string_view name, std::uint64_t table_version) {
  std::unique_lock guard(mutex_);
  ByName<Entry>& entries = entries_[kind];
  auto found = entries.find(name);
  if (found == entries.end()) found = entries.emplace(name, Entry{}).first;
  Entry& entry = found->second;
  ++entry.subscribers;
  of_worker_[worker].fetch_add(1, std::memory_order_relaxed);
  total_.fetch_add(1, std::memory_order_relaxed);
  return entry.is_in_force && whole_at_ >= table_version;
}

void Registry::set_leaving(Kind kind, std::string_view name) {
  std::unique_lock guard(mutex_);
  auto found = entries_[kind].find(name);
  SP_ASSERT(found != entries_[kind].end());
  ++found->second.leaving;
}

bool Registry::remove(unsigned worker, Kind kind, std::string_view name, bool was_leaving) {
  std::unique_lock guard(mutex_);
  ByName<Entry>& entries = entries_[kind];
  auto found = entries.find(name);
  SP_ASSERT(found != entries.end());
  if (was_leaving) --found->second.leaving;
  of_worker_[worker].fetch_sub(1, std::memory_order_relaxed);
  total_.fetch_sub(1, std::memory_order_relaxed);
  if (--found->second.subscribers > 0) return false;
  entries.erase(found);
  return true;
}

bool Registry::is_wanted(Kind kind, std::string_view name) const {
  std::shared_lock guard(mutex_);
  return entries_[kind].contains(name);
}

std::size_t Registry::subscribers(Kind kind, std::string_view name) const {
  std::shared_lock guard(mutex_);
  auto found = entries_[kind].find(name);
  return found == entries_[kind].end() ? 0 : found->second.staying();
}

std::size_t Registry::receivers(std::string_view channel) const {
  if (!has_any()) return 0;
  std::shared_lock guard(mutex_);
  auto found = entries_[Kind::Channel].find(channel);
  std::size_t count = found == entries_[Kind::Channel].end() ? 0 : found->second.staying();
  for (const auto& [pattern, entry] : entries_[Kind::Pattern]) {
    if (matches(pattern, channel)) count += entry.staying();
  }
  return count;
}

std::vector<std::string> Registry::names(Kind kind, std::string_view pattern) const {
  std::vector<std::string> found;
  std::shared_lock guard(mutex_);
  for (const auto& [name, entry] : entries_[kind]) {
    if (entry.staying() > 0 && (pattern == "*" || matches(pattern, name))) found.push_back(name);
  }
  return found;
}

TopicCounts Registry::counts() const {
  std::shared_lock guard(mutex_);
  auto count = [this](Kind kind) {
    return static_cast<std::size_t>(std::ranges::count_if(
        entries_[kind], [](const auto& named) { return named.second.staying() > 0; }));
  };
  return {count(Kind::Channel), count(Kind::Pattern), count(Kind::Sharded)};
}

void Registry::set_in_force(Kind kind, std::string_view name, bool is_in_force) {
  std::unique_lock guard(mutex_);
  auto found = entries_[kind].find(name);
  if (found != entries_[kind].end()) found->second.is_in_force = is_in_force;
}

void Registry::set_whole(std::uint64_t table_version) {
  std::unique_lock guard(mutex_);
  whole_at_ = table_version;
}

void Registry::set_heard_nodes(std::vector<std::string> nodes) {
  std::unique_lock guard(mutex_);
  heard_nodes_ = std::move(nodes);
}

bool Registry::hears(std::string_view node) const {
  if (!has_any()) return true;
  std::shared_lock guard(mutex_);
  return std::ranges::find(heard_nodes_, node) != heard_nodes_.end();
}

}  // namespace proxy::pubsub
