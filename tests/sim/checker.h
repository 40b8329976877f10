// Checker: what must be true of two nodes while slots move between them, told apart from the code
// that moves them.
//
// It keeps a shadow: the data as one server would have it that ran all clients' commands in the
// order in which the owners ran them. The owner of a slot must have what the shadow has, and must
// answer as the shadow does. Only what a server loses by itself (eviction, expiry, a crash that
// takes the last writes) leaves the shadow too.
//
// The invariants are those of a move:
//   I1 one owner; nobody else runs a client's command.
//   I2 no acknowledged write is lost.
//   I3 nothing deleted or expired comes back, no expiry changes.
//   I4 at the commit the target has what the source has; only the mover had written it there, and
//      only the collector touches the source's copies afterwards, once the target keeps its own.
//   I5 an abort leaves the source as it was and nothing on the target.
//   I6 after a crash the journal alone says who owns.
//   I7 whatever the feed missed is copied anew.
//   I9 clients wait shortly, and see no error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "slots/slot.h"
#include "tests/sim/node.h"

namespace sim {

struct Violation {
  std::string text;
};

// Who owns what, by the journal.
class Ownership {
 public:
  virtual ~Ownership() = default;
  virtual Node& owner(slots::SlotId slot) = 0;
  virtual bool is_fenced(slots::SlotId slot) const = 0;
  // Its target came back with another run id, and nobody has said yet whether it still has it.
  virtual bool is_doubtful(slots::SlotId slot) const = 0;
};

class Checker : public NodeObserver {
 public:
  Checker(const std::uint64_t& now_ms, Ownership& ownership)
      : now_ms_(now_ms), ownership_(ownership) {}
  void set_nodes(Node& source, Node& target) { source_ = &source, target_ = &target; }

  void load(const std::string& key, const Entry& entry) { shadow_[key] = entry; }
  void on_client_command(Node& node, const Command& command, const std::string& reply) override;
  void on_mover_command(Node& node, const Command& command) override;
  void on_evicted(Node& node, const std::string& key) override;
  void on_restarted(Node& node, std::size_t cut);
  void on_lifted();
  void on_committed(const slots::SlotSet& group, bool is_target_restarted);
  void on_given_back(const slots::SlotSet& slots);
  void on_collected(const slots::SlotSet& slots);

  void check_owners(const slots::SlotSet& slots);
  // Of a slot whose target may have lost it: one of the two must have all.
  void check_either(slots::SlotId slot);
  void check_no_copies(const slots::SlotSet& slots);

 private:
  struct Record {
    const Node* node = nullptr;
    std::size_t history_size = 0;  // Of the node, afterwards.
    std::string key;
    std::optional<Entry> before;
  };
  // Committed, the source's copies not collected.
  struct Kept {
    slots::SlotSet slots;
    std::size_t needs_history = 0;  // Of the target: as much holds all copies.
    bool is_lost = false;
    bool is_flushed = false;
    std::set<proxy::mover::Database> flushed_databases;  // Alone.
  };
  struct Collected {
    slots::SlotSet slots;
    std::size_t needs_history = 0;  // Of the source: as much holds nothing of them.
  };

  void forget(const slots::SlotSet& slots);  // They are kept no longer.
  void change(const Node& node, const std::string& key, std::optional<Entry> entry);
  void change(const Node& node, std::size_t history_size, const std::string& key,
              std::optional<Entry> entry);
  // The node's own losses: what it has of these keys is right.
  void adopt(const Node& node, const std::function<bool(const std::string& key)>& which);
  // Where the node has something else than the shadow; "" if nowhere.
  std::string difference(const Node& node, const slots::SlotSet& slots,
                         const std::set<std::string>& but_for = {}) const;

  const std::uint64_t& now_ms_;
  Ownership& ownership_;
  Node* source_ = nullptr;
  Node* target_ = nullptr;
  Dict shadow_;
  std::vector<Record> records_;
  std::vector<Kept> kept_;
  std::vector<Collected> collected_;
  // Evicted by the source under the fence: nobody saw it, so either way is right.
  std::map<std::string, std::size_t> evicted_in_fence_;  // And the history with it.
  // Lost by the target since the feeds were caught: as if it had been right after the commit.
  std::set<std::string> gone_from_target_;
  bool is_target_flushed_ = false;
  // The source has lost some of what it keeps, by itself.
  slots::SlotSet damaged_;
  // The source came back from before it was collected: nobody sees what it has again.
  slots::SlotSet uncollected_;
  std::set<std::string> evicted_from_kept_;
  slots::SlotSet damaged_earlier_;  // And given back so: another restart may bring some back.
};

}  // namespace sim
