// FunctionCopy: gives a node the functions of another one, before it gets keys.
//
// Thread:  the control loop. Destroying it ends the copy without a completion. One use.
// Owns:    a connection to each of the two, while it copies.
// Errors:  those of the NodeClient, and Unavailable with the node's words; a source without
//          functions (below 7.0) has none to give, which is no error.
#pragma once

#include <uv.h>

#include <functional>
#include <string>

#include "conf/config.h"
#include "proxy/control/node_client.h"
#include "proxy/control/preflight.h"
#include "slots/result.h"

namespace proxy::control {

class FunctionCopy {
 public:
  // `done` is called once, maybe from inside a completion of a NodeClient (so not the place to
  // destroy this), never from inside the constructor.
  FunctionCopy(uv_loop_t* loop, AskedNode source, AskedNode target, std::string client_name,
               conf::Milliseconds connect, conf::Milliseconds answer,
               std::function<void(slots::Status)> done);

 private:
  // Connects and logs in, then sends the command; an answer that is an error is one here.
  void ask(NodeClient& client, const AskedNode& node, Command command,
           std::function<void(const Reply&)> next);
  void end(slots::Status status);

  AskedNode source_;
  AskedNode target_;
  std::string client_name_;
  conf::Milliseconds connect_;
  conf::Milliseconds answer_;
  std::function<void(slots::Status)> done_;
  NodeClient from_;
  NodeClient to_;
};

}  // namespace proxy::control
