#include "proxy/control/state_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace proxy::control {
namespace {

using slots::Errc;
using slots::Error;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr std::string_view kLock = "lock";
constexpr std::string_view kJournal = "journal";
constexpr std::string_view kMapFile = "map.yaml";
constexpr std::string_view kPlansDir = "plans";
constexpr std::size_t kReadBytesMax = 1ULL << 30;

std::string in_words(int error) {
  if (error == ENOSPC || error == EDQUOT) return "the disk is full";
  return std::generic_category().message(error);
}

Result<std::string> read_bytes(int fd) {
  std::string bytes;
  std::array<char, 65536> block;
  while (true) {
    const ssize_t got = ::pread(fd, block.data(), block.size(), static_cast<off_t>(bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Errc::Unavailable, in_words(errno));
    if (got == 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(got));
    if (bytes.size() > kReadBytesMax) return fail(Errc::LimitExceeded, "it is larger than 1 GiB");
  }
}

// "" when it can't be read.
std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

DiskCalls DiskCalls::real() { return {&::write, &::fsync}; }

StateStore::Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<StateStore>> StateStore::open(const std::string& dir, DiskCalls calls) {
  std::string folder = dir;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::unique_ptr<StateStore> store(new StateStore(std::move(folder), std::move(calls)));
  for (const auto step : {&StateStore::make_dir, &StateStore::take_lock, &StateStore::read_all}) {
    if (Status status = (store.get()->*step)(); !status)
      return std::unexpected(std::move(status).error());
  }
  store->keep_house();
  return store;
}

Status StateStore::make_dir() {
  std::error_code ignored;  // Whatever is in the way shows in mkdir().
  std::filesystem::create_directories(std::filesystem::path(dir_).parent_path(), ignored);
  const bool is_there = ::mkdir(dir_.c_str(), 0700) == 0 || errno == EEXIST;
  const int mkdir_error = errno;
  dir_fd_ = Fd(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir_fd_.is_open() && ::faccessat(AT_FDCWD, dir_.c_str(), W_OK | X_OK, AT_EACCESS) == 0)
    return {};
  const int error = is_there ? errno : mkdir_error;
  return fail(Errc::Unavailable, fmt::format("state_dir {} can't be {}: {}. Give slotproxy a "
                                             "folder that user {} can write to: set state_dir, "
                                             "or run  sudo install -d -m 0700 -o {} {}",
                                             dir_, is_there ? "written to" : "made",
                                             in_words(error), ::geteuid(), ::geteuid(), dir_));
}

Status StateStore::take_lock() {
  lock_fd_ = Fd(::open(path(kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_fd_.is_open()) {
    return fail(Errc::Unavailable,
                fmt::format("{} can't be opened: {}", path(kLock), in_words(errno)));
  }
  if (::flock(lock_fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return fail(Errc::Unavailable,
                  fmt::format("{} can't be locked: {}", path(kLock), in_words(errno)));
    }
    std::string pid = read_bytes(lock_fd_.get()).value_or("");
    pid.resize(std::min(pid.find_first_not_of("0123456789"), pid.size()));
    return fail(
        Errc::Conflict,
        fmt::format(
            "state_dir {} is in use by another slotproxy{}; one folder serves one proxy at a time",
            dir_, pid.empty() ? "" : " (process " + pid + ")"));
  }
  // The id is for messages only: a disk that can't take it shows at the first commit().
  const std::string pid = fmt::format("{}\n", ::getpid());
  const bool is_noted =
      ::ftruncate(lock_fd_.get(), 0) == 0 && ::write(lock_fd_.get(), pid.data(), pid.size()) > 0;
  static_cast<void>(is_noted);
  return {};
}

Status StateStore::read_all() {
  journal_fd_ = Fd(::open(path(kJournal).c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!journal_fd_.is_open()) {
    return fail(Errc::Unavailable,
                fmt::format("{} can't be opened: {}", path(kJournal), in_words(errno)));
  }
  const auto bytes = read_bytes(journal_fd_.get());
  if (!bytes) return std::unexpected(Error(bytes.error()).in(path(kJournal)));
  auto contents = read_journal(*bytes);
  if (!contents) {
    return fail(
        Errc::Corrupt,
        fmt::format(
            "{}: {}. The map in force is not known; nothing was started. Restore the folder "
            "from a copy",
            path(kJournal), contents.error().message));
  }
  if (!contents->state && ::access(path(kMapFile).c_str(), F_OK) == 0) {
    return fail(Errc::Corrupt, fmt::format("{} is there but the journal beside it is empty or "
                                           "gone: the map in force is not known. Restore "
                                           "the journal from a copy; or, to begin anew with the "
                                           "slots of the configuration, remove {} too",
                                           path(kMapFile), path(kMapFile)));
  }
  state_ = std::move(contents->state);
  records_ = contents->records;
  if (Status status = cut_journal(contents->whole_bytes, bytes->size()); !status) return status;
  // A new journal must still be in its folder after a crash.
  if (Status status = sync(dir_fd_.get()); !status)
    return std::unexpected(std::move(status).error().in(dir_));
  return {};
}

Status StateStore::cut_journal(std::size_t whole_bytes, std::size_t all_bytes) {
  journal_bytes_ = whole_bytes;
  cut_bytes_ = all_bytes - whole_bytes;
  if (cut_bytes_ == 0) return {};
  if (::ftruncate(journal_fd_.get(), static_cast<off_t>(whole_bytes)) != 0) {
    return fail(Errc::Unavailable,
                fmt::format("{} can't be written to: {}", path(kJournal), in_words(errno)));
  }
  if (Status status = sync(journal_fd_.get()); !status) {
    return std::unexpected(std::move(status).error().in(path(kJournal)));
  }
  return {};
}

Status StateStore::commit(const ClusterState& state, People people) {
  if (!poison_.empty()) {
    return fail(
        Errc::Io,
        fmt::format(
            "nothing is written to state_dir {} any more, since {}; see to the disk, then restart "
            "the proxy",
            dir_, poison_));
  }
  if (state_ && state_->cluster != state.cluster) {
    return fail(Errc::Conflict, fmt::format("state_dir {} belongs to cluster \"{}\", not to \"{}\"",
                                            dir_, state_->cluster, state.cluster));
  }
  if (state_ && state.map.epoch() < state_->map.epoch()) {
    return fail(Errc::Conflict, fmt::format("epoch {} is older than epoch {}, which is in force",
                                            state.map.epoch(), state_->map.epoch()));
  }
  const std::string record = encode_record(state);
  if (Status status = write_all(journal_fd_.get(), record); !status)
    return poison(std::move(status).error());
  if (Status status = sync(journal_fd_.get()); !status) return poison(std::move(status).error());
  state_ = state;
  ++records_;
  journal_bytes_ += record.size();
  if (people == People::WriteNow) keep_house();
  return {};
}

Status StateStore::poison(Error error) {
  poison_ = fmt::format("writing {} failed: {}", path(kJournal), error.message);
  return fail(Errc::Io,
              fmt::format("{}. Nothing was changed in this proxy; see to the disk, then restart it",
                          poison_));
}

// None of this changes what is: a failure is no failure of the commit.
void StateStore::keep_house() {
  housekeeping_problem_.clear();
  if (!state_) return;
  Status status = write_map_file();
  if (status) status = write_plan_files();
  if (status && (records_ > kJournalRecordsMax || journal_bytes_ > kJournalBytesMax) &&
      records_ > 1) {
    status = compact_journal();
  }
  if (!status) housekeeping_problem_ = status.error().message;
}

Status StateStore::write_map_file() {
  std::string text = state_yaml(*state_);
  if (text == map_text_) return {};
  if (Status status = replace_file(kMapFile, text); !status) return status;
  map_text_ = std::move(text);
  return {};
}

// A file stays when the state has forgotten its plan.
Status StateStore::write_plan_files() {
  std::erase_if(plan_texts_,
                [&](const auto& known) { return !state_->plans.contains(known.first); });
  for (const auto& [id, plan] : state_->plans) {
    std::string text = plan_yaml(plan);
    std::string& written = plan_texts_[id];
    const std::string name = fmt::format("{}/{:04}.yaml", kPlansDir, id);
    if (written.empty()) written = text_of_file(path(name));
    if (text == written) continue;
    ::mkdir(path(kPlansDir).c_str(), 0700);  // What is in the way shows in the file.
    if (Status status = replace_file(name, text); !status) return status;
    written = std::move(text);
  }
  return {};
}

Status StateStore::compact_journal() {
  const std::string record = encode_record(*state_);
  bool is_replaced = false;
  auto file = replace_file(kJournal, record, is_replaced);
  if (!file) {
    // The new name may not survive a crash: the old journal would come back, without what is
    // appended from now on.
    if (is_replaced) poison_ = file.error().message;
    return std::unexpected(std::move(file).error());
  }
  journal_fd_ = *std::move(file);
  records_ = 1;
  journal_bytes_ = record.size();
  return {};
}

Result<StateStore::Fd> StateStore::replace_file(std::string_view name, std::string_view bytes,
                                                bool& is_replaced) {
  const std::string final_path = path(name);
  const std::string new_path = final_path + ".new";
  Fd file(::open(new_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  const auto failed = [&](const std::string& why) {
    if (!is_replaced) ::unlink(new_path.c_str());
    return fail(Errc::Io, fmt::format("{} can't be rewritten: {}", final_path, why));
  };
  if (!file.is_open()) return failed(in_words(errno));
  if (const Status status = write_all(file.get(), bytes); !status)
    return failed(status.error().message);
  if (const Status status = sync(file.get()); !status) return failed(status.error().message);
  if (::rename(new_path.c_str(), final_path.c_str()) != 0) return failed(in_words(errno));
  is_replaced = true;
  if (const Status status = sync(dir_fd_.get()); !status) return failed(status.error().message);
  return file;
}

Status StateStore::replace_file(std::string_view name, std::string_view bytes) {
  bool is_replaced = false;
  auto file = replace_file(name, bytes, is_replaced);
  return file ? Status{} : std::unexpected(std::move(file).error());
}

Status StateStore::write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = calls_.write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return fail(Errc::Io, written < 0 ? in_words(errno) : "the disk takes no more bytes");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status StateStore::sync(int fd) {
  if (calls_.sync(fd) != 0) return fail(Errc::Io, in_words(errno));
  return {};
}

}  // namespace proxy::control
