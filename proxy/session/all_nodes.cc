#include "proxy/session/all_nodes.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/resp/reserved_key.h"
#include "proxy/session/commands.h"
#include "slots/key_slot.h"

namespace proxy::session {

std::optional<slots::SlotId> first_slot_of(const slots::SlotMap& map, slots::NodeIndex node) {
  auto found = std::find(map.owners().begin(), map.owners().end(), node);
  if (found == map.owners().end()) return std::nullopt;
  return static_cast<slots::SlotId>(found - map.owners().begin());
}

std::vector<slots::NodeIndex> nodes_meant(const ClientSession& session, NodesMeant which) {
  const slots::SlotMap& map = *session.table().map;
  std::vector<slots::NodeIndex> nodes;
  if (session.is_redirect()) {
    if (session.listener().node < map.nodes().size()) nodes.push_back(session.listener().node);
    return nodes;
  }
  for (std::size_t i = 0; i < map.nodes().size(); ++i) {
    auto node = static_cast<slots::NodeIndex>(i);
    if (which == NodesMeant::Every || first_slot_of(map, node)) nodes.push_back(node);
  }
  return nodes;
}

AllNodesGather::AllNodesGather(ClientSession& session)
    : Gather(session), asked_(session.core().table) {}

bool AllNodesGather::ask(slots::NodeIndex node, std::string_view bytes) {
  return send(node, first_slot_of(*session().table().map, node).value_or(0), bytes);
}

void AllNodesGather::ask_all(NodesMeant which, std::string_view bytes) {
  for (slots::NodeIndex node : nodes_meant(session(), which)) ask(node, bytes);
}

void AllNodesGather::follow_table(std::vector<slots::NodeIndex>& nodes) {
  const std::shared_ptr<const RoutingTable>& now = session().core().table;
  if (now == asked_) return;
  for (slots::NodeIndex& node : nodes)
    node = now->map->find(asked_->nodes[node].name).value_or(slots::kNoNode);
  std::erase(nodes, slots::kNoNode);
  asked_ = now;
}

bool AllNodesGather::is_visible(std::string_view key, slots::NodeIndex node) const {
  return !resp::is_reserved_key(key) && asked_->map->owner(slots::slot_of_key(key)) == node;
}

std::string AllNodesGather::merged_error() const {
  const Fragment* first = nullptr;
  bool all_alike = true;
  for (const Fragment& fragment : fragments()) {
    if (first == nullptr && fragment.is_error()) first = &fragment;
    all_alike = all_alike && fragment.reply == fragments().front().reply;
  }
  if (first == nullptr) return {};
  return all_alike ? std::string(first->reply) : error_with_name(*first);
}

std::string AllNodesGather::error_with_name(const Fragment& fragment) const {
  std::string line(fragment.reply.substr(0, fragment.reply.find("\r\n")));
  if (!fragment.said_by.empty()) return fmt::format("{} (node {})\r\n", line, fragment.said_by);
  // One of the proxy's own. A node without slots can't serve any, so none should be named.
  constexpr std::string_view kNoSlot = " can't serve slot 0: ";
  std::size_t at = line.find(kNoSlot);
  if (at != std::string::npos && !first_slot_of(*asked_->map, fragment.node)) {
    line.replace(at, kNoSlot.size(), " can't be used: ");
  }
  return line + "\r\n";
}

std::string AllNodesGather::malformed(const Fragment& fragment) const {
  return fmt::format("-ERR node {} answered with something that is no such reply\r\n",
                     name_of(fragment));
}

AllNodesApartGather::AllNodesApartGather(ClientSession& session, std::string_view bytes)
    : ApartGather(session) {
  for (slots::NodeIndex node : nodes_meant(session, NodesMeant::Every)) {
    ask(node, first_slot_of(*session.table().map, node).value_or(0), bytes);
  }
}

bool AllSucceededGather::finish(std::string& out) {
  out = merged_error();
  if (!out.empty()) return true;
  if (is_too_large()) {
    write_too_large(out, "");
  } else {
    out = fragments().front().reply;
  }
  return true;
}

}  // namespace proxy::session
