// MoveHost: what the mover needs of the proxy around it: the fence, the commit, the journal, what
// the operator wants.
//
// Thread:  every call is made by a mover's thread and may block it; implementations hand over to
//          the control thread and wait for its answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/transfer.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace proxy::mover {

// How a mover reaches a node.
struct NodeAccess {
  std::string name;
  conf::Address address;
  std::string username;
  std::string password;
  std::string identity;  // What the node's identity key must say.
};

struct FenceGrant {
  // Since when commands are held back. Before that the fences of others may have had to end.
  std::chrono::steady_clock::time_point begun = {};
  // Connections to the source that were lost with unanswered requests on them: what they carried
  // may still run. The mover ends each at the server (CLIENT KILL ID) and reads the answer before
  // it believes the fence.
  std::vector<std::uint64_t> lost_client_ids = {};
};

class MoveHost {
 public:
  virtual ~MoveHost() = default;

  // Returns when every worker holds new commands for these slots back, and flushes of any node, and
  // has the answer to all that it had sent to `source` and to all flushes. Errors: Timeout (not all
  // within `limit`): nothing is fenced then; Unavailable when the proxy ends.
  [[nodiscard]] virtual slots::Result<FenceGrant> fence(const slots::SlotSet& slots,
                                                        const std::string& source,
                                                        conf::Milliseconds limit) = 0;
  virtual void lift_fence() = 0;
  // The slots of the fence belong to `target` once this returns: journalled together with `marker`,
  // published to every worker, held commands released to it. Errors: Conflict when the source does
  // not own them all; Io when the journal failed (the commit may or may not be in it: nothing goes
  // on before a restart has read it; the fence stays until then). Else the fence is lifted.
  // Until the slots are collected workers send their commands only to a target whose server has
  // `target_run_id`. Another one (and, after the proxy's own start, any) may have lost them, and
  // gets nothing before vouch().
  [[nodiscard]] virtual slots::Result<slots::Epoch> commit(
      std::uint64_t plan, const slots::SlotSet& slots, const std::string& source,
      const std::string& target, std::uint64_t marker, const std::string& target_run_id) = 0;
  // `target`, as long as its server has this run id, still holds these committed slots.
  [[nodiscard]] virtual slots::Status vouch(std::uint64_t plan, const slots::SlotSet& slots,
                                            const std::string& target,
                                            const std::string& target_run_id) = 0;
  // `target` has lost these committed slots: they are `source`'s again, as with commit(). Errors:
  // Conflict when the target does not own them all, or when a flush of `target`, which the source's
  // copies have not seen, was asked for since their commit or may have come late; Io as with
  // commit().
  [[nodiscard]] virtual slots::Result<slots::Epoch> give_back(std::uint64_t plan,
                                                              const slots::SlotSet& slots,
                                                              const std::string& source,
                                                              const std::string& target) = 0;
  // Recorded: `source` holds no copies of these slots any more.
  [[nodiscard]] virtual slots::Status note_collected(std::uint64_t plan,
                                                     const slots::SlotSet& slots,
                                                     const std::string& source) = 0;

  [[nodiscard]] virtual Wish wish(std::uint64_t plan) = 0;
  // The node as it is now: addresses and passwords may change while a plan runs.
  [[nodiscard]] virtual slots::Result<NodeAccess> access(const std::string& node) = 0;
  virtual void report(std::uint64_t plan, const std::string& source, const std::string& target,
                      const Progress& progress) = 0;
};

}  // namespace proxy::mover
