#include "proxy/mover/stream_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "proxy/mover/replies.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {
namespace {

template <class T>
using OrLost = std::expected<T, NodeLost>;

constexpr std::uint64_t kFactsBytes = 1000;   // Of a few questions and their replies.
constexpr std::uint64_t kPendingBytes = 100;  // Of a pending entry, about.
constexpr std::size_t kIdsOfCommand = 100;
constexpr std::int64_t kClockMs = 5;  // So exact is a time made of TIME and an idle time.

// Calls `take` with each field's name and the cursor at its value, which it must consume.
template <class Take>
bool read_fields(resp::ReplyCursor& cursor, const Take& take) {
  const auto header = cursor.read_header();
  if (!header || (header->type != '%' && header->type != '*')) return false;
  const std::int64_t fields = header->type == '%' ? header->count : header->count / 2;
  for (std::int64_t i = 0; i < fields; ++i) {
    const auto name = cursor.read_bulk();
    if (!name || !take(*name)) return false;
  }
  return true;
}

std::string text_of(std::string_view raw) {
  resp::ReplyCursor cursor(raw);
  if (const auto number = cursor.read_integer()) return fmt::format("{}", *number);
  return std::string(bulk_of(raw));
}

std::uint64_t count_of(std::string_view raw) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(integer_of(raw), 0));
}

bool parse_stream(std::string_view reply, StreamFacts& facts) {
  resp::ReplyCursor cursor(reply);
  return read_fields(cursor, [&](std::string_view name) {
    const std::string_view raw = cursor.read_raw();
    if (name == "length") facts.length = count_of(raw);
    if (name == "last-generated-id") facts.last_id = text_of(raw);
    if (name == "entries-added") facts.entries_added = text_of(raw);
    if (name == "max-deleted-entry-id") facts.max_deleted_id = text_of(raw);
    return !raw.empty();
  });
}

bool parse_groups(std::string_view reply, StreamFacts& facts) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return false;
  for (std::int64_t i = 0; i < header->count; ++i) {
    StreamGroup& group = facts.groups.emplace_back();
    const bool is_good = read_fields(cursor, [&](std::string_view name) {
      const std::string_view raw = cursor.read_raw();
      if (name == "name") group.name = text_of(raw);
      if (name == "pending") group.pending = count_of(raw);
      if (name == "last-delivered-id") group.last_id = text_of(raw);
      if (name == "entries-read") {
        group.entries_read = raw.starts_with(':') ? text_of(raw) : "-1";  // A null: unknown.
      }
      return !raw.empty();
    });
    if (!is_good) return false;
  }
  return true;
}

bool parse_consumers(std::string_view reply, StreamGroup& group) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return false;
  for (std::int64_t i = 0; i < header->count; ++i) {
    StreamConsumer& consumer = group.consumers.emplace_back();
    const bool is_good = read_fields(cursor, [&](std::string_view name) {
      const std::string_view raw = cursor.read_raw();
      if (name == "name") consumer.name = text_of(raw);
      if (name == "pending") consumer.pending = count_of(raw);
      if (name == "idle") consumer.idle_ms = integer_of(raw);
      return !raw.empty();
    });
    if (!is_good) return false;
  }
  std::ranges::sort(group.consumers, {}, &StreamConsumer::name);
  return true;
}

// Whether the group can't have changed since `since_ms`: all that adds pending entries or moves
// them to others touches a consumer, all that takes some away changes their number.
bool is_unchanged(const StreamGroup& source, const StreamGroup& target, std::int64_t now_ms,
                  std::int64_t since_ms) {
  if (source.pending != target.pending || source.last_id != target.last_id) return false;
  if (!target.entries_read.empty() && source.entries_read != target.entries_read) return false;
  if (source.consumers.size() != target.consumers.size()) return false;
  for (std::size_t i = 0; i < source.consumers.size(); ++i) {
    const StreamConsumer& consumer = source.consumers[i];
    if (consumer.name != target.consumers[i].name) return false;
    if (consumer.pending != target.consumers[i].pending) return false;
    if (now_ms - consumer.idle_ms >= since_ms - kClockMs) return false;
  }
  return true;
}

using PendingById = std::map<std::string, PendingEntry>;

OrLost<PendingById> read_pending(Side side, const std::string& key, const std::string& group,
                                 const Ask& ask) {
  PendingById entries;
  std::string from = "-";
  for (;;) {
    const auto replies = ask({{"TIME"}, pending_command(key, group, from, "+", kElementsMax)},
                             kElementsMax * kPendingBytes);
    if (!replies) return std::unexpected(replies.error());
    const auto page = parse_pending((*replies)[1], time_of((*replies)[0]).value_or(0));
    if (!page) return std::unexpected(refused(side, "XPENDING", (*replies)[1]));
    for (const PendingEntry& entry : *page) entries.emplace(entry.id, entry);
    if (page->size() < kElementsMax) return entries;
    from = "(" + page->back().id;
  }
}

bool is_alike(const PendingEntry& a, const PendingEntry& b) {
  return a.consumer == b.consumer && a.deliveries == b.deliveries &&
         std::abs(a.delivered_at_ms - b.delivered_at_ms) <= kClockMs;
}

const StreamGroup* find_group(const StreamFacts& facts, const std::string& name) {
  const auto found = std::ranges::find(facts.groups, name, &StreamGroup::name);
  return found == facts.groups.end() ? nullptr : &*found;
}

bool has_consumer(const StreamGroup* group, const std::string& name) {
  if (group == nullptr) return false;
  return std::ranges::binary_search(group->consumers, name, {}, &StreamConsumer::name);
}

// The commands that make a group of the target like the source's.
OrLost<std::vector<Words>> alike_group(const std::string& key, const StreamGroup& group,
                                       const StreamGroup* at_target, bool has_counters,
                                       const Ask& source, const Ask& target) {
  const auto wanted = read_pending(Side::Source, key, group.name, source);
  if (!wanted) return std::unexpected(wanted.error());
  PendingById there;
  if (at_target != nullptr) {
    auto found = read_pending(Side::Target, key, group.name, target);
    if (!found) return std::unexpected(std::move(found).error());
    there = std::move(*found);
  }
  std::vector<Words> commands;
  if (at_target == nullptr) commands.push_back({"XGROUP", "CREATE", key, group.name, "0"});
  for (const StreamConsumer& consumer : group.consumers) {
    if (has_consumer(at_target, consumer.name)) continue;
    commands.push_back({"XGROUP", "CREATECONSUMER", key, group.name, consumer.name});
  }
  for (const auto& [id, entry] : there) {
    if (!wanted->contains(id)) commands.push_back({"XACK", key, group.name, id});
  }
  std::vector<PendingEntry> changed;
  for (const auto& [id, entry] : *wanted) {
    const auto found = there.find(id);
    if (found == there.end() || !is_alike(found->second, entry)) changed.push_back(entry);
  }
  claim(commands, key, group.name, changed);
  if (at_target != nullptr) {
    for (const StreamConsumer& consumer : at_target->consumers) {
      if (has_consumer(&group, consumer.name)) continue;
      commands.push_back({"XGROUP", "DELCONSUMER", key, group.name, consumer.name});
    }
  }
  commands.push_back(group_position(key, group, has_counters));
  return commands;
}

// An entry that is not in the stream any more can't be made pending: XCLAIM leaves it out.
bool has_claimed_all(const Words& command, std::string_view reply) {
  if (command.front() != "XCLAIM") return true;
  const auto header = resp::ReplyCursor(reply).read_header();
  const auto time = std::ranges::find(command, "TIME");
  return header && header->count == time - command.begin() - 5;
}

OrLost<GroupsRenewed> carry_out(const std::vector<Words>& commands, const Ask& target) {
  constexpr std::size_t kAtOnce = 200;
  for (std::size_t begin = 0; begin < commands.size(); begin += kAtOnce) {
    const std::vector<Words> part(
        commands.begin() + static_cast<std::ptrdiff_t>(begin),
        commands.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kAtOnce, commands.size())));
    std::uint64_t bytes = 0;
    for (const Words& command : part) bytes += bytes_of(command);
    const auto replies = target(part, bytes);
    if (!replies) return std::unexpected(replies.error());
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::string_view reply = (*replies)[i];
      if (is_error(reply)) {
        return GroupsRenewed{fate_of(error_text(reply)),
                             fmt::format("{}: {}", part[i].front(), error_text(reply))};
      }
      if (!has_claimed_all(part[i], reply)) {
        return GroupsRenewed{WriteFate::Incomplete,
                             "entries were deleted that are pending in its groups"};
      }
    }
  }
  return GroupsRenewed{};
}

}  // namespace

std::uint64_t StreamFacts::pending() const {
  std::uint64_t sum = 0;
  for (const StreamGroup& group : groups) sum += group.pending;
  return sum;
}

OrLost<std::optional<StreamFacts>> read_stream_facts(Side side, const std::string& key,
                                                     const Ask& ask) {
  auto replies = ask({{"TIME"}, {"XINFO", "STREAM", key}, {"XINFO", "GROUPS", key}}, kFactsBytes);
  if (!replies) return std::unexpected(replies.error());
  StreamFacts facts;
  facts.read_at_ms = time_of((*replies)[0]).value_or(0);
  for (const std::string_view reply : *replies) {
    if (reply.starts_with("-ERR no such key") || reply.starts_with("-WRONGTYPE")) {
      return std::nullopt;
    }
  }
  if (!parse_stream((*replies)[1], facts) || !parse_groups((*replies)[2], facts)) {
    return std::unexpected(refused(side, "XINFO", (*replies)[1]));
  }
  if (facts.groups.empty()) return facts;
  std::vector<Words> questions;
  for (const StreamGroup& group : facts.groups) {
    questions.push_back({"XINFO", "CONSUMERS", key, group.name});
  }
  replies = ask(questions, kFactsBytes * questions.size());
  if (!replies) return std::unexpected(replies.error());
  std::vector<StreamGroup> groups;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const std::string_view reply = (*replies)[i];
    if (reply.starts_with("-NOGROUP") || reply.starts_with("-ERR no such key")) continue;
    if (!parse_consumers(reply, facts.groups[i])) {
      return std::unexpected(refused(side, "XINFO", reply));
    }
    groups.push_back(std::move(facts.groups[i]));
  }
  facts.groups = std::move(groups);
  return facts;
}

Words pending_command(const std::string& key, const std::string& group, const std::string& from,
                      const std::string& to, std::uint64_t count) {
  return {"XPENDING", key, group, from, to, fmt::format("{}", count)};
}

std::optional<std::vector<PendingEntry>> parse_pending(std::string_view reply,
                                                       std::int64_t now_ms) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return std::nullopt;
  std::vector<PendingEntry> entries;
  for (std::int64_t i = 0; i < header->count; ++i) {
    const auto fields = cursor.read_header();
    const auto id = cursor.read_bulk();
    const auto consumer = cursor.read_bulk();
    const auto idle_ms = cursor.read_integer();
    const auto deliveries = cursor.read_integer();
    if (!fields || !id || !consumer || !idle_ms || !deliveries) return std::nullopt;
    entries.push_back({std::string(*id), std::string(*consumer), now_ms - *idle_ms, *deliveries});
  }
  return entries;
}

// XCLAIM <name> <group> <consumer> 0 <id>... TIME <ms> RETRYCOUNT <n> FORCE JUSTID, for those in
// one go that agree in all but the id.
void claim(std::vector<Words>& commands, const std::string& name, const std::string& group,
           const std::vector<PendingEntry>& entries) {
  for (std::size_t begin = 0; begin < entries.size();) {
    const PendingEntry& first = entries[begin];
    Words command = {"XCLAIM", name, group, first.consumer, "0"};
    std::size_t end = begin;
    while (end < entries.size() && end - begin < kIdsOfCommand &&
           entries[end].consumer == first.consumer &&
           entries[end].delivered_at_ms == first.delivered_at_ms &&
           entries[end].deliveries == first.deliveries) {
      command.push_back(entries[end++].id);
    }
    for (std::string word :
         {std::string("TIME"), fmt::format("{}", first.delivered_at_ms), std::string("RETRYCOUNT"),
          fmt::format("{}", first.deliveries), std::string("FORCE"), std::string("JUSTID")}) {
      command.push_back(std::move(word));
    }
    commands.push_back(std::move(command));
    begin = end;
  }
}

Words group_position(const std::string& name, const StreamGroup& group, bool has_counters) {
  Words command = {"XGROUP", "SETID", name, group.name, group.last_id};
  if (has_counters && !group.entries_read.empty()) {
    command.insert(command.end(), {"ENTRIESREAD", group.entries_read});
  }
  return command;
}

Words stream_position(const std::string& name, const StreamFacts& facts, bool has_counters) {
  Words command = {"XSETID", name, facts.last_id};
  if (has_counters && !facts.entries_added.empty()) {
    command.insert(command.end(),
                   {"ENTRIESADDED", facts.entries_added, "MAXDELETEDID", facts.max_deleted_id});
  }
  return command;
}

OrLost<GroupsRenewed> renew_groups(const RenewGroups& renew, bool target_has_counters,
                                   const Ask& source, const Ask& target) {
  const auto at_source = read_stream_facts(Side::Source, renew.key, source);
  if (!at_source) return std::unexpected(at_source.error());
  const auto at_target = read_stream_facts(Side::Target, renew.key, target);
  if (!at_target) return std::unexpected(at_target.error());
  GroupsRenewed renewed;
  if (!*at_source || !*at_target || (*at_source)->length != (*at_target)->length) {
    return GroupsRenewed{WriteFate::Incomplete, "its copy has other entries"};
  }
  const StreamFacts& from = **at_source;
  const StreamFacts& to = **at_target;
  std::vector<Words> commands;
  std::uint64_t pending = 0;
  std::vector<const StreamGroup*> changed;
  for (const StreamGroup& group : from.groups) {
    const StreamGroup* there = find_group(to, group.name);
    if (there != nullptr &&
        is_unchanged(group, *there, from.read_at_ms, renew.unchanged_since_ms)) {
      continue;
    }
    changed.push_back(&group);
    pending += group.pending + (there == nullptr ? 0 : there->pending);
  }
  if (pending > renew.pending_max) {
    return GroupsRenewed{
        WriteFate::Incomplete,
        fmt::format("its groups changed, and have {} pending entries", from.pending()),
        from.pending()};
  }
  for (const StreamGroup& group : to.groups) {
    if (find_group(from, group.name) != nullptr) continue;
    commands.push_back({"XGROUP", "DESTROY", renew.key, group.name});
  }
  for (const StreamGroup* group : changed) {
    auto alike = alike_group(renew.key, *group, find_group(to, group->name), target_has_counters,
                             source, target);
    if (!alike) return std::unexpected(std::move(alike).error());
    std::ranges::move(*alike, std::back_inserter(commands));
  }
  if (const Words position = stream_position(renew.key, from, target_has_counters);
      position != stream_position(renew.key, to, target_has_counters)) {
    commands.push_back(position);
  }
  auto carried_out = carry_out(commands, target);
  if (carried_out) {
    carried_out->pending = from.pending();
    carried_out->read_at_ms = from.read_at_ms;
  }
  return carried_out;
}

}  // namespace proxy::mover
