// A Transfer with two nodes in memory, which carries its actions out one by one. A test changes
// what the nodes hold and what they answer in between. A key of another database than 0 is written
// "3>name".
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/mover/transfer.h"
#include "slots/key_slot.h"

namespace proxy::mover::transfer_rig {

inline slots::SlotSet slots_of(const std::vector<std::string>& keys) {
  slots::SlotSet slots;
  for (const std::string& key : keys) slots.add(slots::slot_of_key(key));
  return slots;
}

template <class T>
bool is(const Action& action) {
  return std::holds_alternative<T>(action);
}

struct Value {
  std::string payload;
  std::int64_t expire_at_ms = -1;
  friend bool operator==(const Value&, const Value&) = default;
};
using Node = std::map<std::string, Value>;

inline std::string in(Database database, const std::string& name) {
  return database == 0 ? name : std::to_string(database) + ">" + name;
}
inline Database database_of(const std::string& key) {
  const std::size_t at = key.find('>');
  return at == std::string::npos ? 0 : static_cast<Database>(std::stoul(key.substr(0, at)));
}
inline std::string name_of(const std::string& key) {
  const std::size_t at = key.find('>');
  return at == std::string::npos ? key : key.substr(at + 1);
}
inline Databases databases_of(const Node& node) {
  Databases databases;
  for (const auto& [key, value] : node) databases.insert(database_of(key));
  return databases;
}

inline std::string stream_payload(const std::string& rest) { return '\x0f' + rest; }

// Two nodes, and whoever carries a transfer's actions out: rightly, unless `instead` says
// otherwise.
class Rig {
 public:
  explicit Rig(TransferSpec spec) : spec_(std::move(spec)), transfer_(spec_) {
    event_.outcome = Started{};
  }

  // The next action, carried out; what it was.
  Action step() {
    event_.now_ms = now_ms += step_ms;
    event_.wish = wish;
    Action action = transfer_.step(std::exchange(event_, {}));
    if (!is<Finish>(action)) {
      std::optional<Outcome> other = instead ? instead(action) : std::nullopt;
      if (lost_next_) other = NodeLost{*std::exchange(lost_next_, std::nullopt), "it is gone"};
      event_.outcome =
          other ? std::move(*other) : std::visit([&](auto& a) { return carry_out(a); }, action);
    }
    log.push_back(action);
    return action;
  }
  // Steps until an action of the kind T has been carried out.
  template <class T>
  T until() {
    for (int i = 0; i < 10000; ++i) {
      Action action = step();
      if (T* wanted = std::get_if<T>(&action)) return *wanted;
      REQUIRE_FALSE(is<Finish>(action));
    }
    FAIL("never came");
    return {};
  }
  Finish until_end() { return until<Finish>(); }
  template <class T>
  std::size_t count() const {
    std::size_t found = 0;
    for (const Action& action : log) found += is<T>(action) ? 1 : 0;
    return found;
  }

  // As a client would: the feed says so.
  void client_writes(const std::string& key, const std::string& payload) {
    source[key] = {payload, -1};
    event_.source.keys.push_back(name_of(key));
  }
  void client_deletes(const std::string& key) {
    source.erase(key);
    event_.source.keys.push_back(name_of(key));
  }
  void target_says(const std::string& key) { event_.target.keys.push_back(key); }
  void source_flushed() {
    source.clear();
    event_.source.all = true;
  }
  void target_flushed() {
    target.clear();
    event_.target.all = true;
  }
  void lose_next(Side side) { lost_next_ = side; }
  [[nodiscard]] const Progress& progress() const { return transfer_.progress(); }

  Node source;
  Node target;
  std::uint64_t now_ms = 1000;
  std::uint64_t step_ms = 0;
  Wish wish = Wish::Run;
  std::string source_run_id = "s1";
  std::string target_run_id = "t1";
  std::uint64_t marker = 0;
  bool may_evict_marker = false;
  bool is_durable = true;
  slots::SlotSet fenced;
  slots::SlotSet committed;
  std::size_t large_payload = 1000;  // As long a payload goes in pieces, one per character.
  std::map<std::string, std::string> unsplittable = {};  // And why.
  bool is_target_older = false;
  std::function<std::optional<Outcome>(const Action&)> instead;
  std::vector<Action> log;

 private:
  Outcome carry_out(const Connect&) {
    return Connected{source_run_id,
                     target_run_id,
                     marker,
                     may_evict_marker,
                     {databases_of(source), databases_of(target)}};
  }
  Outcome carry_out(const Scan& scan) {
    Scanned scanned;
    for (const auto& [key, value] : scan.side == Side::Source ? source : target) {
      if (database_of(key) == scan.database) scanned.keys.push_back(name_of(key));
    }
    return scanned;
  }
  Outcome carry_out(const Read& read) {
    ReadDone done;
    for (const std::string& key : read.keys) {
      auto found = source.find(in(read.database, key));
      if (found == source.end()) {
        done.values.push_back({.name = key, .payload = {}});
      } else if (found->second.payload.size() >= large_payload && !read.is_whole) {
        done.values.push_back(
            {.name = key, .payload = {}, .large_bytes = found->second.payload.size() << 20});
      } else {
        done.values.push_back({key, true, found->second.payload, found->second.expire_at_ms});
      }
    }
    return done;
  }
  Outcome carry_out(const Write& write) {
    WriteDone refused;
    for (std::uint32_t i = 0; is_target_older && i < write.values.size(); ++i) {
      refused.failures.push_back({i, WriteFate::TooNew, "ERR version"});
    }
    if (is_target_older) return refused;
    for (const KeyValue& value : write.values) {
      if (value.exists) {
        target[in(write.database, value.name)] = {value.payload, value.expire_at_ms};
      } else {
        target.erase(in(write.database, value.name));
      }
    }
    return WriteDone{};
  }
  Outcome carry_out(const Remove& remove) {
    for (const std::string& key : remove.keys) {
      (remove.side == Side::Source ? source : target).erase(in(remove.database, key));
    }
    return Removed{};
  }
  Outcome carry_out(const ReadPiece& read) {
    auto found = source.find(in(read.database, read.key));
    PieceRead piece{.next = read.from};
    if (found == source.end()) return PieceRead{.fate = PieceRead::Fate::Gone};
    const std::string& payload = found->second.payload;
    piece.next.type = payload[0] == '\x0f' ? "stream" : "hash";
    piece.key_bytes = payload.size() << 20;
    piece.read_at_ms = 77;
    if (auto why = unsplittable.find(read.key); why != unsplittable.end()) {
      piece.fate = PieceRead::Fate::Whole;
      piece.text = why->second;
      return piece;
    }
    if (payload.size() < large_payload && !read.is_any_size) {
      return PieceRead{.fate = PieceRead::Fate::Small};
    }
    const std::size_t at = read.from.cursor.empty() ? 0 : std::stoull(read.from.cursor);
    if (at < payload.size()) piece.commands = {{payload.substr(at, 1)}};
    piece.bytes = 1;
    piece.next.cursor = std::to_string(at + 1);
    piece.is_last = at + 1 >= payload.size();
    return piece;
  }
  Outcome carry_out(const WritePiece& write) {
    std::string& hidden = target[in(write.database, piece_key(7, "a"))].payload;
    if (write.is_first) hidden.clear();
    for (const Words& words : write.commands) hidden += words[0];
    return PieceWritten{};
  }
  Outcome carry_out(const Publish& publish) {
    auto found = source.find(in(publish.database, publish.key));
    const auto hidden = target.find(in(publish.database, piece_key(7, "a")));
    if (found == source.end() || hidden == target.end() ||
        hidden->second.payload.size() != found->second.payload.size()) {
      return Published{WriteFate::Incomplete, "it is not whole"};
    }
    target[in(publish.database, publish.key)] = {hidden->second.payload,
                                                 found->second.expire_at_ms};
    target.erase(hidden);
    return Published{};
  }
  Outcome carry_out(const RenewGroups&) { return GroupsRenewed{.read_at_ms = 99}; }
  Outcome carry_out(const CatchFeeds&) {
    return Caught{{databases_of(source), databases_of(target)}};
  }
  Outcome carry_out(const Fence& fence) {
    fenced = fence.slots;
    return Fenced{};
  }
  Outcome carry_out(const LiftFence&) {
    fenced = {};
    return Lifted{};
  }
  Outcome carry_out(const PutMarker& put) {
    marker = put.number;
    return MarkerPut{};
  }
  Outcome carry_out(const Commit& commit) {
    CHECK(commit.slots == fenced);
    CHECK(commit.marker == marker);
    committed.add(commit.slots);
    fenced = {};
    return Committed{2};
  }
  Outcome carry_out(const AskDurability&) { return Durability{is_durable, "the next save"}; }
  Outcome carry_out(const Vouch&) { return Noted{}; }
  Outcome carry_out(const GiveBack&) { return GaveBack{3}; }
  Outcome carry_out(const Collected&) { return Noted{}; }
  Outcome carry_out(const Wait& wait) {
    now_ms += wait.ms;
    return Waited{};
  }
  Outcome carry_out(const Finish&) { return Started{}; }

  TransferSpec spec_;
  Transfer transfer_;
  Event event_;
  std::optional<Side> lost_next_;
};

inline TransferSpec spec_for(const std::vector<std::string>& keys) {
  TransferSpec spec;
  spec.plan = 7;
  spec.source = "a";
  spec.target = "b";
  spec.slots = slots_of(keys);
  return spec;
}

}  // namespace proxy::mover::transfer_rig
