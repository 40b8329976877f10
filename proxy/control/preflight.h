// Preflight: asks the nodes of a plan what they say of themselves before it is approved.
// plan_checks.h judges it.
//
// Nothing of what is asked changes a node's data; see needed_rights.h for how rights are tried.
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
#include "proxy/control/node_finding.h"
#include "proxy/control/plan_record.h"

namespace proxy::control {

struct AskedNode {
  std::string name;
  conf::Address address;
  std::string username;
  std::string password;
  PlanRole role = {};  // Which rights it is asked for.
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
  void ask_for_rights(std::size_t index);
  void ask_for_right(std::size_t index, const NeededRight& right);
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
// Of all its moves, and of the strays that it collects.
[[nodiscard]] Expected expected_total(const PlanRecord& plan);

}  // namespace proxy::control
