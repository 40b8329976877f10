// What becomes of keys and commands, and why. Pure: the snapshot's map and command table decide.
//
// Says in advance what a session on the forward port would do; tests hold it to the sessions' own
// list of commands, which this side of the daemon must not include.
#pragma once

#include <string>
#include <vector>

#include "admin/api.h"
#include "proxy/control/admin_port.h"
#include "proxy/resp/command_spec.h"

namespace proxy::control {

// What a command's name alone decides.
enum class CommandWay : std::uint8_t {
  ByKeys,    // To the owner of its keys; several slots are CROSSSLOT. Without keys: to any node.
  Split,     // To the owners of its keys, each gets its own.
  AllNodes,  // To every node, one answer made of all.
  AnyNode,   // Every node would answer the same.
  Local,     // The proxy answers itself.
  Refused,
};

[[nodiscard]] CommandWay way_of(const resp::CommandSpec& spec);

[[nodiscard]] admin::ExplainReport explain_keys(const AdminSnapshot& snapshot,
                                                const std::vector<std::string>& keys);
// `words`: the command's name and its arguments; not empty.
[[nodiscard]] admin::ExplainReport explain_command(const AdminSnapshot& snapshot,
                                                   const std::vector<std::string>& words);

}  // namespace proxy::control
