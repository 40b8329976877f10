#include "proxy/session/script_cache.h"

#include <openssl/evp.h>

#include <cstring>

#include "proxy/routing_table.h"
#include "slots/assert.h"

namespace proxy::session {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::size_t ScriptIdHash::operator()(const ScriptId& id) const {
  std::size_t hash = 0;
  std::memcpy(&hash, id.data(), sizeof hash);
  return hash;
}

ScriptId script_id_of(std::string_view source) {
  ScriptId id;
  unsigned length = 0;
  SP_ASSERT(EVP_Digest(source.data(), source.size(), id.data(), &length, EVP_sha1(), nullptr) == 1);
  SP_ASSERT(length == id.size());
  return id;
}

std::optional<ScriptId> parse_script_id(std::string_view text) {
  ScriptId id;
  if (text.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    int high = hex_digit(text[2 * i]);
    int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return id;
}

// --- ScriptCache ---------------------------------------------------------------------------------

ScriptCache::ScriptCache(unsigned workers) {
  for (unsigned i = 0; i < workers; ++i) workers_.push_back(std::make_unique<WorkerScripts>(*this));
}

ScriptCache::~ScriptCache() = default;

bool ScriptCache::remember(const ScriptId& id, std::string_view source, std::uint64_t bytes_max,
                           bool is_compiled) {
  std::scoped_lock lock(mutex_);
  auto found = entries_.find(id);
  if (found != entries_.end()) {
    found->second->is_compiled = found->second->is_compiled || is_compiled;
    by_use_.splice(by_use_.begin(), by_use_, found->second);
    forget_down_to(bytes_max);
    return !by_use_.empty();
  }
  std::uint64_t bytes = source.size() + kEntryBytes;
  if (bytes > bytes_max) return false;
  forget_down_to(bytes_max - bytes);
  by_use_.push_front({id, std::make_shared<const std::string>(source), is_compiled});
  entries_.emplace(id, by_use_.begin());
  bytes_ += bytes;
  gains_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ScriptCache::forget_down_to(std::uint64_t bytes_max) {
  while (bytes_ > bytes_max) {
    const Entry& last = by_use_.back();
    bytes_ -= last.source->size() + kEntryBytes;
    entries_.erase(last.id);
    by_use_.pop_back();
    losses_.fetch_add(1, std::memory_order_relaxed);
  }
}

ScriptSource ScriptCache::find(const ScriptId& id) {
  std::scoped_lock lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return found->second->source;
}

ScriptCache::Knowledge ScriptCache::knowledge_of(const ScriptId& id) const {
  std::scoped_lock lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return {};
  return {true, found->second->is_compiled};
}

void ScriptCache::forget_all() {
  std::scoped_lock lock(mutex_);
  entries_.clear();
  by_use_.clear();
  bytes_ = 0;
  losses_.fetch_add(1, std::memory_order_relaxed);
  flushes_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t ScriptCache::count() const {
  std::scoped_lock lock(mutex_);
  return entries_.size();
}

std::uint64_t ScriptCache::bytes() const {
  std::scoped_lock lock(mutex_);
  return bytes_;
}

// --- WorkerScripts -------------------------------------------------------------------------------

void WorkerScripts::remember(std::string_view source, std::uint64_t bytes_max) {
  std::uint64_t hash = std::hash<std::string_view>()(source);
  Seen& seen = remembered_[hash % kFilter];
  // Read first: what another worker forgets meanwhile must not count as remembered.
  std::uint64_t as_of = cache_.losses_.load(std::memory_order_relaxed);
  if (seen.hash == hash && seen.as_of == as_of && !is_due()) [[likely]]
    return;
  cache_.remember(script_id_of(source), source, bytes_max, false);
  seen = {hash, as_of};
}

WorkerScripts::Standing WorkerScripts::standing(const ScriptId& id, slots::NodeIndex node,
                                                const ScriptHost& host) {
  if (at(node, host).loaded.contains(id)) [[likely]] {
    if (is_due()) (void)cache_.find(id);
    return Standing::Loaded;
  }
  std::uint64_t hash = ScriptIdHash()(id);
  Seen& seen = unknown_[hash % kFilter];
  std::uint64_t as_of = cache_.gains_.load(std::memory_order_relaxed);
  if (seen.hash == hash && seen.as_of == as_of) return Standing::Unknown;
  if (cache_.knowledge_of(id).is_remembered) return Standing::Missing;
  seen = {hash, as_of};
  return Standing::Unknown;
}

void WorkerScripts::note_loaded(const ScriptId& id, slots::NodeIndex node, const ScriptHost& host) {
  AtNode& there = at(node, host);
  if (there.loaded.size() >= kLoadedMax) there.loaded.clear();
  there.loaded.insert(id);
}

WorkerScripts::AtNode& WorkerScripts::at(slots::NodeIndex node, const ScriptHost& host) {
  if (node >= nodes_.size()) nodes_.resize(node + 1U);
  AtNode& there = nodes_[node];
  std::uint64_t as_of = cache_.flushes_.load(std::memory_order_relaxed);
  if (there.as_of != as_of || there.connections != host.connections || there.name != host.name)
      [[unlikely]] {
    there = {std::string(host.name), host.connections, as_of, {}};
  }
  return there;
}

}  // namespace proxy::session
