// StateStore: what is, in a folder: the map in force and the nodes' identities, surviving any
// crash.
//
//   lock       held (flock) by the proxy that serves from this folder; holds its process id
//   journal    the truth: records of state_record.h, each on disk before commit() returns
//   map.yaml, plans/NNNN.yaml   the same for people, rewritten after each change
//
// Thread:  the control thread only; every call may block on the disk.
// Owns:    its file descriptors, the lock among them, until destroyed.
// Limits:  the journal is rewritten with its last record when it has more than kJournalRecordsMax
// or kJournalBytesMax. Errors:  a failed write or sync poisons the store: what is on disk is then
// unknown, and the same descriptor may report
//          success for bytes that never got there. Every further commit() fails until the store is
//          opened anew, which reads what is really there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/control/state_record.h"
#include "slots/result.h"

namespace proxy::control {

inline constexpr std::size_t kJournalRecordsMax = 1000;
inline constexpr std::size_t kJournalBytesMax = 64U << 20;

// The calls that put bytes on disk, with the contracts of write(2) and fsync(2). Tests put failing
// disks here.
struct DiskCalls {
  std::function<ssize_t(int fd, const void* bytes, std::size_t count)> write;
  std::function<int(int fd)> sync;
  [[nodiscard]] static DiskCalls real();
};

class StateStore {
 public:
  // Makes the folder (mode 0700) if it is missing, takes the lock and reads the journal; an
  // unfinished last record, which no commit() had reported as done, is cut off. Errors: Conflict
  // when another process holds the lock (its process id is in the message); Unavailable when the
  // folder can't be made, read or written; Corrupt for a damaged journal, or one that is gone while
  // map.yaml is there.
  [[nodiscard]] static slots::Result<std::unique_ptr<StateStore>> open(
      const std::string& dir, DiskCalls calls = DiskCalls::real());
  ~StateStore() = default;
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  // The last state committed; empty before the first.
  [[nodiscard]] const std::optional<ClusterState>& state() const { return state_; }

  // On success the state is on disk. Errors: Conflict (nothing was written) for a lower epoch or
  // another cluster; Io when the disk failed: the state may or may not be there after the next
  // open(). What is for people is written too, unless somebody waits for the commit: then the
  // caller owes a call of keep_house().
  enum class People : std::uint8_t { WriteNow, WriteLater };
  [[nodiscard]] slots::Status commit(const ClusterState& state, People people = People::WriteNow);
  // Brings the files for people up to date, and makes the journal shorter if it is too long.
  void keep_house();

  // Bytes of an unfinished record that open() cut off; 0 unless the last run ended in the middle of
  // a commit().
  [[nodiscard]] std::size_t cut_bytes() const { return cut_bytes_; }
  // Why map.yaml or a plan's file is older than the journal, or the journal not made shorter; empty
  // when all is well. Tried again at every commit().
  [[nodiscard]] const std::string& housekeeping_problem() const { return housekeeping_problem_; }

 private:
  class Fd {
   public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd();
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }

   private:
    int fd_;
  };

  StateStore(std::string dir, DiskCalls calls) : dir_(std::move(dir)), calls_(std::move(calls)) {}

  slots::Status make_dir();
  slots::Status take_lock();
  slots::Status read_all();
  slots::Status cut_journal(std::size_t whole_bytes, std::size_t all_bytes);

  [[nodiscard]] std::string path(std::string_view name) const {
    return dir_ + "/" + std::string(name);
  }
  slots::Status poison(slots::Error error);
  slots::Status write_map_file();
  slots::Status write_plan_files();
  slots::Status compact_journal();
  slots::Status write_all(int fd, std::string_view bytes);
  slots::Status sync(int fd);
  // Puts a file in place of `name` such that a crash leaves the old one or the new one. The new
  // one, open for appending.
  slots::Result<Fd> replace_file(std::string_view name, std::string_view bytes, bool& is_replaced);
  slots::Status replace_file(std::string_view name, std::string_view bytes);

  std::string dir_;
  DiskCalls calls_;
  Fd dir_fd_;
  Fd lock_fd_;
  Fd journal_fd_;
  std::optional<ClusterState> state_;
  std::string map_text_;                             // What map.yaml says; empty: not known.
  std::map<slots::PlanId, std::string> plan_texts_;  // Likewise; of the plans in the state.
  std::size_t records_ = 0;
  std::size_t journal_bytes_ = 0;
  std::size_t cut_bytes_ = 0;
  std::string poison_;  // Why nothing is written any more; empty: all is well.
  std::string housekeeping_problem_;
};

}  // namespace proxy::control
