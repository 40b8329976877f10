// KeySampler: looks for the largest keys, and for streams with consumer groups, in the slots that a
// plan moves.
//
// It is a sample unless `is_whole` says otherwise: it ends after a time, since a node with a
// hundred million keys would be asked for minutes. SCAN shows keys in no order, so that a part of
// them is as good as any other.
//
// Thread:  the control loop. Destroying it ends the sample without a completion. One use.
// Owns:    a connection per node, while it samples.
// Limits:  nodes are asked at the same time, each for about half of the time given.
// Errors:  none: a node that can't be asked has no sample.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proxy/control/node_client.h"
#include "proxy/control/preflight.h"
#include "proxy/net/loop_timer.h"
#include "slots/slot.h"

namespace proxy::control {

struct SampledKey {
  std::string name;
  slots::SlotId slot = 0;
  std::string type;
  std::uint64_t bytes = 0;   // Of the server's memory, as MEMORY USAGE estimates it.
  std::uint64_t groups = 0;  // Of a stream.
};

struct KeySample {
  static constexpr std::size_t kNamedMax = 5;

  std::uint64_t keys = 0;           // That were looked at, in these slots.
  std::uint64_t bytes = 0;          // Of them.
  std::vector<SampledKey> largest;  // The first kNamedMax, the largest first.
  std::vector<SampledKey> streams;  // With groups; likewise.
  std::uint64_t streams_with_groups = 0;
  bool is_whole = false;  // The node was seen to the end.
};
using KeySamples = std::map<std::string, KeySample>;  // By node.

struct SampledNode {
  AskedNode asked;
  slots::SlotSet slots;
};

class KeySampler {
 public:
  // `done` is called once, maybe from inside a completion of one of the nodes (so not the place to
  // destroy this), never from inside the constructor. At least one node.
  KeySampler(uv_loop_t* loop, std::vector<SampledNode> nodes, std::string client_name,
             conf::Milliseconds connect, conf::Milliseconds answer, conf::Milliseconds time,
             std::function<void(KeySamples)> done);

 private:
  struct Node {
    SampledNode sampled;
    std::unique_ptr<NodeClient> client;
    std::unique_ptr<net::LoopTimer> pause;
    KeySample sample;
    std::string cursor = "0";
    std::uint64_t asked_at_ms = 0;
    std::size_t waiting = 0;       // Answers about the page's keys.
    std::vector<SampledKey> page;  // Never resized while answers are awaited.
    bool has_begun = false;
    bool has_ended = false;
  };

  void start(std::size_t index);
  void scan(std::size_t index);
  void on_page(std::size_t index, const Reply& reply);
  void ask(std::size_t index, const Command& command, std::function<void(const Reply&)> take);
  void on_measured(std::size_t index);
  void end(std::size_t index);

  uv_loop_t* loop_;
  std::string client_name_;
  conf::Milliseconds connect_;
  conf::Milliseconds answer_;
  std::function<void(KeySamples)> done_;
  std::uint64_t ends_at_ms_;
  std::size_t waiting_;
  std::vector<Node> nodes_;
};

// Takes a key into a list of the largest.
void take_largest(std::vector<SampledKey>& largest, const SampledKey& key);

}  // namespace proxy::control
