// Preflight: what the nodes of a plan say of themselves before it is approved, and what that means.
//
// Thread:  the control loop. Destroying it ends the questions without a completion. One use.
// Owns:    a connection per node, while it asks.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "admin/plan_api.h"
#include "conf/config.h"
#include "proxy/control/node_client.h"
#include "proxy/control/node_verifier.h"
#include "proxy/control/plan_record.h"

namespace proxy::control {

struct NodeFinding {
  std::string problem = {};  // Why it could not be asked; empty when it answered.
  NodeFacts facts = {};
  std::int64_t clock_ms_ahead = 0;       // Of this proxy's clock.
  std::string other_databases = {};      // "db1, db3": those with keys, database 0 excepted.
  bool is_persistent = false;            // AOF, RDB or a replica.
  std::vector<std::string> denied = {};  // Commands that the mover needs and may not use.
  bool rights_known = false;
};
using Findings = std::map<std::string, NodeFinding>;

struct AskedNode {
  std::string name;
  conf::Address address;
  std::string username;
  std::string password;
};

class Preflight {
 public:
  // `done` is called once, maybe from inside a completion of one of the nodes (so not the place to
  // destroy this), never from inside the constructor. At least one node.
  Preflight(uv_loop_t* loop, std::vector<AskedNode> nodes, std::string client_name,
            conf::Milliseconds connect, conf::Milliseconds answer,
            std::function<void(Findings)> done);

 private:
  struct Node {
    AskedNode asked;
    std::unique_ptr<NodeClient> client;
    NodeFinding finding;
    std::size_t waiting = 0;  // Answers.
    bool has_ended = false;
  };

  void start(std::size_t index);
  void ask(std::size_t index);
  void ask(std::size_t index, const Command& command,
           std::function<void(NodeFinding&, const Reply&)> take);
  void end(std::size_t index, std::string problem);

  std::string client_name_;
  conf::Milliseconds connect_;
  conf::Milliseconds answer_;
  std::function<void(Findings)> done_;
  std::size_t waiting_ = 0;  // Nodes.
  std::vector<Node> nodes_;
};

// What is expected of a node's slots, by what it says of itself.
[[nodiscard]] SlotLoad expected_load(const NodeFacts& facts, std::size_t slots);

// What is expected of a plan's moves from one source, keys and bytes.
struct Expected {
  double keys = 0;
  double bytes = 0;
};
[[nodiscard]] Expected expected_of(const PlanRecord& plan, const slots::Move& move);

// The checks of a plan, those that fail first.
[[nodiscard]] std::vector<admin::PlanCheck> judge(const PlanRecord& plan, const Findings& findings);

}  // namespace proxy::control
