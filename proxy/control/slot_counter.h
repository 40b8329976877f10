// SlotCounter: how many keys, and how many bytes, each slot of one node holds.
//
// Every key, of all databases, is seen by SCAN, and of some twenty thousand of them the server is
// asked for the size (MEMORY USAGE), chosen by their names, so that the same data give the same
// figures. A node whose keys can't all be seen in the time is judged by those that were: SCAN's
// order has nothing to do with slots.
//
// Thread:  the loop's own. One run; destroying it ends the run without a completion.
// Owns:    nothing: the NodeClient (open and logged in, used by nobody else meanwhile nor
//          afterwards) must outlive it.
// Limits:  at most half of the node's time goes into it.
// Errors:  those of the NodeClient; Unavailable with the node's words for an error reply to SCAN.
//          Where MEMORY USAGE is not allowed, no sizes are known.
#pragma once

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/control/node_client.h"
#include "proxy/net/loop_timer.h"
#include "slots/result.h"
#include "slots/slot_census.h"

namespace proxy::control {

struct NodeTally {
  std::shared_ptr<const slots::SlotTally> tally = {};
  double all_keys = 0;    // Of the node, seen or not.
  bool is_whole = false;  // All were seen.
};

class SlotCounter {
 public:
  using Done = std::function<void(slots::Result<NodeTally>)>;

  // `timeout`: for each answer; `patience`: for the whole count.
  SlotCounter(uv_loop_t* loop, NodeClient& client, const slots::SlotSet& owned,
              conf::Milliseconds timeout, conf::Milliseconds patience, Done done);
  SlotCounter(const SlotCounter&) = delete;
  SlotCounter& operator=(const SlotCounter&) = delete;
  ~SlotCounter() { *life_ = false; }

 private:
  void select_next();
  void scan();
  void on_keys(const Reply& reply);
  void ask_size(const std::string& key, slots::SlotId slot);
  void go_on();
  void end(slots::Result<NodeTally> result);

  uv_loop_t* loop_;
  NodeClient& client_;
  conf::Milliseconds timeout_;
  Done done_;
  net::LoopTimer pause_;
  std::shared_ptr<slots::SlotTally> tally_;
  std::uint64_t end_at_ms_;
  double all_keys_ = 0;
  std::vector<std::uint32_t> databases_;  // Still to be scanned; the last one is under way.
  std::uint64_t measured_every_ = 1;      // One key in so many is measured.
  bool may_measure_ = true;
  std::size_t sizes_awaited_ = 0;
  std::string cursor_ = "0";
  std::uint64_t sent_at_ns_ = 0;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
};

}  // namespace proxy::control
