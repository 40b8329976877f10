// DurabilityWatch: would the target still hold, after a crash, all that it held when the marker was
// written? Pure: facts and time in, judgement out.
//
// Any one of these is enough. A replica has acknowledged what came after the marker. The AOF is
// written without errors, nothing waits for its fsync, and the marker is 2 s old (appendfsync
// everysec may lag that far). An RDB file was begun after the marker and finished; where save
// points say that RDB files are wanted, one is asked for, so that nobody waits for an hour. Where
// none of them is configured, or asking is forbidden, a grace time stands for it.
//
// Thread:  any. Times in milliseconds of a clock that never goes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

struct PersistenceFacts {
  bool has_aof = false;
  bool aof_writes_ok = false;
  bool aof_sync_pending = false;
  bool aof_never_syncs = false;  // appendfsync no: when the kernel writes it is anybody's guess.
  bool has_save_points = false;
  bool is_saving = false;  // An RDB file is being written.
  bool last_save_ok = false;
  std::uint64_t offset = 0;                    // Of its replication stream, now.
  std::vector<std::uint64_t> replica_offsets;  // Acknowledged by those that are online.
};

// From INFO persistence and INFO replication, and the values of CONFIG's save and appendfsync
// (empty where they may not be read).
[[nodiscard]] PersistenceFacts parse_persistence(std::string_view persistence,
                                                 std::string_view replication,
                                                 std::string_view save,
                                                 std::string_view appendfsync);

class DurabilityWatch {
 public:
  explicit DurabilityWatch(conf::Milliseconds grace)
      : grace_ms_(static_cast<std::uint64_t>(grace.count())) {}

  // The marker was written, or found on a server that this process has not known before.
  void on_marker(std::uint64_t now_ms);

  struct Verdict {
    Durability durability;
    bool wants_save = false;  // BGSAVE is to be sent now; tell on_save() its reply.
  };
  [[nodiscard]] Verdict judge(const PersistenceFacts& facts, std::uint64_t now_ms);
  // "+Background saving started", or an error.
  void on_save(std::string_view reply, std::uint64_t now_ms);

 private:
  enum class Save : std::uint8_t { NotAsked, Begun, Forbidden };

  [[nodiscard]] Verdict judge_save(const PersistenceFacts& facts, std::uint64_t now_ms);
  [[nodiscard]] Verdict judge_grace(std::uint64_t now_ms) const;

  std::uint64_t grace_ms_;
  std::uint64_t marker_at_ms_ = 0;
  std::optional<std::uint64_t> marker_offset_;  // Not below it; known once asked.
  Save save_ = Save::NotAsked;
  std::uint64_t ask_save_at_ms_ = 0;
};

}  // namespace proxy::mover
