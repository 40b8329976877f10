// Host: the proxy around the mover, as far as moves can tell: clients' commands go to the owner
// over connections that may break, wait under a fence, and go on after it; a journal outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/transfer.h"
#include "slots/slot.h"
#include "tests/sim/checker.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace sim {

// What survives the proxy.
struct JournalRecord {
  enum class Kind : std::uint8_t { Commit, GiveBack, Collected };
  Kind kind = Kind::Commit;
  slots::SlotSet slots;
  std::uint64_t marker = 0;
};

class Host : public Ownership {
 public:
  Host(const std::uint64_t& now_ms, Random& random, std::vector<std::string> keys,
       const slots::SlotSet& targets_own);
  void set_nodes(Node& source, Node& target, Checker& checker);

  // --- what a client or chance does
  void issue();    // A client that has nothing under way sends a command.
  void flush();    // The same; the command is FLUSHALL, of both nodes or at one's endpoint.
  void deliver();  // Replies come back.
  void break_connection();
  void on_node_lost(Node& node);
  void crash();
  void start();  // Reads the journal; the commands of an earlier process have run or never will.

  // --- what the mover asks for
  void begin_fence(const slots::SlotSet& slots);
  // The fence holds: nothing is under way at the source, and no flush anywhere.
  bool is_drained() const;
  void hold_fence() { is_holding_ = true; }
  // Handed over again with every fence, until a commit has proved that they were dealt with.
  std::vector<ConnectionId> hand_over_lost_connections();
  void lift_fence();
  void commit(const slots::SlotSet& slots, std::uint64_t marker, const std::string& run_id);
  // The journal fails, and may hold the commit: nothing of the fence is served until a new start.
  void lose_journal(const slots::SlotSet& slots, std::uint64_t marker, const std::string& run_id,
                    bool is_written);
  bool is_journal_lost() const { return is_journal_lost_; }
  void vouch(const std::string& run_id) { vouched_run_id_ = run_id, release(); }
  bool was_flushed() const { return was_target_flushed_ || has_late_flush_; }
  void give_back(const slots::SlotSet& slots);
  void collected(const slots::SlotSet& slots);
  void stop_doubting();  // A human has taken over.

  Node& owner(slots::SlotId slot) override;
  bool is_fenced(slots::SlotId slot) const override;
  bool is_doubtful(slots::SlotId slot) const override;
  slots::SlotSet moved() const { return moved_; }
  slots::SlotSet kept() const { return kept_; }
  std::vector<proxy::mover::KeptSlots> kept_commits() const;
  std::uint64_t longest_wait_ms() const { return longest_wait_ms_; }

  bool ignores_lost_connections = false;  // A fault of its own, to be found.

 private:
  static constexpr std::size_t kClients = 6;
  struct Sent {
    Node* node = nullptr;
    ConnectionId connection = 0;
    std::uint64_t id = 0;
  };
  struct Client {
    std::optional<Command> command;
    std::vector<Sent> sent;  // None: it waits for a fence to be lifted.
    std::uint64_t waits_since_ms = 0;
    bool waits_for_vouch = false;
  };

  Client* idle_client();
  void begin(Client& client, Command command);
  Command make_command(std::size_t client);
  void route(Client& client);
  void send(Client& client, Node& node, std::size_t worker);
  void release();
  void append(const JournalRecord& record);

  const std::uint64_t& now_ms_;
  Random& random_;
  std::vector<std::string> keys_;
  slots::SlotSet targets_own_;  // From the beginning.
  Node* source_ = nullptr;
  Node* target_ = nullptr;
  Checker* checker_ = nullptr;

  std::vector<JournalRecord> journal_;
  slots::SlotSet moved_;  // The journal, folded.
  slots::SlotSet kept_;
  std::string vouched_run_id_;
  bool was_target_flushed_ = false;  // Asked for since the first of what is kept was committed.

  std::vector<Client> clients_ = std::vector<Client>(kClients);
  std::map<std::pair<Node*, std::size_t>, ConnectionId> connections_;  // Node and worker.
  std::vector<ConnectionId> lost_;                                     // At the source.
  std::size_t handed_over_ = 0;                                        // Of them.
  std::uint64_t next_command_ = 1;

  bool is_running_ = false;
  slots::SlotSet fenced_;
  bool is_fence_up_ = false;
  bool is_holding_ = false;
  bool is_journal_lost_ = false;
  std::optional<std::pair<JournalRecord, std::string>> unread_commit_;  // With the run id.
  bool has_late_flush_ = false;  // A flush of the target whose connection broke.
  std::uint64_t longest_wait_ms_ = 0;
};

}  // namespace sim
