#include "proxy/mover/durability.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/mover/info_field.h"
#include "proxy/mover/replies.h"

namespace proxy::mover {

namespace {

constexpr std::uint64_t kAofLagMs = 2000;
constexpr std::uint64_t kSaveAgainMs = 1000;  // After one that failed, or while another one runs.

DurabilityWatch::Verdict waits_for(std::string what) {
  return {.durability = {.is_durable = false, .waits_for = std::move(what)}};
}

DurabilityWatch::Verdict durable() { return {.durability = {.is_durable = true, .waits_for = {}}}; }

// Of "ip=10.0.0.7,port=6379,state=online,offset=42,lag=1".
std::optional<std::uint64_t> online_offset(std::string_view replica) {
  constexpr std::string_view kOffset = ",offset=";
  const std::size_t at = replica.find(kOffset);
  if (at == std::string_view::npos || replica.find("state=online") == std::string_view::npos)
    return std::nullopt;
  return number_of(replica.substr(at + kOffset.size()));
}

}  // namespace

PersistenceFacts parse_persistence(std::string_view persistence, std::string_view replication,
                                   std::string_view save, std::string_view appendfsync) {
  PersistenceFacts facts;
  facts.has_aof = info_field(persistence, "aof_enabled") == "1";
  facts.aof_writes_ok = info_field(persistence, "aof_last_write_status") == "ok";
  facts.aof_sync_pending = info_field(persistence, "aof_pending_bio_fsync") != "0";
  facts.aof_never_syncs = appendfsync == "no";
  facts.has_save_points = !save.empty();
  facts.is_saving = info_field(persistence, "rdb_bgsave_in_progress") != "0";
  facts.last_save_ok = info_field(persistence, "rdb_last_bgsave_status") == "ok";
  facts.offset = number_of(info_field(replication, "master_repl_offset"));
  const std::uint64_t replicas = number_of(info_field(replication, "connected_slaves"));
  for (std::uint64_t i = 0; i < replicas; ++i) {
    const auto offset = online_offset(info_field(replication, fmt::format("slave{}", i)));
    if (offset) facts.replica_offsets.push_back(*offset);
  }
  return facts;
}

void DurabilityWatch::on_marker(std::uint64_t now_ms) {
  marker_at_ms_ = now_ms;
  marker_offset_.reset();
  // A save that was begun before holds no marker.
  if (save_ == Save::Begun) save_ = Save::NotAsked;
}

DurabilityWatch::Verdict DurabilityWatch::judge(const PersistenceFacts& facts,
                                                std::uint64_t now_ms) {
  if (!marker_offset_) marker_offset_ = facts.offset;
  if (std::ranges::any_of(facts.replica_offsets,
                          [this](std::uint64_t offset) { return offset >= *marker_offset_; })) {
    return durable();
  }
  if (facts.has_aof && !facts.aof_never_syncs) {
    if (!facts.aof_writes_ok) return waits_for("its AOF can't be written");
    if (facts.aof_sync_pending || now_ms < marker_at_ms_ + kAofLagMs)
      return waits_for("its AOF to be synced");
    return durable();
  }
  if (facts.has_save_points && save_ != Save::Forbidden) return judge_save(facts, now_ms);
  if (!facts.replica_offsets.empty()) return waits_for("a replica to acknowledge");
  return judge_grace(now_ms);
}

DurabilityWatch::Verdict DurabilityWatch::judge_save(const PersistenceFacts& facts,
                                                     std::uint64_t now_ms) {
  if (save_ == Save::Begun && !facts.is_saving) {
    if (facts.last_save_ok) return durable();
    save_ = Save::NotAsked;
    ask_save_at_ms_ = now_ms + kSaveAgainMs;
  }
  Verdict verdict = waits_for(facts.last_save_ok || facts.is_saving
                                  ? "its RDB file to be saved"
                                  : "its RDB file to be saved; the last try has failed");
  verdict.wants_save = save_ == Save::NotAsked && now_ms >= ask_save_at_ms_;
  return verdict;
}

DurabilityWatch::Verdict DurabilityWatch::judge_grace(std::uint64_t now_ms) const {
  const std::uint64_t end_ms = marker_at_ms_ + grace_ms_;
  if (now_ms >= end_ms) return durable();
  return waits_for(fmt::format("the grace time: {} s more", (end_ms - now_ms + 999) / 1000));
}

// An error but for NOPERM means that something else is being saved: later, then.
void DurabilityWatch::on_save(std::string_view reply, std::uint64_t now_ms) {
  if (reply.starts_with('+')) {
    save_ = Save::Begun;
  } else if (reply.starts_with("-NOPERM")) {
    save_ = Save::Forbidden;
  } else {
    ask_save_at_ms_ = now_ms + kSaveAgainMs;
  }
}

}  // namespace proxy::mover
