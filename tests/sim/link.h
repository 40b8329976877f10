// Link: carries a transfer's actions out on the simulated nodes, as the daemon's mover thread does
// on real ones, with the rest of the world going on at every step.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "proxy/mover/transfer.h"
#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace sim {

class World;

class Link {
 public:
  Link(World& world, Random& random) : world_(world), random_(random) {}

  proxy::mover::Outcome carry_out(const proxy::mover::Action& action);
  // What the feeds have said, or a part of it.
  void report_feeds(proxy::mover::Event& event);

  // --- faults
  void cut(proxy::mover::Side side);
  void on_node_lost(proxy::mover::Side side);
  bool is_connected() const { return is_connected_; }

 private:
  struct Lost {
    proxy::mover::Side side;
    std::string reason;
  };
  struct Feed {
    ConnectionId connection = 0;
    bool is_lost = false;
    bool is_all_due = false;              // A barrier has been waited for.
    proxy::mover::Database database = 0;  // That was selected last.
    std::vector<Push> unread;
  };

  proxy::mover::Outcome perform(const proxy::mover::Connect&);
  proxy::mover::Outcome perform(const proxy::mover::Scan& scan);
  proxy::mover::Outcome perform(const proxy::mover::Read& read);
  proxy::mover::Outcome perform(const proxy::mover::Write& write);
  proxy::mover::Outcome perform(const proxy::mover::Remove& remove);
  proxy::mover::Outcome perform(const proxy::mover::ReadPiece& read);
  proxy::mover::Outcome perform(const proxy::mover::WritePiece& write);
  proxy::mover::Outcome perform(const proxy::mover::Publish& publish);
  proxy::mover::Outcome perform(const proxy::mover::RenewGroups& renew);
  proxy::mover::Outcome perform(const proxy::mover::CatchFeeds&);
  proxy::mover::Outcome perform(const proxy::mover::Fence& fence);
  proxy::mover::Outcome perform(const proxy::mover::LiftFence&);
  proxy::mover::Outcome perform(const proxy::mover::PutMarker& put);
  proxy::mover::Outcome perform(const proxy::mover::Commit& commit);
  proxy::mover::Outcome perform(const proxy::mover::AskDurability&);
  proxy::mover::Outcome perform(const proxy::mover::Vouch& vouch);
  proxy::mover::Outcome perform(const proxy::mover::GiveBack& give_back);
  proxy::mover::Outcome perform(const proxy::mover::Collected& collected);
  proxy::mover::Outcome perform(const proxy::mover::Wait& wait);
  proxy::mover::Outcome perform(const proxy::mover::Finish&);

  Node& node(proxy::mover::Side side);
  Feed& feed(proxy::mover::Side side) { return feeds_[static_cast<std::size_t>(side)]; }
  void check(proxy::mover::Side side);
  std::vector<Reply> call(proxy::mover::Side side, std::vector<Command> commands);
  void select(proxy::mover::Side side, proxy::mover::Database database);
  std::optional<Entry> look(proxy::mover::Side side, const std::string& key);
  void read_feed(proxy::mover::Side side);

  World& world_;
  Random& random_;
  void ring_alarm();

  bool is_connected_ = false;
  std::uint64_t fenced_until_ms_ = 0;  // 0: not fenced.
  std::array<Feed, 2> feeds_;
  std::uint64_t next_command_ = 1;
};

}  // namespace sim
