// DevCluster: what `slotproxy --dev [N]` runs on: stock redis-servers of its own in a scratch
// folder.
//
// Thread:  start() blocks (bounded); call it on the main thread, before the loops run. The
//          redis-servers are tied to that thread's life: when it ends, by kill -9 too, so do they.
// Owns:    the redis-servers and the scratch folder, in which the proxy's state is too: it must
//          outlive whatever uses them. Both are gone after the destructor; a folder that a kill -9
//          left behind is removed by the next start.
// Errors:  InvalidArgument (nodes, port), NotFound (no redis-server), Conflict (a port is taken),
//          Io, Timeout; each message says what to do. Nothing is left behind then.
// Why:     the redis-servers listen on Unix sockets in that folder, so that no port of the machine
//          is taken but the proxy's own, and nobody else reaches them. They stand in process groups
//          of their own: Ctrl-C is for the proxy, which ends them once its clients are served.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/config.h"
#include "slots/result.h"
#include "slots/slot_map.h"

namespace proxy {

struct DevOptions {
  unsigned nodes = 3;         // 1 to kDevNodesMax.
  std::uint16_t port = 6400;  // The forward port; the nodes' endpoints are the ports after it.
  std::string redis_server = "redis-server";  // A path, or a name to be found in PATH.
  std::string scratch_parent = "/tmp";        // Where the scratch folder is made.
};

inline constexpr unsigned kDevNodesMax = 26;  // One letter each.

class DevCluster {
 public:
  [[nodiscard]] static slots::Result<std::unique_ptr<DevCluster>> start(const DevOptions& options);
  ~DevCluster();
  DevCluster(const DevCluster&) = delete;
  DevCluster& operator=(const DevCluster&) = delete;

  [[nodiscard]] const conf::Config& config() const { return config_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] const std::vector<pid_t>& servers() const { return servers_; }

 private:
  DevCluster(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  [[nodiscard]] slots::Status start_servers(const std::string& program);
  [[nodiscard]] slots::Status await_servers();

  std::string folder_;
  int lock_;  // Descriptor of the locked file that says: this folder is in use.
  conf::Config config_;
  std::vector<pid_t> servers_;  // In the order of config_.nodes.
};

// The configuration of a dev cluster whose scratch folder is `folder`. Pure. Another port than 6400
// has an admin socket of its own, so that two dev clusters can stand side by side.
[[nodiscard]] slots::Result<conf::Config> dev_config(const DevOptions& options,
                                                     const std::string& folder);

// What the first minute shows: who connects where, and a last line that begins with "ready".
// `slotctl` is how slotctl is called from where the reader is.
[[nodiscard]] std::string dev_banner(const conf::Config& config, slots::Epoch epoch,
                                     std::string_view slotctl);

}  // namespace proxy
