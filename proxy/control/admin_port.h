// AdminPort: what the admin commands need of the running proxy.
//
// Errors:  their messages end with what to do; lines parted by line breaks are fine.
// Thread:  the control loop, every call and every completion. A completion may be called from
//          inside the call; it is called exactly once, or never when the proxy ends first.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/heat_reports.h"
#include "proxy/control/node_watch.h"
#include "proxy/control/stray_counter.h"
#include "proxy/routing_table.h"
#include "slots/result.h"

namespace proxy::control {

// Who asks. The process is known for Unix sockets only.
struct AdminPeer {
  bool is_unix = false;
  pid_t pid = -1;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  std::string address = {};  // TCP: "127.0.0.1:50000".
  std::string user = {};     // TCP: of listen.admin_users; empty: listen.admin_password.

  [[nodiscard]] std::string text() const {
    if (!is_unix) return user.empty() ? address : address + " as " + user;
    return credential() + ", pid " + std::to_string(pid);
  }
  // What tells persons apart, whatever they call themselves: the uid that the kernel knows, or the
  // password that was given.
  [[nodiscard]] std::string credential() const {
    if (is_unix) return "uid " + std::to_string(uid);
    return user.empty() ? "the admin password" : "admin user " + user;
  }
};

// A worker's figures since the start; `clients` are those of now.
struct WorkerFacts {
  std::uint64_t clients = 0;
  std::uint64_t commands = 0;
  std::uint64_t errors = 0;                            // Error replies of the proxy's own.
  std::uint64_t bytes_in = 0;                          // From clients.
  std::uint64_t bytes_out = 0;                         // To clients.
  std::map<std::string, std::uint64_t> counters = {};  // Whatever else it counts, by name.
};

// A plan that has not ended, for STATUS.
struct OpenPlan {
  std::uint64_t id = 0;
  std::string state;  // "proposed", "running", ...
  std::string purpose;
  std::string reason;  // Why it is in that state; may be empty.
};

struct AdminSnapshot {
  std::shared_ptr<const RoutingTable> table = {};  // Not null, its map and commands neither.
  std::vector<NodeStatus> nodes = {};              // One for each node of the table, in its order.
  std::vector<WorkerFacts> workers = {};
  double ops_per_second = 0;  // Commands of all clients, over the last seconds.
  std::chrono::seconds uptime{0};
  std::string config_path = {};
  std::shared_ptr<const conf::Config> config = {};  // As loaded last. Not null.
  std::vector<std::string> drift = {};              // As conf::drift() says it.
  std::vector<OpenPlan> plans = {};
  bool is_draining = false;
  std::chrono::steady_clock::time_point taken_at = std::chrono::steady_clock::now();
};

// One node's count, or why it could not be counted ("is down: connection refused").
struct NodeStrayCount {
  std::string node = {};
  slots::Result<StrayReport> report = StrayReport{};
};

class AdminPort {
 public:
  virtual ~AdminPort() = default;

  [[nodiscard]] virtual AdminSnapshot snapshot() = 0;

  // `peer` wants the configuration file read again, and applied what can change without a restart.
  // The notes say what changed and what needs a restart, a line each. On an error nothing has
  // changed, and the message says so; InvalidArgument is for mistakes in the file.
  virtual void reload(const AdminPeer& peer,
                      std::function<void(slots::Result<std::vector<std::string>>)> done) = 0;

  // Counts the strays of every node, all nodes at once; with `list` their reports bear names.
  // Called only when no other count is under way.
  virtual void count_strays(
      bool list, std::function<void(slots::Result<std::vector<NodeStrayCount>>)> done) = 0;

  [[nodiscard]] virtual HeatFacts heat() = 0;
  // Looks at clients' requests for so long; then, which keys they named. Conflict: somebody else's
  // watch is not over.
  virtual void watch_keys(
      std::chrono::seconds duration,
      std::function<void(slots::Result<std::shared_ptr<const slots::TopKeys>>)> done) = 0;

  // PLAN and the words behind it; the answer is a report of admin/plan_api.h as JSON.
  virtual void plan(const std::vector<std::string>& words, const AdminPeer& peer,
                    std::function<void(slots::Result<std::string>)> done) = 0;
};

}  // namespace proxy::control
