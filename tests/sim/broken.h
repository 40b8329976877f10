// Flaws: ways in which a move could be wrong, put in from outside of the code that moves. The
// simulation must find each of them, or it would not find the like in the code.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "proxy/mover/transfer.h"

namespace sim {

enum class Flaw : std::uint8_t {
  None,
  SkipsFence,
  LeavesLostClients,
  DropsSourceNotices,
  ForgetsAfterReading,
  IgnoresSourceFlush,
  DropsTargetNotices,
  SkipsStreams,
  SkipsLastCopy,
  DropsExpiry,
  ForgetsPurge,
  LeavesOldMovers,
  CollectsEarly,
  TrustsAnyTarget,
  IgnoresTargetFlush,
  AbortsWithoutPurge,
  ForgetsJournal,
  HidesLostNodes,
  NeverLiftsFence,
  AcknowledgesEarly,
  PublishesFirst,
  SendsToAnyProcess,
  PublishesUnchecked,
  IgnoresChangeInPieces,
  SkipsRenewal,
  LeavesPieces,
  ForgetsLateDatabases,
  LastCopyOfDatabase0,
  PurgesDatabase0,
  ForgetsSelect,
};

struct FlawText {
  Flaw flaw = Flaw::None;
  const char* name = nullptr;
  const char* invariant = nullptr;  // That it breaks.
  const char* what = nullptr;
};
std::span<const FlawText> flaws();

// Stands between a Transfer and whoever carries its actions out.
class Tamperer {
 public:
  explicit Tamperer(Flaw flaw) : flaw_(flaw) {}

  void change(proxy::mover::Event& event, const proxy::mover::Action& last);
  void change(proxy::mover::Action& action);
  void change(proxy::mover::TransferSpec& spec) const;
  // Instead of carrying it out.
  std::optional<proxy::mover::Outcome> answer(const proxy::mover::Action& action);

 private:
  Flaw flaw_;
  bool is_fenced_ = false;
  std::string in_pieces_;  // The key that goes so.
  std::uint64_t fenced_at_ms_ = 0;
};

}  // namespace sim
