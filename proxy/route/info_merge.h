// merge_info(): INFO of the proxy and all its nodes, as from one Redis server.
//
// Sections and fields are those of Redis 7.0, in its order (https://redis.io/commands/info/). What
// clients do shows in the proxy's own figures (connected_clients, total_commands_processed), what
// data there is in sums over the nodes. Client libraries read all of it as one flat map, so no
// field appears twice: each node's section, at the end, has fields with the node's place in their
// names (node0_address). Pure. Lines of a node's INFO that are no field are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proxy::route {

struct ProxyFacts {
  std::string slotproxy_version;
  std::string redis_version;  // Of the nodes.
  bool cluster_mode = false;
  std::uint64_t process_id = 0;
  std::uint64_t uptime_seconds = 0;
  std::uint64_t tcp_port = 0;
  std::uint64_t clients = 0;
  std::uint64_t workers = 0;
  std::uint64_t epoch = 0;
  std::uint64_t requests_total = 0;
  std::uint64_t connections_total = 0;
  std::uint64_t errors_total = 0;
  std::uint64_t blocked_clients = 0;
  std::uint64_t tracking_clients = 0;
  std::uint64_t tracked_keys = 0;  // That some of them has read.
  std::uint64_t tracked_items = 0;
  std::uint64_t tracked_prefixes = 0;
  std::uint64_t channels = 0;  // With subscribers among the proxy's clients.
  std::uint64_t patterns = 0;
  std::uint64_t sharded_channels = 0;
  std::string run_id;             // 40 hex digits.
  std::uint64_t clients_max = 0;  // 0: not said.
};

struct NodeInfo {
  std::string name;
  std::string address;
  std::string state;
  std::optional<std::string_view>
      info;  // Text of INFO everything, unwrapped; nothing: it can't be asked now.
  std::uint64_t hidden_keys =
      0;  // In its database 0, not to be seen by clients: the proxy's own, and strays.
  std::size_t slots = 0;
};

// `sections` in lower case, as INFO takes them; none means "default". Unknown ones give nothing.
// "nodes" is every node's section, which default, all and everything have too.
[[nodiscard]] std::string merge_info(const ProxyFacts& facts, const std::vector<NodeInfo>& nodes,
                                     const std::vector<std::string>& sections);

}  // namespace proxy::route
