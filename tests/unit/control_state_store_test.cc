#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proxy/control/state_store.h"

namespace {

namespace fs = std::filesystem;
using proxy::control::ClusterState;
using proxy::control::DiskCalls;
using proxy::control::StateStore;
using slots::Errc;

struct TempDir {
  TempDir() {
    std::string pattern = (fs::temp_directory_path() / "slotproxy-state-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { fs::remove_all(path); }
  fs::path path;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Two nodes that share the slots at `border`.
ClusterState state_at(slots::Epoch epoch, slots::SlotId border = 8192) {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = border; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
  return {"shop",
          slots::SlotMap::create({{"inv-bcn", 2}, {"inv-vlc", 0.5}}, owners, epoch).value(),
          {{"inv-bcn", "shop/inv-bcn/1"}, {"inv-vlc", "shop/inv-vlc/2"}}};
}

bool same(const ClusterState& a, const ClusterState& b) {
  return a.cluster == b.cluster && a.map.epoch() == b.map.epoch() &&
         a.map.nodes() == b.map.nodes() && a.map.owners() == b.map.owners() &&
         a.identities == b.identities;
}

std::unique_ptr<StateStore> opened(const fs::path& dir, DiskCalls calls = DiskCalls::real()) {
  auto store = StateStore::open(dir.string(), std::move(calls));
  REQUIRE_MESSAGE(store.has_value(), store.error().message);
  return *std::move(store);
}

slots::Error error_of(const fs::path& dir) {
  auto store = StateStore::open(dir.string());
  REQUIRE_FALSE(store.has_value());
  return store.error();
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

// As fast as memory: for tests about something else than the disk.
DiskCalls unsynced() {
  return {&::write, [](int) { return 0; }};
}

}  // namespace

TEST_CASE("a state that was committed is there after a restart") {
  const TempDir dir;
  const fs::path folder = dir.path / "made" / "here";
  {
    const auto store = opened(folder);
    CHECK_FALSE(store->state().has_value());
    REQUIRE(store->commit(state_at(1)).has_value());
    REQUIRE(store->commit(state_at(2, 100)).has_value());
    CHECK(same(store->state().value(), state_at(2, 100)));
  }
  CHECK((fs::status(folder).permissions() & fs::perms::all) == fs::perms::owner_all);
  const auto store = opened(folder.string() + "/");
  REQUIRE(store->state().has_value());
  CHECK(same(*store->state(), state_at(2, 100)));
  CHECK(store->cut_bytes() == 0);
  CHECK(store->housekeeping_problem().empty());
}

TEST_CASE("map.yaml says what is") {
  const TempDir dir;
  const auto store = opened(dir.path);
  CHECK_FALSE(fs::exists(dir.path / "map.yaml"));
  REQUIRE(store->commit(state_at(7)).has_value());
  const std::string text = read(dir.path / "map.yaml");
  contains(
      text,
      "cluster: shop\nepoch: 7\nnodes:\n"
      "  - name: inv-bcn\n    weight: 2\n    slots: 0-8191\n    identity: shop/inv-bcn/1\n"
      "  - name: inv-vlc\n    weight: 0.5\n    slots: 8192-16383\n    identity: shop/inv-vlc/2\n");
  CHECK_FALSE(fs::exists(dir.path / "map.yaml.new"));
}

TEST_CASE("map.yaml follows the journal, not the other way round") {
  const TempDir dir;
  REQUIRE(opened(dir.path)->commit(state_at(7)).has_value());
  const std::string text = read(dir.path / "map.yaml");
  write(dir.path / "map.yaml", "epoch: 99\n");
  CHECK(opened(dir.path)->state()->map.epoch() == 7);
  CHECK(read(dir.path / "map.yaml") == text);
}

TEST_CASE("a plan has a file for people, which stays when the plan is forgotten") {
  const TempDir dir;
  const auto store = opened(dir.path);
  ClusterState state = state_at(7);
  proxy::control::PlanRecord plan;
  plan.plan.content.id = 12;
  plan.plan.content.purpose = "add inv-tar";
  plan.plan.content.moves = {{{0, 99}, "inv-bcn", "inv-tar"}};
  state.plans[12] = plan;
  state.next_plan = 13;
  REQUIRE(store->commit(state).has_value());
  const fs::path file = dir.path / "plans" / "0012.yaml";
  contains(read(file), "plan: 12\nstate: proposed\npurpose: \"add inv-tar\"\n");
  contains(read(file), "moves:\n  - {slots: 0-99, from: inv-bcn, to: inv-tar}\n");
  state.plans.clear();
  REQUIRE(store->commit(state).has_value());
  CHECK(fs::exists(file));
}

TEST_CASE("what is for people can be written later, when nobody waits") {
  const TempDir dir;
  const auto store = opened(dir.path);
  REQUIRE(store->commit(state_at(1)).has_value());
  REQUIRE(store->commit(state_at(2), StateStore::People::WriteLater).has_value());
  contains(read(dir.path / "map.yaml"), "epoch: 1\n");
  store->keep_house();
  contains(read(dir.path / "map.yaml"), "epoch: 2\n");
}

TEST_CASE("a folder serves one proxy at a time") {
  const TempDir dir;
  auto first = opened(dir.path);
  const slots::Error error = error_of(dir.path);
  CHECK(error.code == Errc::Conflict);
  contains(error.message,
           "is in use by another slotproxy (process " + std::to_string(::getpid()) + ")");
  first.reset();
  opened(dir.path);
}

TEST_CASE("a folder that can't be used is refused with what to do") {
  const TempDir dir;
  write(dir.path / "file", "");
  const slots::Error in_a_file = error_of(dir.path / "file" / "state");
  CHECK(in_a_file.code == Errc::Unavailable);
  contains(in_a_file.message, "can't be made: Not a directory. Give slotproxy a folder");
  contains(error_of(dir.path / "file").message, "can't be written to: Not a directory");
  if (::geteuid() != 0) {
    fs::permissions(dir.path, fs::perms::owner_read | fs::perms::owner_exec);
    contains(error_of(dir.path).message, "can't be written to: Permission denied");
    contains(error_of(dir.path / "state").message, "can't be made: Permission denied");
    fs::permissions(dir.path, fs::perms::owner_all);
  }
}

TEST_CASE("a last record that was not finished is cut off, wherever it ends") {
  const std::string first = proxy::control::encode_record(state_at(1));
  const std::string both = first + proxy::control::encode_record(state_at(2));
  for (std::size_t bytes = 0; bytes < both.size(); ++bytes) {
    CAPTURE(bytes);
    const bool has_first = bytes >= first.size();
    // Cut there, and with zeros for what had not reached the disk, up to the end of the record or
    // of a block.
    for (const std::size_t size : {bytes, both.size(), std::size_t{4096}}) {
      const std::string end = has_first ? both.substr(0, bytes) : first.substr(0, bytes);
      std::string journal = end;
      journal.resize(std::max(size, bytes), '\0');
      if (!has_first && size == both.size()) journal.resize(first.size(), '\0');
      const auto contents = proxy::control::read_journal(journal);
      REQUIRE_MESSAGE(contents.has_value(), contents.error().message);
      REQUIRE(contents->records == (has_first ? 1 : 0));
      REQUIRE(contents->whole_bytes == (has_first ? first.size() : 0));
    }
  }
}

TEST_CASE("after a torn record the store goes on from the one before") {
  const TempDir dir;
  REQUIRE(opened(dir.path)->commit(state_at(1)).has_value());
  const std::string whole = read(dir.path / "journal");
  write(dir.path / "journal", whole + whole.substr(0, 30));
  {
    const auto store = opened(dir.path);
    CHECK(store->cut_bytes() == 30);
    CHECK(same(store->state().value(), state_at(1)));
    REQUIRE(store->commit(state_at(2)).has_value());
  }
  const auto store = opened(dir.path);
  CHECK(store->cut_bytes() == 0);
  CHECK(store->state()->map.epoch() == 2);
}

TEST_CASE("one flipped bit stops the start, wherever it is") {
  const std::string journal =
      proxy::control::encode_record(state_at(1)) + proxy::control::encode_record(state_at(2));
  for (std::size_t at = 0; at < journal.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = journal;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1U << bit));
      CAPTURE(at);
      CAPTURE(bit);
      const auto contents = proxy::control::read_journal(damaged);
      REQUIRE_FALSE(contents.has_value());
      REQUIRE(contents.error().code == Errc::Corrupt);
    }
  }
}

TEST_CASE("a damaged journal stops the start with its place, and stays as it is") {
  const TempDir dir;
  REQUIRE(opened(dir.path)->commit(state_at(1)).has_value());
  REQUIRE(opened(dir.path)->commit(state_at(2)).has_value());
  std::string journal = read(dir.path / "journal");
  journal[40] = static_cast<char>(journal[40] ^ 1);
  write(dir.path / "journal", journal);
  const slots::Error error = error_of(dir.path);
  CHECK(error.code == Errc::Corrupt);
  contains(error.message, "journal: record 1 at byte 0 is damaged: its checksum is wrong");
  CHECK(read(dir.path / "journal") == journal);
}

TEST_CASE("a journal that is gone while map.yaml is there stops the start") {
  const TempDir dir;
  REQUIRE(opened(dir.path)->commit(state_at(1)).has_value());
  fs::remove(dir.path / "journal");
  const slots::Error error = error_of(dir.path);
  CHECK(error.code == Errc::Corrupt);
  contains(error.message, "the journal beside it is empty or gone");
  fs::remove(dir.path / "map.yaml");
  CHECK_FALSE(opened(dir.path)->state().has_value());
}

TEST_CASE("an older epoch or another cluster is not committed") {
  const TempDir dir;
  const auto store = opened(dir.path);
  REQUIRE(store->commit(state_at(5)).has_value());
  const auto older = store->commit(state_at(4));
  REQUIRE_FALSE(older.has_value());
  CHECK(older.error().code == Errc::Conflict);
  ClusterState other = state_at(6);
  other.cluster = "bank";
  const auto elsewhere = store->commit(other);
  REQUIRE_FALSE(elsewhere.has_value());
  contains(elsewhere.error().message, "belongs to cluster \"shop\", not to \"bank\"");
  SUBCASE("which does not hinder the next one") {
    CHECK(store->commit(state_at(5, 100)).has_value());
  }
}

TEST_CASE("after a disk error nothing is written until the store is opened anew") {
  const TempDir dir;
  bool is_full = false;
  bool sync_fails = false;
  const DiskCalls calls{[&](int fd, const void* bytes, std::size_t count) -> ssize_t {
                          if (!is_full) return ::write(fd, bytes, count);
                          if (count > 50) return ::write(fd, bytes, 50);
                          errno = ENOSPC;
                          return -1;
                        },
                        [&](int fd) {
                          errno = EIO;
                          return sync_fails ? -1 : ::fsync(fd);
                        }};
  auto store = opened(dir.path, calls);
  REQUIRE(store->commit(state_at(1)).has_value());
  const std::string journal = read(dir.path / "journal");
  std::string expected;
  SUBCASE("a full disk") {
    is_full = true;
    expected = "the disk is full";
  }
  SUBCASE("a sync that fails") {
    sync_fails = true;
    expected = "Input/output error";
  }
  const auto failed = store->commit(state_at(2));
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == Errc::Io);
  contains(failed.error().message, "journal failed: " + expected);
  CHECK(store->state()->map.epoch() == 1);

  is_full = sync_fails = false;
  const std::string after = read(dir.path / "journal");
  const auto again = store->commit(state_at(2));
  REQUIRE_FALSE(again.has_value());
  contains(again.error().message, expected);
  contains(again.error().message, "restart the proxy");
  CHECK(read(dir.path / "journal") == after);

  store.reset();
  store = opened(dir.path);
  CHECK(store->state()->map.epoch() == (expected == "the disk is full" ? 1 : 2));
  CHECK(store->commit(state_at(3)).has_value());
}

TEST_CASE("a map.yaml that can't be written does not fail the commit") {
  const TempDir dir;
  const auto store = opened(dir.path);
  fs::create_directories(dir.path / "map.yaml.new" / "in the way");
  CHECK(store->commit(state_at(1)).has_value());
  contains(store->housekeeping_problem(), "map.yaml can't be rewritten: Is a directory");
  fs::remove_all(dir.path / "map.yaml.new");
  CHECK(store->commit(state_at(2)).has_value());
  CHECK(store->housekeeping_problem().empty());
  contains(read(dir.path / "map.yaml"), "epoch: 2\n");
}

TEST_CASE("a long journal is rewritten, and a crash at any moment of it loses nothing") {
  const TempDir dir;
  const fs::path live = dir.path / "live";
  const std::size_t record_bytes = proxy::control::encode_record(state_at(1)).size();
  {
    const auto store = opened(live, unsynced());
    for (std::size_t i = 1; i <= proxy::control::kJournalRecordsMax; ++i) {
      REQUIRE(store->commit(state_at(i)).has_value());
    }
    CHECK(fs::file_size(live / "journal") == record_bytes * proxy::control::kJournalRecordsMax);
  }
  std::vector<fs::path> crashes;
  const auto copy_as_it_is = [&] {
    crashes.push_back(dir.path / std::to_string(crashes.size()));
    fs::copy(live, crashes.back());
  };
  const DiskCalls calls{[&](int fd, const void* bytes, std::size_t count) {
                          copy_as_it_is();
                          return ::write(fd, bytes, std::min<std::size_t>(count, 100));
                        },
                        [&](int) {
                          copy_as_it_is();
                          return 0;
                        }};
  const slots::Epoch last = proxy::control::kJournalRecordsMax;
  {
    const auto store = opened(live, calls);
    REQUIRE(store->commit(state_at(last + 1)).has_value());
    CHECK(store->housekeeping_problem().empty());
    CHECK(fs::file_size(live / "journal") == record_bytes);
    REQUIRE(store->commit(state_at(last + 2)).has_value());
    CHECK(fs::file_size(live / "journal") == record_bytes * 2);
  }
  CHECK(crashes.size() > 10);
  slots::Epoch reached = last;
  for (const fs::path& crash : crashes) {
    CAPTURE(crash);
    const slots::Epoch epoch = opened(crash, unsynced())->state()->map.epoch();
    CHECK(epoch >= reached);
    reached = epoch;
  }
  CHECK(reached == last + 2);
  CHECK(opened(live)->state()->map.epoch() == last + 2);
}

TEST_CASE("when the rewritten journal may not survive a crash, nothing is appended to it") {
  const TempDir dir;
  {
    const auto store = opened(dir.path, unsynced());
    for (std::size_t i = 1; i <= proxy::control::kJournalRecordsMax; ++i) {
      REQUIRE(store->commit(state_at(i)).has_value());
    }
  }
  int syncs = -1;  // Until the commit: not counted.
  const DiskCalls calls{&::write, [&](int) {
                          // Journal, map.yaml and its folder, the new journal; then the folder
                          // again.
                          if (syncs < 0 || ++syncs != 5) return 0;
                          errno = EIO;
                          return -1;
                        }};
  auto store = opened(dir.path, calls);
  syncs = 0;
  CHECK(store->commit(state_at(2000)).has_value());
  contains(store->housekeeping_problem(), "journal can't be rewritten: Input/output error");
  CHECK_FALSE(store->commit(state_at(2001)).has_value());
  store.reset();
  CHECK(opened(dir.path)->state()->map.epoch() == 2000);
}
