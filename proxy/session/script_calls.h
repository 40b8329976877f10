// ScriptCalls: what scripts and functions call at the nodes, as the nodes' own MONITOR says it.
//
// Only a node knows what a script calls. So while a worker has clients that monitor, it does so at
// every node too, and passes on the lines that are of scripts, whoever called these.
//
// Thread:  one worker's.
// Owns:    a connection per node.
// Errors:  none: a node that can't be reached is tried again; what its scripts call meanwhile is
//          not shown.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/pubsub/feed_connection.h"
#include "proxy/worker_core.h"

namespace proxy::session {

class ScriptCalls {
 public:
  // `show`: a whole line of MONITOR.
  ScriptCalls(WorkerCore& core, std::function<void(std::string_view)> show);
  ~ScriptCalls();
  ScriptCalls(const ScriptCalls&) = delete;
  ScriptCalls& operator=(const ScriptCalls&) = delete;

  // Monitors at all nodes of the table of now that are up; `when_all`, once, when all of those do
  // or have failed to.
  void begin(std::function<void()> when_all);
  // Not from within what it calls.
  void end();
  [[nodiscard]] bool is_waited_for() const { return !waiting_.empty(); }
  void tick();  // About ten times a second: nodes that are not monitored, and could be.

 private:
  class AtNode;

  void note_settled();

  WorkerCore& core_;
  std::function<void(std::string_view)> show_;
  bool is_on_ = false;
  std::vector<std::unique_ptr<AtNode>> nodes_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace proxy::session
