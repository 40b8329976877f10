#include "proxy/rebalancer.h"

#include <utility>

#include "proxy/control/admin_commands.h"

namespace proxy {

Rebalancer::Rebalancer(uv_loop_t* loop, Cluster& cluster, Host host, std::string client_name)
    : cluster_(cluster),
      host_(std::move(host)),
      desk_(loop, *this, control::AuditLog(cluster.config()->state_dir + "/audit.log"),
            std::move(client_name)) {}

void Rebalancer::plan(const std::vector<std::string>& words, const control::AdminPeer& peer,
                      control::PlanDesk::Done done) {
  if (words.size() > 1 && control::verb_of(words[1]) == "APPROVE") {
    return done(slots::fail(slots::Errc::Unavailable,
                            "this version proposes plans but can't carry them out yet"));
  }
  desk_.run(words, peer, std::move(done));
}

slots::Status Rebalancer::commit(const control::ClusterState& next) {
  return cluster_.commit(next, control::StateStore::People::WriteNow);
}

}  // namespace proxy
