// StrayCounter: keys that lie on a node although another one owns their slot.
//
// Clients never see such keys; an operator has to: they appear when a proxy is pointed at servers
// that already hold data. The proxy's own keys (resp::is_reserved_key) are none.
//
// Thread:  the loop's own. One run at a time; destroying it or cancel() ends the run without a
//          completion.
// Owns:    nothing: the NodeClient (open and logged in, used by nobody else meanwhile, not the one
//          that takes the node's pulse) must outlive it.
// Limits:  names and the memory to tell repeated keys apart are bounded, see StrayReport.
// Errors:  those of the NodeClient; Unavailable with the node's words for an error reply to SCAN.
#pragma once

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "conf/config.h"
#include "proxy/control/node_client.h"
#include "proxy/net/loop_timer.h"
#include "slots/result.h"
#include "slots/slot.h"

namespace proxy::control {

struct StrayReport {
  std::uint64_t keys = 0;          // Seen, the proxy's own not included. SCAN may show one twice.
  std::uint64_t strays = 0;        // Each counted once, see is_exact.
  slots::SlotSet slots;            // Of the strays.
  std::vector<std::string> names;  // The first of them, up to what was asked for, in no order.
  bool is_whole = false;           // The node was seen to the end, not only sampled.
  bool is_exact =
      true;  // False beyond StrayCounter::kDistinctMax strays: repeated ones count again then.
};

class StrayCounter {
 public:
  static constexpr std::size_t kDistinctMax = 4'000'000;  // 8 bytes each, and the set's own.

  using Done = std::function<void(slots::Result<StrayReport>)>;

  // `timeout`: for each SCAN.
  StrayCounter(uv_loop_t* loop, NodeClient& client, const slots::SlotSet& owned,
               conf::Milliseconds timeout);
  StrayCounter(const StrayCounter&) = delete;
  StrayCounter& operator=(const StrayCounter&) = delete;
  ~StrayCounter() { cancel(); }

  // A look at about 10,000 keys (100 SCANs), or all there are.
  void sample(Done done);
  // All keys, paced so that at most a third of the node's time goes into it. Keeps up to
  // `names_max` names. A key written or deleted meanwhile may be counted or not, as SCAN has it.
  void count(std::size_t names_max, Done done);
  void cancel();

 private:
  void start(std::size_t scans_max, std::size_t names_max, Done done);
  void scan();
  void on_keys(const Reply& reply);
  void look_at(const std::string& key);
  void end(slots::Result<StrayReport> result);

  NodeClient& client_;
  slots::SlotSet owned_;
  conf::Milliseconds timeout_;
  net::LoopTimer pause_;
  Done done_;
  StrayReport report_;
  std::size_t scans_left_ = 0;  // Of a sample.
  std::size_t names_max_ = 0;
  bool is_paced_ = false;
  std::uint64_t sent_at_ns_ = 0;
  std::string cursor_;
  std::unordered_set<std::uint64_t> seen_;  // Hashes of strays.
  std::shared_ptr<bool> run_;               // False once its replies are nobody's.
};

}  // namespace proxy::control
