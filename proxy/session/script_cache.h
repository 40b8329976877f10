// ScriptCache: the sources of scripts that clients have shown to the proxy, and which node was
// given which of them.
//
// A client that loads a script believes that one server knows it from then on. Behind the proxy
// there are many, and each forgets its scripts when it restarts. So the proxy remembers sources,
// and sends SCRIPT LOAD ahead of the first EVALSHA of a script over each connection to a node.
//
// Thread:  the sources belong to all workers, behind a mutex. Each worker has a WorkerScripts of
//          its own, which keeps the mutex and the SHA-1 off the way of a script that this worker
//          has seen before.
// Limits:  limits.script_cache bytes of sources; the least recently used is forgotten first.
// Errors:  none: a script that was forgotten is a NOSCRIPT of the node's, which every client knows
//          how to repair.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "slots/slot_map.h"

namespace proxy::session {

// The SHA-1 of a script's source.
using ScriptId = std::array<std::uint8_t, 20>;

struct ScriptIdHash {
  std::size_t operator()(const ScriptId& id) const;
};

[[nodiscard]] ScriptId script_id_of(std::string_view source);
// 40 hex digits in either case; nothing: it can't be the name of a script.
[[nodiscard]] std::optional<ScriptId> parse_script_id(std::string_view text);

using ScriptSource = std::shared_ptr<const std::string>;

class WorkerScripts;

class ScriptCache {
 public:
  explicit ScriptCache(unsigned workers);
  ~ScriptCache();
  ScriptCache(const ScriptCache&) = delete;
  ScriptCache& operator=(const ScriptCache&) = delete;

  // To be used by that worker's thread only.
  [[nodiscard]] WorkerScripts& of(unsigned worker) { return *workers_[worker]; }

  // `is_compiled`: a node has accepted it. False: it is larger than `bytes_max`, and was not
  // remembered.
  bool remember(const ScriptId& id, std::string_view source, std::uint64_t bytes_max,
                bool is_compiled);
  // Null: not remembered. Counts as a use.
  [[nodiscard]] ScriptSource find(const ScriptId& id);
  struct Knowledge {
    bool is_remembered = false;
    bool is_compiled = false;
  };
  [[nodiscard]] Knowledge knowledge_of(const ScriptId& id) const;
  // SCRIPT FLUSH: the sources, and what nodes were given.
  void forget_all();
  // How often that was.
  [[nodiscard]] std::uint64_t flushes() const { return flushes_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  friend class WorkerScripts;
  static constexpr std::uint64_t kEntryBytes = 200;  // What an entry takes besides its source.

  struct Entry {
    ScriptId id;
    ScriptSource source;
    bool is_compiled = false;
  };

  void forget_down_to(std::uint64_t bytes_max);

  mutable std::mutex mutex_;
  std::list<Entry> by_use_;  // The most recently used first.
  std::unordered_map<ScriptId, std::list<Entry>::iterator, ScriptIdHash> entries_;
  std::uint64_t bytes_ = 0;
  // What workers concluded before one of these changed is looked at again.
  std::atomic<std::uint64_t> gains_{1};    // Sources remembered.
  std::atomic<std::uint64_t> losses_{1};   // Sources forgotten.
  std::atomic<std::uint64_t> flushes_{1};  // SCRIPT FLUSH.
  std::vector<std::unique_ptr<WorkerScripts>> workers_;
};

// A node as one worker meets it. Behind a new connection there may be a server that has forgotten
// everything.
struct ScriptHost {
  std::string_view name;
  std::uint64_t connections = 0;  // How often the worker has connected to it.
};

// What one worker knows without asking the others.
class WorkerScripts {
 public:
  explicit WorkerScripts(ScriptCache& cache) : cache_(cache) {}

  // EVAL passes by: the source is remembered from now on.
  void remember(std::string_view source, std::uint64_t bytes_max);

  enum class Standing : std::uint8_t {
    Unknown,  // Its source is not remembered: the node knows it, or nobody does.
    Missing,  // The node was not given it by this worker; find() has the source.
    Loaded,   // The node was given it, over the connection of now and since the last SCRIPT FLUSH.
  };
  [[nodiscard]] Standing standing(const ScriptId& id, slots::NodeIndex node,
                                  const ScriptHost& host);
  // SCRIPT LOAD of it is on its way to the node.
  void note_loaded(const ScriptId& id, slots::NodeIndex node, const ScriptHost& host);

  // The node says that it does not know the script after all.
  void note_missing(const ScriptId& id, std::string_view node) {
    for (AtNode& there : nodes_) {
      if (there.name == node) there.loaded.erase(id);
    }
  }

  [[nodiscard]] ScriptSource find(const ScriptId& id) { return cache_.find(id); }

 private:
  static constexpr std::size_t kFilter = 256;        // Entries of the filters; a power of 2.
  static constexpr std::size_t kLoadedMax = 65'536;  // Per node; then it starts anew.
  static constexpr std::uint32_t kUsesPerTouch =
      512;  // A use without the mutex counts for the order of use so often.

  struct Seen {
    std::uint64_t hash = 0;
    std::uint64_t as_of = 0;  // 0: nothing seen.
  };
  struct AtNode {
    std::string name;
    std::uint64_t connections = 0;
    std::uint64_t as_of = 0;  // SCRIPT FLUSHes.
    std::unordered_set<ScriptId, ScriptIdHash> loaded;
  };

  AtNode& at(slots::NodeIndex node, const ScriptHost& host);
  [[nodiscard]] bool is_due() { return ++uses_ % kUsesPerTouch == 0; }

  ScriptCache& cache_;
  std::uint32_t uses_ = 0;
  std::array<Seen, kFilter> remembered_;  // Of sources, as of `losses_`.
  std::array<Seen, kFilter> unknown_;     // Of ids, as of `gains_`.
  std::vector<AtNode> nodes_;  // By NodeIndex; checked by name, as indexes change with the map.
};

}  // namespace proxy::session
