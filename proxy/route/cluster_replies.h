// ClusterReplies: the answers of CLUSTER about one map, ready-made in RESP2 and RESP3.
//
// All of them say the same of the same map: the same node ids, hosts, ports and ranges, spelled
// alike, as clients join them with each other and with MOVED. Shapes are those of Redis 7.0
// (https://redis.io/commands/cluster-shards/ and siblings). Pure and immutable; made once per
// snapshot, shared by all workers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/slot_map.h"

namespace proxy::route {

struct ClusterNodeFacts {
  std::string id;  // 40 hex digits.
  std::string name;
  conf::Address announced;  // TCP.
  bool healthy = true;
};

class ClusterReplies {
 public:
  // `nodes` in the map's order.
  ClusterReplies(const std::string& cluster, const slots::SlotMap& map,
                 const std::vector<ClusterNodeFacts>& nodes);

  // Whole RESP replies. `myself` is the endpoint that is asked; kNoNode means the first.
  [[nodiscard]] const std::string& slots(bool resp3) const { return slots_[resp3]; }
  [[nodiscard]] const std::string& shards(bool resp3) const { return shards_[resp3]; }
  [[nodiscard]] std::string nodes(slots::NodeIndex myself, bool resp3) const;
  [[nodiscard]] std::string info(bool resp3) const;
  [[nodiscard]] std::string my_id(slots::NodeIndex myself) const;
  [[nodiscard]] std::string my_shard_id(slots::NodeIndex myself) const;

  [[nodiscard]] const std::string& moved_suffix(slots::NodeIndex node) const {
    return endpoints_[node];
  }  // host:port
  [[nodiscard]] std::optional<slots::NodeIndex> find_id(std::string_view id) const;

 private:
  std::string slots_[2];
  std::string shards_[2];
  std::string info_text_;
  std::vector<std::string> endpoints_;
  std::string nodes_text_;                // CLUSTER NODES, without "myself,".
  std::vector<std::size_t> flag_places_;  // Where in it each node's flags begin.
  std::vector<std::string> ids_;
  std::vector<std::string> shard_ids_;
};

}  // namespace proxy::route
