// AllNodesGather: a request that means whole nodes, not keys: the endpoint's own node, or all nodes
// on the forward port, where the reply is one made of theirs.
//
// Thread:  one worker's; see gather.h.
// Errors:  when all nodes say the same, the client reads just that, as from one server. Otherwise
//          the first error, with its node's name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/session/apart_gather.h"
#include "proxy/session/gather.h"

namespace proxy::session {

enum class NodesMeant : std::uint8_t {
  Every,
  Owners,  // That own slots: the others hold no key that a client can see.
};

// In the map's order. On a redirect endpoint its own node alone.
[[nodiscard]] std::vector<slots::NodeIndex> nodes_meant(const ClientSession& session,
                                                        NodesMeant which);
// Nothing: the node owns no slot.
[[nodiscard]] std::optional<slots::SlotId> first_slot_of(const slots::SlotMap& map,
                                                         slots::NodeIndex node);

class AllNodesGather : public Gather {
 protected:
  explicit AllNodesGather(ClientSession& session);

  bool ask(slots::NodeIndex node, std::string_view bytes);  // As send().
  void ask_all(NodesMeant which, std::string_view bytes);

  // The snapshot under which nodes were asked last, and which their indexes belong to.
  [[nodiscard]] const RoutingTable& asked() const { return *asked_; }
  [[nodiscard]] const std::string& name_of(const Fragment& fragment) const {
    return asked_->nodes[fragment.node].name;
  }
  // Before asking again: takes the snapshot of now over, and with it the indexes of `nodes`. Nodes
  // that left drop out.
  void follow_table(std::vector<slots::NodeIndex>& nodes);
  // Whether clients may see a key that the node holds: not the proxy's own, not one of another
  // node's slots.
  [[nodiscard]] bool is_visible(std::string_view key, slots::NodeIndex node) const;

  // One whole RESP error for all fragments; empty: none is an error.
  [[nodiscard]] std::string merged_error() const;
  [[nodiscard]] std::string error_with_name(const Fragment& fragment) const;
  // For replies that no Redis would give.
  [[nodiscard]] std::string malformed(const Fragment& fragment) const;

 private:
  std::shared_ptr<const RoutingTable> asked_;
};

// All nodes must do it; the reply is the first one's.
class AllSucceededGather final : public AllNodesGather {
 public:
  AllSucceededGather(ClientSession& session, std::string_view bytes) : AllNodesGather(session) {
    ask_all(NodesMeant::Every, bytes);
  }

 private:
  bool finish(std::string& out) override;
};

// All nodes, on connections of their own: what must not wait behind a script that one of them runs.
class AllNodesApartGather : public ApartGather {
 protected:
  AllNodesApartGather(ClientSession& session, std::string_view bytes);
};

}  // namespace proxy::session
