#include "tests/sim/checker.h"

#include <fmt/format.h>

#include "proxy/resp/reserved_key.h"
#include "slots/key_slot.h"

namespace sim {
namespace {

using slots::slot_of_key;

[[noreturn]] void violated(const char* invariant, std::string what) {
  throw Violation{fmt::format("{}: {}", invariant, what)};
}

}  // namespace

void Checker::on_client_command(Node& node, const Command& command, const std::string& reply) {
  if (command.kind == Command::Kind::Flush) {
    std::vector<std::string> keys;
    const auto is_flushed = [&](const std::string& key) {
      return command.key.empty() || database_of(command.key) == database_of(key);
    };
    for (const auto& [key, entry] : shadow_) {
      if (&ownership_.owner(slot_of_key(key)) == &node && is_flushed(key)) keys.push_back(key);
    }
    for (const std::string& key : keys) change(node, key, std::nullopt);
    is_target_flushed_ = is_target_flushed_ || &node == target_;
    for (Kept& kept : kept_) {
      if (&node == target_ && command.key.empty()) kept.is_flushed = true;
      if (&node == target_ && !command.key.empty())
        kept.flushed_databases.insert(database_of(command.key));
      if (&node == source_) damaged_.add(kept.slots);  // Its copies too: who flushes wants that.
    }
    return;
  }
  const slots::SlotId slot = slot_of_key(command.key);
  const std::string what = fmt::format("{} ran {}", node.name(), to_string(command));
  if (&ownership_.owner(slot) != &node) violated("I1", what + ", and is not the owner");
  if (ownership_.is_fenced(slot)) violated("I1", what + " under the fence");
  if (ownership_.is_doubtful(slot)) violated("I2", what + ", but may have lost the slot");
  Dict one;
  if (auto found = shadow_.find(command.key); found != shadow_.end()) one.insert(*found);
  const Effect effect = apply(one, command, now_ms_);
  if (effect.reply != reply) {
    violated("I2, I3", fmt::format("{} and answered {} instead of {}", what, reply, effect.reply));
  }
  if (effect.has_changed) {
    change(node, command.key, one.empty() ? std::nullopt : std::optional(one.begin()->second));
  }
}

void Checker::on_mover_command(Node& node, const Command& command) {
  if (command.kind == Command::Kind::Barrier) {
    if (&node == target_) gone_from_target_.clear(), is_target_flushed_ = false;
    return;
  }
  if (proxy::resp::is_reserved_key(name_of(command.key))) {
    const bool is_piece = command.key.find("pieces:") != std::string::npos && &node == target_;
    if (command.key != node.marker_key && !is_piece)
      violated("I4", "the mover touched " + command.key);
    return;
  }
  const slots::SlotId slot = slot_of_key(command.key);
  const std::string what = fmt::format("the mover ran {} on {}", to_string(command), node.name());
  if (&ownership_.owner(slot) == &node) violated("I4", what + ", which owns it");
  if (&node != source_) return;
  for (const Kept& kept : kept_) {
    if (!kept.slots.contains(slot) || kept.is_flushed) continue;
    if (kept.is_lost) violated("I2", what + ", the only one to have it");
    if (target_->synced() < kept.needs_history)
      violated("I2", what + " before the target keeps it");
  }
}

void Checker::on_evicted(Node& node, const std::string& key) {
  if (proxy::resp::is_reserved_key(name_of(key))) return;
  const slots::SlotId slot = slot_of_key(key);
  if (&ownership_.owner(slot) != &node) {
    (&node == target_ ? gone_from_target_ : evicted_from_kept_).insert(key);
  } else if (ownership_.is_fenced(slot)) {
    evicted_in_fence_[key] = node.history_size();
  } else {
    change(node, key, std::nullopt);
  }
}

void Checker::on_restarted(Node& node, std::size_t cut) {
  std::vector<Record> left;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (record->node != &node || record->history_size <= cut) {
      left.push_back(std::move(*record));
    } else if (&ownership_.owner(slot_of_key(record->key)) == &node) {
      if (record->before) {
        shadow_[record->key] = *record->before;
      } else {
        shadow_.erase(record->key);
      }
    }
  }
  records_.assign(std::make_move_iterator(left.rbegin()), std::make_move_iterator(left.rend()));
  if (&node == source_) {
    adopt(node, [&](const std::string& key) {
      const slots::SlotId slot = slot_of_key(key);
      return damaged_earlier_.contains(slot) && &ownership_.owner(slot) == &node;
    });
  }
  for (const Collected& collected : collected_) {
    if (&node == source_ && cut < collected.needs_history) uncollected_.add(collected.slots);
  }
  for (Kept& kept : kept_) {
    if (&node == source_) damaged_.add(kept.slots);
    if (&node != target_ || cut >= kept.needs_history) continue;
    kept.is_lost = true;
    // An acknowledged flush and its loss: whatever is left is right.
    adopt(node, [&](const std::string& key) {
      return kept.slots.contains(slot_of_key(key)) &&
             (kept.is_flushed || kept.flushed_databases.contains(database_of(key)));
    });
  }
}

void Checker::on_lifted() {
  for (const auto& [key, history_size] : evicted_in_fence_) {
    change(*source_, history_size, key, std::nullopt);
  }
  evicted_in_fence_.clear();
}

void Checker::on_committed(const slots::SlotSet& group, bool is_target_restarted) {
  kept_.push_back({group, target_->marker_history(), is_target_restarted, false, {}});
  if (!is_target_restarted) {
    for (const auto& [key, history_size] : evicted_in_fence_) {
      if (!target_->find(key)) change(*source_, key, std::nullopt);
      evicted_from_kept_.insert(key);
    }
    for (const auto& [key, entry] : Dict(shadow_)) {
      const bool is_gone = is_target_flushed_ || gone_from_target_.contains(key);
      if (group.contains(slot_of_key(key)) && is_gone && !target_->find(key)) {
        change(*target_, key, std::nullopt);
      }
    }
    const std::string wrong = difference(*target_, group);
    if (!wrong.empty()) violated("I4", "at the commit " + wrong);
  }
  evicted_in_fence_.clear();
}

void Checker::on_given_back(const slots::SlotSet& slots) {
  const auto is_own_loss = [&](const std::string& key) {
    const slots::SlotId slot = slot_of_key(key);
    return slots.contains(slot) && (damaged_.contains(slot) || evicted_from_kept_.contains(key));
  };
  adopt(*source_, is_own_loss);
  for (const std::string& key : evicted_from_kept_) damaged_earlier_.add(slot_of_key(key));
  damaged_earlier_.add(damaged_);
  if (const std::string wrong = difference(*source_, slots); !wrong.empty()) {
    violated("I2", "given back, but " + wrong);
  }
  forget(slots);
}

void Checker::on_collected(const slots::SlotSet& slots) {
  collected_.push_back({slots, source_->history_size()});
  forget(slots);
}

void Checker::forget(const slots::SlotSet& slots) {
  std::erase_if(kept_, [&](const Kept& kept) {
    // Flushed, but the target may still come back from before, with part of the copies.
    const bool may_return = kept.is_flushed && target_->synced() < kept.needs_history;
    return slots.intersects(kept.slots) && !may_return;
  });
  if (kept_.empty()) damaged_ = {}, evicted_from_kept_.clear();
}

void Checker::check_owners(const slots::SlotSet& slots) {
  for (Node* node : {source_, target_}) {
    if (!node->is_up()) continue;
    slots::SlotSet own;
    for (const slots::SlotRange& range : slots.ranges()) {
      for (std::uint32_t at = range.first; at <= range.last; ++at) {
        const auto slot = static_cast<slots::SlotId>(at);
        const bool is_open = ownership_.is_doubtful(slot) || ownership_.is_fenced(slot);
        if (&ownership_.owner(slot) == node && !is_open) own.add(slot);
      }
    }
    if (const std::string wrong = difference(*node, own); !wrong.empty()) violated("I2, I3", wrong);
  }
}

void Checker::check_either(slots::SlotId slot) {
  if (damaged_.contains(slot)) return;
  slots::SlotSet slots;
  slots.add(slot);
  // What the source keeps of a database that was flushed since is for the human to know.
  std::set<std::string> but_for = evicted_from_kept_;
  for (const Kept& kept : kept_) {
    for (const auto& [key, entry] : source_->dict()) {
      if (kept.flushed_databases.contains(database_of(key))) but_for.insert(key);
    }
  }
  const std::string at_source = difference(*source_, slots, but_for);
  const std::string at_target = difference(*target_, slots);
  if (!at_source.empty() && !at_target.empty()) {
    violated("I2", fmt::format("left to a human, but {} and {}", at_source, at_target));
  }
}

void Checker::check_no_copies(const slots::SlotSet& slots) {
  for (Node* node : {source_, target_}) {
    for (const auto& [key, entry] : node->dict()) {
      const slots::SlotId slot = slot_of_key(key);
      if (key.find("pieces:") != std::string::npos)
        violated("I5", fmt::format("{} is left on {}", key, node->name()));
      if (!slots.contains(slot) || proxy::resp::is_reserved_key(name_of(key))) continue;
      if (node == source_ && uncollected_.contains(slot)) continue;
      if (&ownership_.owner(slot) != node) {
        violated("I4, I5", fmt::format("{} is left on {}", key, node->name()));
      }
    }
  }
}

void Checker::adopt(const Node& node, const std::function<bool(const std::string& key)>& which) {
  std::erase_if(shadow_, [&](const auto& item) { return which(item.first); });
  for (const auto& [key, entry] : node.dict()) {
    if (which(key)) shadow_[key] = entry;
  }
}

void Checker::change(const Node& node, const std::string& key, std::optional<Entry> entry) {
  change(node, node.history_size(), key, std::move(entry));
}

void Checker::change(const Node& node, std::size_t history_size, const std::string& key,
                     std::optional<Entry> entry) {
  auto found = shadow_.find(key);
  records_.push_back({&node, history_size, key,
                      found == shadow_.end() ? std::nullopt : std::optional(found->second)});
  if (entry) {
    shadow_[key] = *entry;
  } else if (found != shadow_.end()) {
    shadow_.erase(found);
  }
}

std::string Checker::difference(const Node& node, const slots::SlotSet& slots,
                                const std::set<std::string>& but_for) const {
  auto at_shadow = shadow_.begin();
  auto at_node = node.dict().begin();
  while (at_shadow != shadow_.end() || at_node != node.dict().end()) {
    // The next key of either, and what each has there.
    const bool is_in_node = at_node != node.dict().end() &&
                            (at_shadow == shadow_.end() || at_node->first <= at_shadow->first);
    const bool is_in_shadow =
        at_shadow != shadow_.end() && (!is_in_node || at_shadow->first == at_node->first);
    const std::string& key = is_in_node ? at_node->first : at_shadow->first;
    const Entry* right = is_in_shadow ? &(at_shadow++)->second : nullptr;
    const Entry* has = is_in_node ? &(at_node++)->second : nullptr;
    if (right != nullptr && !is_live(*right, now_ms_)) right = nullptr;
    if (has != nullptr && !is_live(*has, now_ms_)) has = nullptr;
    if (right == has || (right != nullptr && has != nullptr && *right == *has)) continue;
    if (!slots.contains(slot_of_key(key)) || but_for.contains(key)) continue;
    if (proxy::resp::is_reserved_key(name_of(key))) continue;
    return fmt::format("{} has {} at {} instead of {}", node.name(),
                       has == nullptr ? "nothing" : to_string(*has), key,
                       right == nullptr ? "nothing" : to_string(*right));
  }
  return "";
}

}  // namespace sim
