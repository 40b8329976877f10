// LostClients: connections of movers that ended while the node may still have had commands of
// theirs. What such a connection has sent may run at any later time, until the node has answered
// CLIENT KILL for it: then it has run or never will.
//
// Shared by all movers of the process: a move that is taken up again has a mover of its own. What
// an earlier process left is ended by the node's verification, by its name.
//
// Thread:  any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace proxy::mover {

struct LostClient {
  std::string run_id;  // Of the server: another one has other ids, and none of the old commands.
  std::uint64_t id = 0;

  friend bool operator==(const LostClient&, const LostClient&) = default;
};

class LostClients {
 public:
  void add(const std::string& node, LostClient client);
  [[nodiscard]] std::vector<LostClient> of(const std::string& node) const;
  void remove(const std::string& node, const LostClient& client);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<LostClient>> clients_;
};

}  // namespace proxy::mover
