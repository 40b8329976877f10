// NeededRights: the commands that a plan's movers send a node, so that its ACL can be checked
// before anybody approves. Pure.
//
// Whoever makes a mover send another command adds a line to the table in needed_rights.cc.
//
// How a right is asked for: by ACL DRYRUN (Redis 7.0 and newer), and where that is not known or not
// allowed, by sending the command in a form that changes nothing: names that nobody uses, a payload
// that is none, SET of a missing key with XX. A server looks at rights before anything else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/control/node_reply.h"

namespace proxy::control {

// What a node has to do with a plan.
struct PlanRole {
  bool gives = false;  // Slots.
  bool takes = false;
  bool joins = false;            // The map, with this plan: it gets functions,
  bool gives_functions = false;  // from this one.
  bool gives_strays = false;
  bool takes_strays = false;

  friend bool operator==(const PlanRole&, const PlanRole&) = default;
};

struct NeededRight {
  std::string name;       // As ACL SETUSER writes it: "client|tracking".
  Command command;        // The harmless form.
  bool on_keys = false;   // Any key of the data; else a name of the proxy's own, or none.
  bool is_vital = false;  // Without it the plan can't be carried out; else it only goes less well.
};

// `knows_expire_time`: the server has PEXPIRETIME and functions (7.0 and newer).
[[nodiscard]] std::vector<NeededRight> needed_rights(const PlanRole& role, bool knows_expire_time);

// What a node's answers say of its user's rights.
struct Rights {
  bool are_known = false;
  std::vector<std::string> denied = {};   // Vital ones, as ACL SETUSER writes them.
  std::vector<std::string> wished = {};   // Denied too, but not vital.
  std::vector<std::string> missing = {};  // Vital commands that the server does not have.
  bool denies_keys = false;               // Keys of the data, by a pattern.
  bool denies_own_keys = false;           // The proxy's own, which begin with __slotproxy:.

  friend bool operator==(const Rights&, const Rights&) = default;
};

// Takes in the answer to one right's question: of ACL DRYRUN, or of the command itself.
void take_dry_run(Rights& rights, const NeededRight& right, const Reply& reply);
void take_trial(Rights& rights, const NeededRight& right, const Reply& reply);

// "ACL SETUSER proxy +restore +client|kill ~*": what gives `user` the rights that were denied.
[[nodiscard]] std::string acl_line(const std::string& user, const Rights& rights);

}  // namespace proxy::control
