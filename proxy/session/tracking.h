// Tracking: what a session has asked to be told of (CLIENT TRACKING), and which of its requests
// that are under way name which keys.
//
// A change may be heard of before the reply of a request that read the key as it was: they come
// over different connections. So the client is told behind the last reply that may still show the
// old value; and behind that of a request that may have made the change itself, as Redis does.
//
// Thread:  one worker's.
// Owns:    hashes of keys. Two keys with the same hash cost an invalidation that comes late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/backend/ticket.h"
#include "proxy/session/tracking_options.h"

namespace proxy::session {

class ClientSession;

using KeyHash = std::size_t;
[[nodiscard]] inline KeyHash hash_of(std::string_view key) {
  return std::hash<std::string_view>{}(key);
}

// The keys of a request, or of several that a transaction sends together.
struct NamedKeys {
  std::vector<std::string> read;      // That the client may keep the values of.
  std::vector<KeyHash> read_plainly;  // Of them, those that are not a script's.
  std::vector<KeyHash> all;
  std::vector<KeyHash> written;   // As far as the requests say.
  bool may_write_others = false;  // Scripts, functions, and what names no keys.

  void clear() { *this = {}; }
};

class Tracking {
 public:
  static constexpr std::size_t kOwnKeysMax = 65'536;

  TrackingOptions options;
  Prefixes prefixes;
  bool is_redirect_broken = false;
  bool is_caching_given = false;  // CLIENT CACHING, for the next request.
  // It has asked for something since it was told that all has changed.
  bool may_have_cached = false;
  NamedKeys queued;     // Of its transaction, which is not sent yet.
  std::string held_up;  // What it is told once it is not blocked any more, or a moment later.

  // Whether the client may keep what its next request reads.
  [[nodiscard]] bool wants_next() const {
    return (!options.opt_in || is_caching_given) && !(options.opt_out && is_caching_given);
  }

  // The session's newest ticket waits for a request with these keys.
  void note_sent(const ClientSession& session, std::vector<KeyHash> keys);
  // The last of its tickets that waits for a request with one of the keys; null: none does.
  [[nodiscard]] backend::Ticket* last_with(const ClientSession& session,
                                           std::span<const KeyHash> keys);

  // With NOLOOP: keys that it has written over a quiet connection, which tells of the writes of
  // others; without BCAST only if whatever it has read of them came over such a one too. Forgetting
  // is always safe.
  void add_own_read(KeyHash key) {
    if (own_keys_.size() >= kOwnKeysMax) own_keys_.clear();
    own_keys_.try_emplace(key, false);
  }
  void add_own_write(KeyHash key) {
    if (options.is_broadcast) add_own_read(key);
    if (auto found = own_keys_.find(key); found != own_keys_.end()) found->second = true;
  }
  // It was read over another connection.
  void forget_own(KeyHash key) { own_keys_.erase(key); }
  // Somebody else of its like writes it.
  void forget_own_write(KeyHash key) {
    if (auto found = own_keys_.find(key); found != own_keys_.end()) found->second = false;
  }
  void forget_own_writes() {
    for (auto& [key, is_written] : own_keys_) is_written = false;
  }
  void forget_own() { own_keys_.clear(); }
  [[nodiscard]] bool has_written(KeyHash key) const {
    auto found = own_keys_.find(key);
    return found != own_keys_.end() && found->second;
  }

 private:
  void drop_answered(const ClientSession& session);

  // One for each ticket of the session that is marked as tracked, in their order, and before those
  // some that are answered.
  std::deque<std::vector<KeyHash>> under_way_;
  std::size_t checked_size_ = 64;  // So many may there be before answered ones are looked for.
  std::unordered_map<KeyHash, bool> own_keys_;  // Whether it has written it.
};

}  // namespace proxy::session
