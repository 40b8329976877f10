#include "proxy/mover/stream_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "proxy/mover/replies.h"
#include "proxy/mover/stream_groups.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {
namespace {

using Fate = PieceRead::Fate;
using Answer = std::expected<PieceRead, NodeLost>;

constexpr std::uint64_t kPendingBytes = 100;  // Of a pending entry, about.

struct EntryId {
  std::uint64_t ms = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const EntryId&, const EntryId&) = default;
};

EntryId parse_id(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {number_of(text), 0};
  return {number_of(text.substr(0, dash)), number_of(text.substr(dash + 1))};
}

constexpr EntryId kLastId{~0ULL, ~0ULL};

struct Entry {
  std::string id;
  Words fields;
};

std::optional<std::vector<Entry>> parse_entries(std::string_view reply) {
  resp::ReplyCursor cursor(reply);
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return std::nullopt;
  std::vector<Entry> entries;
  for (std::int64_t i = 0; i < header->count; ++i) {
    const auto pair = cursor.read_header();
    const auto id = cursor.read_bulk();
    const auto fields = cursor.read_header();
    if (!pair || !id || !fields) return std::nullopt;
    Entry& entry = entries.emplace_back(Entry{std::string(*id), {}});
    for (std::int64_t field = 0; field < fields->count; ++field) {
      entry.fields.emplace_back(cursor.read_bulk().value_or(std::string_view{}));
    }
  }
  return entries;
}

struct PendingOfGroup {
  std::string group;
  std::vector<PendingEntry> entries;
};

// One stretch of a stream: its entries, and what is pending up to its end.
struct Stretch {
  std::vector<Entry> entries = {};
  std::vector<PendingOfGroup> pending = {};
  EntryId end = kLastId;
  std::string end_text = {};  // Empty: the stream's end.
};

// Groups and their consumers first: what is pending is claimed by them.
Answer open_stream(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  const auto facts = read_stream_facts(Side::Source, read.key, source);
  if (!facts) return std::unexpected(facts.error());
  if (!*facts) return PieceRead{.fate = Fate::Changed};
  PieceRead piece{.next = read.from};
  piece.next.cursor = "-";
  piece.pending = (*facts)->pending();
  piece.read_at_ms = (*facts)->read_at_ms;
  for (const StreamGroup& group : (*facts)->groups) {
    piece.next.groups.push_back(group.name);
    piece.commands.push_back({"XGROUP", "CREATE", rules.name, group.name, "0", "MKSTREAM"});
    for (const StreamConsumer& consumer : group.consumers) {
      piece.commands.push_back({"XGROUP", "CREATECONSUMER", rules.name, group.name, consumer.name});
    }
  }
  if ((*facts)->groups.empty()) {  // It may have no entries either, and is there all the same.
    piece.commands.push_back({"XGROUP", "CREATE", rules.name, "none", "0", "MKSTREAM"});
    piece.commands.push_back({"XGROUP", "DESTROY", rules.name, "none"});
  }
  return piece;
}

// Keeps what ends at the last place up to which all is known.
void cut(Stretch& stretch, std::uint64_t pending_max) {
  for (const PendingOfGroup& pending : stretch.pending) {
    if (pending.entries.size() < pending_max) continue;
    const EntryId id = parse_id(pending.entries.back().id);
    if (id >= stretch.end) continue;
    stretch.end = id;
    stretch.end_text = pending.entries.back().id;
  }
  const auto is_beyond = [&](const auto& entry) { return parse_id(entry.id) > stretch.end; };
  std::erase_if(stretch.entries, is_beyond);
  for (PendingOfGroup& pending : stretch.pending) std::erase_if(pending.entries, is_beyond);
}

std::expected<std::optional<Stretch>, NodeLost> read_stretch(const ReadPiece& read,
                                                             std::uint64_t wanted,
                                                             const PieceRules& rules,
                                                             const Ask& source) {
  auto replies =
      source({{"XRANGE", read.key, read.from.cursor, "+", "COUNT", fmt::format("{}", wanted)}},
             rules.bytes);
  if (!replies) return std::unexpected(replies.error());
  auto entries = parse_entries(replies->front());
  if (replies->front().starts_with("-WRONGTYPE")) return std::nullopt;
  if (!entries) return std::unexpected(refused(Side::Source, "XRANGE", replies->front()));
  Stretch stretch{.entries = std::move(*entries)};
  if (stretch.entries.size() == wanted) {
    stretch.end_text = stretch.entries.back().id;
    stretch.end = parse_id(stretch.end_text);
  }
  if (read.from.groups.empty()) return stretch;
  std::vector<Words> questions = {{"TIME"}};
  for (const std::string& group : read.from.groups) {
    questions.push_back(pending_command(read.key, group, read.from.cursor,
                                        stretch.end_text.empty() ? "+" : stretch.end_text, wanted));
  }
  replies = source(questions, kPendingBytes * wanted * read.from.groups.size());
  if (!replies) return std::unexpected(replies.error());
  const std::int64_t now_ms = time_of(replies->front()).value_or(0);
  for (std::size_t i = 0; i < read.from.groups.size(); ++i) {
    const std::string_view reply = (*replies)[i + 1];
    if (reply.starts_with("-NOGROUP")) continue;  // Gone meanwhile: seen when groups are renewed.
    auto pending = parse_pending(reply, now_ms);
    if (!pending) return std::unexpected(refused(Side::Source, "XPENDING", reply));
    stretch.pending.push_back({read.from.groups[i], std::move(*pending)});
  }
  cut(stretch, wanted);
  return stretch;
}

void write_stretch(const Stretch& stretch, const std::string& name, PieceRead& piece) {
  std::map<EntryId, const Entry*> entries;
  std::map<EntryId, std::string> deleted;  // But pending.
  for (const Entry& entry : stretch.entries) entries[parse_id(entry.id)] = &entry;
  for (const PendingOfGroup& pending : stretch.pending) {
    for (const PendingEntry& entry : pending.entries) {
      const EntryId id = parse_id(entry.id);
      if (entries.try_emplace(id, nullptr).second) deleted[id] = entry.id;
    }
  }
  for (const auto& [id, entry] : entries) {
    if (entry == nullptr) {
      piece.commands.push_back({"XADD", name, deleted.at(id), "deleted", ""});
      continue;
    }
    Words& command = piece.commands.emplace_back(Words{"XADD", name, entry->id});
    command.insert(command.end(), entry->fields.begin(), entry->fields.end());
  }
  for (const PendingOfGroup& pending : stretch.pending) {
    claim(piece.commands, name, pending.group, pending.entries);
  }
  if (deleted.empty()) return;
  Words& command = piece.commands.emplace_back(Words{"XDEL", name});
  for (const auto& [id, text] : deleted) command.push_back(text);
}

}  // namespace

Answer read_stream(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  if (read.from.cursor.empty()) return open_stream(read, rules, source);
  const std::uint64_t wanted = elements_of_piece(read.from, rules);
  const auto found = read_stretch(read, wanted, rules, source);
  if (!found) return std::unexpected(found.error());
  if (!*found) return PieceRead{.fate = Fate::Changed};
  const Stretch& stretch = **found;
  PieceRead piece{.next = read.from, .is_last = stretch.end_text.empty()};
  piece.next.cursor = "(" + stretch.end_text;
  write_stretch(stretch, rules.name, piece);
  std::uint64_t bytes = 0;
  for (const Words& command : piece.commands) bytes += bytes_of(command);
  note_elements(piece.next, stretch.entries.size(), bytes);
  if (!piece.is_last) return piece;
  const auto facts = read_stream_facts(Side::Source, read.key, source);
  if (!facts) return std::unexpected(facts.error());
  if (!*facts) return PieceRead{.fate = Fate::Changed};
  for (const StreamGroup& group : (*facts)->groups) {
    if (std::ranges::find(read.from.groups, group.name) == read.from.groups.end()) continue;
    piece.commands.push_back(group_position(rules.name, group, rules.target_has_counters));
  }
  piece.commands.push_back(stream_position(rules.name, **facts, rules.target_has_counters));
  return piece;
}

}  // namespace proxy::mover
