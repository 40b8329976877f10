#include "proxy/route/cluster_replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "proxy/resp/reply_writer.h"
#include "slots/assert.h"

namespace proxy::route {

namespace {

constexpr std::string_view kMyself = "myself,";

struct OwnedRange {
  slots::SlotRange range;
  slots::NodeIndex owner;
};

std::vector<OwnedRange> ranges_in_order(const slots::SlotMap& map) {
  std::vector<OwnedRange> ranges;
  for (std::size_t i = 0; i < slots::kSlotCount; ++i) {
    auto slot = static_cast<slots::SlotId>(i);
    if (ranges.empty() || ranges.back().owner != map.owner(slot)) {
      ranges.push_back({{slot, slot}, map.owner(slot)});
    } else {
      ranges.back().range.last = slot;
    }
  }
  return ranges;
}

// Nobody connects to it, but clients parse it.
unsigned bus_port(unsigned port) { return port + 10000 <= 65535 ? port + 10000 : port; }

std::string make_slots(const std::vector<OwnedRange>& ranges,
                       const std::vector<ClusterNodeFacts>& nodes, bool resp3) {
  std::string out;
  resp::ReplyWriter writer(out, resp3);
  writer.array(ranges.size());
  for (const OwnedRange& owned : ranges) {
    const ClusterNodeFacts& node = nodes[owned.owner];
    writer.array(3);
    writer.integer(owned.range.first);
    writer.integer(owned.range.last);
    writer.array(4);
    writer.bulk(node.announced.host);
    writer.integer(node.announced.port);
    writer.bulk(node.id);
    writer.map(0);
  }
  return out;
}

std::string make_shards(const slots::SlotMap& map, const std::vector<ClusterNodeFacts>& nodes,
                        bool resp3) {
  std::string out;
  resp::ReplyWriter writer(out, resp3);
  writer.array(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ClusterNodeFacts& node = nodes[i];
    auto ranges = map.slots_of(static_cast<slots::NodeIndex>(i)).ranges();
    writer.map(2);
    writer.bulk("slots");
    writer.array(2 * ranges.size());
    for (const slots::SlotRange& range : ranges) {
      writer.integer(range.first);
      writer.integer(range.last);
    }
    writer.bulk("nodes");
    writer.array(1);
    writer.map(7);
    writer.bulk("id");
    writer.bulk(node.id);
    writer.bulk("port");
    writer.integer(node.announced.port);
    writer.bulk("ip");
    writer.bulk(node.announced.host);
    writer.bulk("endpoint");
    writer.bulk(node.announced.host);
    writer.bulk("role");
    writer.bulk("master");
    writer.bulk("replication-offset");
    writer.integer(0);
    writer.bulk("health");
    writer.bulk(node.healthy ? "online" : "fail");
  }
  return out;
}

// A line of CLUSTER NODES in two parts, between which "myself," has its place.
struct NodeLine {
  std::string head;
  std::string tail;
};

NodeLine make_node_line(const slots::SlotMap& map, const ClusterNodeFacts& node,
                        slots::NodeIndex index) {
  NodeLine line;
  line.head = fmt::format("{} {}:{}@{} ", node.id, node.announced.host, node.announced.port,
                          bus_port(node.announced.port));
  line.tail = fmt::format("master - 0 0 {} connected", map.epoch());
  for (const slots::SlotRange& range : map.slots_of(index).ranges()) {
    line.tail += " " + slots::to_string(range);
  }
  line.tail += "\n";
  return line;
}

std::string make_info(const slots::SlotMap& map) {
  std::set<slots::NodeIndex> owners(map.owners().begin(), map.owners().end());
  return fmt::format(
      "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_"
      "pfail:0\r\n"
      "cluster_slots_fail:0\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\ncluster_current_epoch:{"
      "}\r\n"
      "cluster_my_epoch:{}\r\ncluster_stats_messages_sent:0\r\ncluster_stats_messages_received:"
      "0\r\n"
      "total_cluster_links_buffer_limit_exceeded:0\r\n",
      map.nodes().size(), owners.size(), map.epoch(), map.epoch());
}

}  // namespace

ClusterReplies::ClusterReplies(const std::string& cluster, const slots::SlotMap& map,
                               const std::vector<ClusterNodeFacts>& nodes)
    : info_text_(make_info(map)) {
  SP_ASSERT(nodes.size() == map.nodes().size());
  auto ranges = ranges_in_order(map);
  for (bool resp3 : {false, true}) {
    slots_[resp3] = make_slots(ranges, nodes, resp3);
    shards_[resp3] = make_shards(map, nodes, resp3);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    endpoints_.push_back(fmt::format("{}:{}", nodes[i].announced.host, nodes[i].announced.port));
    NodeLine line = make_node_line(map, nodes[i], static_cast<slots::NodeIndex>(i));
    nodes_text_ += line.head;
    flag_places_.push_back(nodes_text_.size());
    nodes_text_ += line.tail;
    ids_.push_back(nodes[i].id);
    shard_ids_.push_back(slots::node_id_of(cluster + "/shard", nodes[i].name));
  }
}

// Thousands of clients may ask at once after a change: all that is left to do then is to copy.
std::string ClusterReplies::nodes(slots::NodeIndex myself, bool resp3) const {
  std::size_t place = flag_places_[myself < flag_places_.size() ? myself : 0];
  std::string text;
  text.reserve(nodes_text_.size() + kMyself.size());
  text.append(nodes_text_, 0, place).append(kMyself).append(nodes_text_, place);
  std::string out;
  out.reserve(text.size() + 32);
  resp::ReplyWriter(out, resp3).verbatim(text);
  return out;
}

std::string ClusterReplies::info(bool resp3) const {
  std::string out;
  resp::ReplyWriter(out, resp3).verbatim(info_text_);
  return out;
}

std::string ClusterReplies::my_id(slots::NodeIndex myself) const {
  std::string out;
  resp::append_bulk(out, ids_[myself < ids_.size() ? myself : 0]);
  return out;
}

std::string ClusterReplies::my_shard_id(slots::NodeIndex myself) const {
  std::string out;
  resp::append_bulk(out, shard_ids_[myself < shard_ids_.size() ? myself : 0]);
  return out;
}

std::optional<slots::NodeIndex> ClusterReplies::find_id(std::string_view id) const {
  auto found = std::find(ids_.begin(), ids_.end(), id);
  if (found == ids_.end()) return std::nullopt;
  return static_cast<slots::NodeIndex>(found - ids_.begin());
}

}  // namespace proxy::route
