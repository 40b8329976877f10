#include "proxy/control/stray_survey.h"

#include <algorithm>
#include <utility>

#include "proxy/resp/reserved_key.h"
#include "proxy/resp/stray_notes.h"
#include "slots/key_hash.h"
#include "slots/key_slot.h"

namespace proxy::control {

namespace {

constexpr const char* kKeysPerScan = "100";
constexpr std::uint64_t kMeasuredMax = 500;  // Keys of each tally.
constexpr std::size_t kNamesMax = 20;        // Of conflicts.
constexpr std::size_t kNameBytesMax = 200;

}  // namespace

StraySurvey::StraySurvey(uv_loop_t* loop, const slots::SlotMap& map,
                         std::vector<SurveyedNode> nodes, std::string client_name,
                         conf::Milliseconds connect, conf::Milliseconds answer, Done done)
    : loop_(loop),
      map_(map),
      client_name_(std::move(client_name)),
      connect_(connect),
      answer_(answer),
      done_(std::move(done)),
      starting_(nodes.size()),
      scanning_(nodes.size()) {
  for (SurveyedNode& surveyed : nodes) {
    Node& node = nodes_.emplace_back();
    node.surveyed = std::move(surveyed);
    node.client = std::make_unique<NodeClient>(loop);
    node.pause = std::make_unique<net::LoopTimer>(loop);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) start(i);
}

// Connects, and reads what the node was given by collections that did not come to their end.
void StraySurvey::start(std::size_t index) {
  Node& node = nodes_[index];
  node.client->on_lost([this, index](const slots::Error& error) { end(index, error); });
  node.client->connect(node.surveyed.asked.address, connect_, [this, index](slots::Status open) {
    if (!open) return end(index, open.error());
    const AskedNode& asked = nodes_[index].surveyed.asked;
    const auto take_notes = [this, index](slots::Result<Reply> notes) {
      if (has_ended_) return;
      if (!notes) return end(index, notes.error());
      if (notes->is_error()) return end(index, {slots::Errc::Unavailable, notes->text});
      for (const Reply& note : notes->elements) nodes_[index].given.insert(note.text);
      if (--starting_ > 0) return;
      for (std::size_t i = 0; i < nodes_.size(); ++i) scan(i);
    };
    nodes_[index].client->log_in(asked.username, asked.password, client_name_, answer_,
                                 [this, index, take_notes](slots::Status in) {
                                   if (!in) return end(index, in.error());
                                   nodes_[index].client->call(
                                       {"SMEMBERS", std::string(resp::kNotedKey)}, answer_,
                                       take_notes);
                                 });
  });
}

void StraySurvey::scan(std::size_t index) {
  Node& node = nodes_[index];
  node.asked_at_ms = uv_now(loop_);
  ask(index, index, {"SCAN", node.cursor, "COUNT", kKeysPerScan},
      [this, index](const Reply& reply) { on_page(index, reply); });
}

void StraySurvey::on_page(std::size_t index, const Reply& reply) {
  if (!reply.is_array() || reply.elements.size() != 2 || !reply.elements[1].is_array()) {
    return end(index, {slots::Errc::Unavailable,
                       reply.is_error() ? reply.text : "does not answer SCAN as a redis-server"});
  }
  nodes_[index].cursor = reply.elements[0].text;
  for (const Reply& key : reply.elements[1].elements) look_at(index, key.text);
}

void StraySurvey::look_at(std::size_t index, const std::string& key) {
  if (resp::is_reserved_key(key)) return;
  const slots::SlotId slot = slots::slot_of_key(key);
  const slots::NodeIndex owner = map_.owner(slot);
  Node& node = nodes_[index];
  if (owner == index || node.surveyed.kept.contains(slot)) return;
  const std::uint64_t hash = slots::key_hash(key);
  if (node.seen.size() < kDistinctMax && !node.seen.insert(hash).second) return;
  Tally& tally = tallies_[{index, owner}];
  const std::string note = resp::noted_name(node.surveyed.asked.name, key);
  // Given once: whatever the owner has under the name by now, or lacks, is newer than the stray.
  if (nodes_[owner].given.contains(note)) return count(tally, key, /*is_conflict=*/false);
  if (is_given_elsewhere(note, owner)) return count(tally, key, /*is_conflict=*/true);
  ask(index, owner, {"EXISTS", key}, [&tally, key](const Reply& exists) {
    count(tally, key, /*is_conflict=*/exists.integer != 0 || exists.is_error());
  });
  if (tally.measured_keys >= kMeasuredMax) return;
  ++tally.measured_keys;
  ask(index, index, {"MEMORY", "USAGE", key}, [&tally](const Reply& usage) {
    if (usage.integer > 0) tally.measured_bytes += static_cast<std::uint64_t>(usage.integer);
  });
}

// To a node that has given the slot away since: only the slot's history knows what is newer.
bool StraySurvey::is_given_elsewhere(const std::string& note, slots::NodeIndex owner) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i != owner && nodes_[i].given.contains(note)) return true;
  }
  return false;
}

void StraySurvey::count(Tally& tally, const std::string& key, bool is_conflict) {
  const slots::SlotId slot = slots::slot_of_key(key);
  slots::StrayMove::InSlot& in_slot = tally.slots[slot];
  in_slot.slot = slot;
  ++(is_conflict ? in_slot.conflicts : in_slot.keys);
  if (!is_conflict) return;
  tally.conflicts.push_back(slots::key_hash(key));
  if (tally.conflict_names.size() < kNamesMax && key.size() <= kNameBytesMax)
    tally.conflict_names.push_back(key);
}

void StraySurvey::ask(std::size_t index, std::size_t at, const Command& command,
                      std::function<void(const Reply&)> take) {
  ++nodes_[index].waiting;
  nodes_[at].client->call(command, answer_,
                          [this, index, at, take = std::move(take)](slots::Result<Reply> reply) {
                            if (has_ended_) return;
                            if (!reply) return end(at, reply.error());
                            take(*reply);
                            if (!has_ended_ && --nodes_[index].waiting == 0) on_counted(index);
                          });
}

void StraySurvey::on_counted(std::size_t index) {
  Node& node = nodes_[index];
  if (node.cursor != "0") {
    // Twice as long idle as the node was asked to work.
    const auto worked_ms = static_cast<std::int64_t>(uv_now(loop_) - node.asked_at_ms);
    node.pause->start(conf::Milliseconds(1 + 2 * worked_ms), [this, index] { scan(index); });
    return;
  }
  if (--scanning_ > 0) return;
  has_ended_ = true;
  done_(result());
}

std::vector<slots::StrayMove> StraySurvey::result() {
  std::vector<slots::StrayMove> pairs;
  for (auto& [nodes, tally] : tallies_) {
    slots::StrayMove& pair = pairs.emplace_back();
    pair.from = nodes_[nodes.first].surveyed.asked.name;
    pair.to = nodes_[nodes.second].surveyed.asked.name;
    for (const auto& [slot, in_slot] : tally.slots) pair.slots.push_back(in_slot);
    if (tally.measured_keys > 0)
      pair.bytes = tally.measured_bytes / tally.measured_keys * pair.keys();
    std::ranges::sort(tally.conflicts);
    pair.conflicts = std::move(tally.conflicts);
    std::ranges::sort(tally.conflict_names);
    pair.conflict_names = std::move(tally.conflict_names);
  }
  return pairs;
}

void StraySurvey::end(std::size_t index, const slots::Error& error) {
  if (std::exchange(has_ended_, true)) return;
  done_(std::unexpected(slots::Error(error).in("node " + nodes_[index].surveyed.asked.name)));
}

}  // namespace proxy::control
