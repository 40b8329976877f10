// Carrier: carries a Transfer's actions out against two nodes, one at a time.
//
// It keeps to the limits on bytes and on the nodes' time (Pacer) and to the pause limit of a fence:
// when that is over it lifts the fence by itself, whatever is under way, and refuses the commit.
// What was under way is waited for all the same; losing the connection would mean to copy
// everything again.
//
// Thread:  the mover's.
// Owns:    the two links. A fence that is still there when it is destroyed is lifted.
// Errors:  everything becomes an outcome. After NodeLost both links are closed; the next Connect
//          opens both.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conf/config.h"
#include "proxy/mover/durability.h"
#include "proxy/mover/lost_clients.h"
#include "proxy/mover/move_host.h"
#include "proxy/mover/node_link.h"
#include "proxy/mover/pacer.h"
#include "proxy/mover/pieces.h"
#include "proxy/mover/transfer.h"

namespace proxy::mover {

struct CarrierOptions {
  TransferSpec spec;
  LinkOptions link;
  conf::Milliseconds grace{10'000};  // Stands for durability where the target has none.
};

class Carrier {
 public:
  // `on_tick` is called a few times a second at least, from inside carry_out() too.
  Carrier(CarrierOptions options, MoveHost& host, Pacer& source, Pacer& target,
          LostClients& lost_clients, std::function<void()> on_tick);
  ~Carrier() { lift(); }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  // Not for Finish.
  [[nodiscard]] Event carry_out(const Action& action);
  // The first one, and what every event says beside its outcome.
  [[nodiscard]] Event start();

  // Between mover and nodes, both ways, both nodes.
  [[nodiscard]] std::uint64_t bytes() const { return source_.bytes + target_.bytes; }
  // With the node that has exchanged more: what a limit is about.
  [[nodiscard]] std::uint64_t busier_bytes() const {
    return std::max(source_.bytes, target_.bytes);
  }
  // Whether it was mostly for the nodes' rest that things waited, since this was last asked.
  [[nodiscard]] bool take_was_resting();
  // How long clients were held back, fence by fence, since this was last asked. Microseconds.
  [[nodiscard]] std::vector<std::uint32_t> take_pauses() { return std::exchange(pauses_us_, {}); }

 private:
  using Clock = NodeLink::Clock;
  template <class T>
  using OrLost = std::expected<T, NodeLost>;
  using Answer = OrLost<Outcome>;

  // One node and what is exchanged with it.
  struct End {
    End(const LinkOptions& options, LostClients& lost_clients, Pacer& pacer_of_node)
        : link(options, lost_clients), pacer(pacer_of_node) {}

    NodeLink link;
    Pacer& pacer;
    // What an exchange of next to nothing takes, which is not the node's time. Follows the shortest
    // of late.
    std::uint64_t round_trip_us = std::numeric_limits<std::uint64_t>::max() / 2;
    std::uint64_t asked = 0;  // Of the pacer, since it was last settled.
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] Answer act(const Connect&);
  [[nodiscard]] Answer act(const Scan& scan);
  [[nodiscard]] Answer act(const Read& read);
  [[nodiscard]] Answer act(const Write& write);
  [[nodiscard]] Answer act(const Remove& remove);
  [[nodiscard]] Answer act(const ReadPiece& read);
  [[nodiscard]] Answer act(const WritePiece& write);
  [[nodiscard]] Answer act(const Publish& publish);
  [[nodiscard]] Answer act(const RenewGroups& renew);
  [[nodiscard]] Answer act(const CatchFeeds&);
  [[nodiscard]] Answer act(const Fence& fence);
  [[nodiscard]] Answer act(const LiftFence&);
  [[nodiscard]] Answer act(const PutMarker& marker);
  [[nodiscard]] Answer act(const Commit& commit);
  [[nodiscard]] Answer act(const AskDurability&);
  [[nodiscard]] Answer act(const Vouch& vouch);
  [[nodiscard]] Answer act(const GiveBack& give_back);
  [[nodiscard]] Answer act(const Collected& collected);
  [[nodiscard]] Answer act(const Wait& wait);
  [[nodiscard]] Answer act(const Finish&);

  [[nodiscard]] OrLost<void> open(Side side);
  // How many of the keys, from the first one on, make up one step, and their bytes about.
  struct Step {
    std::size_t keys = 0;
    std::uint64_t bytes = 0;                // Of those that are read.
    std::vector<std::uint64_t> large = {};  // Per key: its bytes if it is large, else 0,
    std::vector<bool> gone = {};            // and whether there is no such key.
  };
  [[nodiscard]] OrLost<Step> measure(std::span<const std::string> keys);
  // What one step may move.
  [[nodiscard]] std::uint64_t chunk() const;
  // Whether steps are to be so small that a node's clients hardly notice. Never under a fence,
  // where clients wait for its end.
  [[nodiscard]] bool is_gentle() const;
  [[nodiscard]] PieceRules piece_rules() const;
  [[nodiscard]] Ask asker(Side side, Database database);

  // Waits until `bytes` may be exchanged and the node has had its rest. Under a fence never: it
  // becomes debt.
  [[nodiscard]] OrLost<void> ask(Side side, std::uint64_t bytes);
  [[nodiscard]] OrLost<NodeLink::Replies> exchange(Side side);
  void note_busy(End& node, std::uint64_t took_us);
  void settle(Side side);
  // Reads the feeds until `until`, or until something is to be told.
  [[nodiscard]] OrLost<void> watch(Clock::time_point until);
  [[nodiscard]] Wish wish();
  void lift();
  void end_pause();
  [[nodiscard]] std::uint64_t held_ms() const;  // Clients, by the fence of now.

  [[nodiscard]] Event event_of(Outcome outcome);
  [[nodiscard]] End& end(Side side) { return side == Side::Source ? source_ : target_; }
  [[nodiscard]] NodeLink& link(Side side) { return end(side).link; }
  [[nodiscard]] const std::string& name(Side side) const;
  [[nodiscard]] std::uint64_t now_us() const;
  [[nodiscard]] std::uint64_t now_ms() const { return now_us() / 1000; }

  CarrierOptions options_;
  MoveHost& host_;
  std::function<void()> on_tick_;
  End source_;
  End target_;
  std::string marker_key_;
  std::string piece_key_;
  DurabilityWatch durability_;
  std::string known_target_;  // Its run id when the marker was last written or found.

  bool is_fenced_ = false;
  Clock::time_point fenced_at_;
  Clock::time_point fenced_until_;
  std::vector<std::uint32_t> pauses_us_;

  std::uint64_t rested_us_ = 0;  // Waited for the nodes' rest, and for anything else,
  std::uint64_t waited_us_ = 0;  // since take_was_resting().

  Wish wish_ = Wish::Run;
  Clock::time_point wish_at_;
};

}  // namespace proxy::mover
