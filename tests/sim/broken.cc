#include "tests/sim/broken.h"

#include <algorithm>
#include <array>

namespace sim {

using namespace proxy::mover;  // NOLINT(google-build-using-namespace): its actions and outcomes.

namespace {

constexpr std::array kFlaws = {
    FlawText{Flaw::SkipsFence, "skips-fence", "I1", "commits without a fence"},
    FlawText{Flaw::LeavesLostClients, "leaves-lost-clients", "I1",
             "does not end connections that broke with commands on them"},
    FlawText{Flaw::AcknowledgesEarly, "acknowledges-early", "I1",
             "acknowledges a fence before all that was sent is answered"},
    FlawText{Flaw::DropsSourceNotices, "drops-source-notices", "I2", "does not hear the source"},
    FlawText{Flaw::ForgetsAfterReading, "forgets-after-reading", "I2",
             "takes a name out of the dirty ones after its key was read, not before"},
    FlawText{Flaw::IgnoresSourceFlush, "ignores-source-flush", "I3",
             "does not hear that the source was flushed"},
    FlawText{Flaw::DropsExpiry, "drops-expiry", "I3", "copies values without their expiry"},
    FlawText{Flaw::DropsTargetNotices, "drops-target-notices", "I4",
             "does not hear what happens to its copies"},
    FlawText{Flaw::SkipsStreams, "skips-streams", "I4",
             "copies no stream under the fence that nothing was heard of"},
    FlawText{Flaw::SkipsLastCopy, "skips-last-copy", "I4",
             "does not wait for the feeds under the fence"},
    FlawText{Flaw::LeavesOldMovers, "leaves-old-movers", "I4",
             "does not end the connections of an earlier mover"},
    FlawText{Flaw::CollectsEarly, "collects-early", "I4",
             "collects before the target would keep what it has"},
    FlawText{Flaw::TrustsAnyTarget, "trusts-any-target", "I2",
             "goes on with a target that came back without its marker"},
    FlawText{Flaw::SendsToAnyProcess, "sends-to-any-process", "I2",
             "sends commands to a restarted target before its mover has looked at it"},
    FlawText{Flaw::IgnoresTargetFlush, "ignores-target-flush", "I4",
             "does not hear that the target was flushed"},
    FlawText{Flaw::ForgetsPurge, "forgets-purge", "I4", "leaves on the target what it finds there"},
    FlawText{Flaw::AbortsWithoutPurge, "aborts-without-purge", "I5", "leaves its copies behind"},
    FlawText{Flaw::ForgetsJournal, "forgets-journal", "I6",
             "begins with all slots again after a restart"},
    FlawText{Flaw::PublishesFirst, "publishes-first", "I6",
             "lets the workers have a commit before the journal has it"},
    FlawText{Flaw::HidesLostNodes, "hides-lost-nodes", "I7",
             "connects again and goes on as if nothing had been missed"},
    FlawText{Flaw::PublishesUnchecked, "publishes-unchecked", "I4",
             "publishes a copy in pieces without a look at whether it is still there"},
    FlawText{Flaw::IgnoresChangeInPieces, "ignores-change-in-pieces", "I2",
             "does not hear of a key while it is copied in pieces"},
    FlawText{Flaw::SkipsRenewal, "skips-renewal", "I4",
             "does not look at the groups of large streams under the fence"},
    FlawText{Flaw::LeavesPieces, "leaves-pieces", "I5", "leaves half of a large value behind"},
    FlawText{Flaw::ForgetsLateDatabases, "forgets-late-databases", "I4",
             "does not see databases that come into use after it has connected"},
    FlawText{Flaw::LastCopyOfDatabase0, "last-copy-of-database-0", "I4",
             "copies only database 0 under the fence"},
    FlawText{Flaw::PurgesDatabase0, "purges-database-0", "I4",
             "leaves on the target what it finds in other databases than 0"},
    FlawText{Flaw::ForgetsSelect, "forgets-select", "I4",
             "takes a new connection to be in the database of the one before"},
    FlawText{Flaw::NeverLiftsFence, "never-lifts-fence", "I9", "does not see the time go by"},
};

bool is_pieces(const std::string& key) { return key.find("pieces:") != std::string::npos; }

}  // namespace

std::span<const FlawText> flaws() { return kFlaws; }

void Tamperer::change(Event& event, const Action& last) {
  switch (flaw_) {
    case Flaw::DropsSourceNotices:
      event.source.keys.clear();
      break;
    case Flaw::IgnoresSourceFlush:
      event.source.all = false;
      break;
    case Flaw::DropsTargetNotices:
      event.target.keys.clear();
      break;
    case Flaw::IgnoresTargetFlush:
      event.target.all = false;
      break;
    case Flaw::ForgetsAfterReading:
      if (const Read* read = std::get_if<Read>(&last)) {
        std::erase_if(event.source.keys, [&](const std::string& key) {
          return std::find(read->keys.begin(), read->keys.end(), key) != read->keys.end();
        });
      }
      break;
    case Flaw::IgnoresChangeInPieces:
      if (const ReadPiece* read = std::get_if<ReadPiece>(&last)) in_pieces_ = read->key;
      if (!std::holds_alternative<ReadPiece>(last) && !std::holds_alternative<WritePiece>(last) &&
          !std::holds_alternative<Publish>(last)) {
        break;
      }
      std::erase(event.source.keys, in_pieces_);
      break;
    case Flaw::PublishesUnchecked:
      std::erase_if(event.target.keys, is_pieces);
      break;
    case Flaw::LeavesPieces:
      if (Scanned* scanned = std::get_if<Scanned>(&event.outcome)) {
        std::erase_if(scanned->keys, is_pieces);
      }
      break;
    case Flaw::SkipsStreams:
      // Seen as no stream; change(Action) makes it one again.
      if (ReadDone* done = std::get_if<ReadDone>(&event.outcome)) {
        for (KeyValue& value : done->values) {
          if (value.is_stream()) value.payload[0] = '\x7f';
        }
      }
      break;
    case Flaw::ForgetsLateDatabases:
      if (Caught* caught = std::get_if<Caught>(&event.outcome)) caught->databases = {};
      break;
    case Flaw::TrustsAnyTarget:
      if (Connected* connected = std::get_if<Connected>(&event.outcome)) {
        connected->marker = ~0ULL >> 1;
      }
      break;
    case Flaw::NeverLiftsFence:
      if (std::holds_alternative<Fenced>(event.outcome)) fenced_at_ms_ = event.now_ms;
      if (std::holds_alternative<Commit>(last) || std::holds_alternative<NodeLost>(event.outcome)) {
        fenced_at_ms_ = 0;
      }
      if (fenced_at_ms_ != 0) event.now_ms = fenced_at_ms_;
      break;
    default:
      break;
  }
}

void Tamperer::change(Action& action) {
  Write* write = std::get_if<Write>(&action);
  if (write == nullptr) return;
  for (KeyValue& value : write->values) {
    if (flaw_ == Flaw::DropsExpiry) value.expire_at_ms = -1;
    if (flaw_ == Flaw::SkipsStreams && value.exists && value.payload[0] == '\x7f') {
      value.payload[0] = '\x0f';
    }
  }
}

void Tamperer::change(TransferSpec& spec) const {
  if (flaw_ != Flaw::ForgetsJournal) return;
  for (const KeptSlots& kept : spec.kept) spec.slots.add(kept.slots);
  spec.kept.clear();
}

std::optional<Outcome> Tamperer::answer(const Action& action) {
  const bool is_fence = std::holds_alternative<Fence>(action);
  if (is_fence) is_fenced_ = true;
  if (std::holds_alternative<Commit>(action) || std::holds_alternative<LiftFence>(action)) {
    is_fenced_ = false;
  }
  const Scan* scan = std::get_if<Scan>(&action);
  const bool is_purge = scan != nullptr && scan->side == Side::Target;
  switch (flaw_) {
    case Flaw::SkipsFence:
      return is_fence ? std::optional<Outcome>(Fenced{}) : std::nullopt;
    case Flaw::SkipsLastCopy:
      if (is_fenced_ && std::holds_alternative<CatchFeeds>(action)) return Caught{};
      return std::nullopt;
    case Flaw::CollectsEarly:
      if (std::holds_alternative<AskDurability>(action)) return Durability{true, ""};
      return std::nullopt;
    case Flaw::SkipsRenewal:
      if (std::holds_alternative<RenewGroups>(action)) return GroupsRenewed{};
      return std::nullopt;
    case Flaw::LeavesPieces:
      if (const Remove* remove = std::get_if<Remove>(&action);
          remove != nullptr && remove->keys.size() == 1 && is_pieces(remove->keys[0])) {
        return Removed{};
      }
      return std::nullopt;
    case Flaw::LastCopyOfDatabase0:
      if (const Write* write = std::get_if<Write>(&action);
          write != nullptr && is_fenced_ && write->database != 0) {
        return WriteDone{};
      }
      return std::nullopt;
    case Flaw::PurgesDatabase0:
      return is_purge && scan->database != 0 ? std::optional<Outcome>(Scanned{}) : std::nullopt;
    case Flaw::ForgetsPurge:
      return is_purge ? std::optional<Outcome>(Scanned{}) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace sim
