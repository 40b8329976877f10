#include "proxy/mover/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proxy/mover/replies.h"
#include "proxy/mover/stream_pieces.h"
#include "proxy/resp/reply_cursor.h"

namespace proxy::mover {
namespace {

using Fate = PieceRead::Fate;
using Answer = std::expected<PieceRead, NodeLost>;

constexpr std::uint64_t kArgumentBytes = 16;  // Around an argument or an element, about.
constexpr std::uint64_t kQuestionBytes = 200;
// From here on a value goes in pieces, where the limit on bytes does not ask for less.
constexpr std::uint64_t kLargeBytes = 1'000'000;
constexpr std::uint64_t kPieceBytes = 256U << 10;

struct TypeCommands {
  std::string_view type;
  std::string_view length;
  std::string_view scan;  // For those that are read by a cursor.
  std::string_view add;
};
constexpr std::array kTypes = {
    TypeCommands{"string", "STRLEN", "", "APPEND"}, TypeCommands{"list", "LLEN", "", "RPUSH"},
    TypeCommands{"set", "SCARD", "SSCAN", "SADD"},  TypeCommands{"hash", "HLEN", "HSCAN", "HSET"},
    TypeCommands{"zset", "ZCARD", "ZSCAN", "ZADD"}, TypeCommands{"stream", "XLEN", "", ""},
};

const TypeCommands* commands_of(std::string_view type) {
  const auto found = std::ranges::find(kTypes, type, &TypeCommands::type);
  return found == kTypes.end() ? nullptr : found;
}

// An error in the middle of a value: it is another one now, or the node can't answer.
Answer not_read(std::string_view command, std::string_view reply) {
  if (reply.starts_with("-WRONGTYPE")) return PieceRead{.fate = Fate::Changed};
  return std::unexpected(refused(Side::Source, command, reply));
}

// Adds `words` to the last command, or to a new one when that has enough.
class CommandRow {
 public:
  CommandRow(PieceRead& piece, const PieceRules& rules, std::string_view name)
      : piece_(piece), rules_(rules), name_(name) {}

  void add(std::initializer_list<std::string_view> words) {
    if (elements_ == kElementsMax || bytes_ >= rules_.bytes) elements_ = bytes_ = 0;
    if (elements_ == 0) piece_.commands.push_back({std::string(name_), rules_.name});
    for (const std::string_view word : words) {
      piece_.commands.back().emplace_back(word);
      bytes_ += word.size() + kArgumentBytes;
    }
    ++elements_;
  }

 private:
  PieceRead& piece_;
  const PieceRules& rules_;
  std::string_view name_;
  std::uint64_t elements_ = 0;
  std::uint64_t bytes_ = 0;
};

Answer read_string(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  const std::uint64_t from = number_of(read.from.cursor);
  const auto replies =
      source({{"GETRANGE", read.key, read.from.cursor, fmt::format("{}", from + rules.bytes - 1)}},
             std::min(rules.bytes, read.from.element_bytes));
  if (!replies) return std::unexpected(replies.error());
  const std::string_view reply = replies->front();
  if (!reply.starts_with('$')) return not_read("GETRANGE", reply);
  const std::string_view bytes = bulk_of(reply);
  PieceRead piece{.next = read.from, .is_last = bytes.size() < rules.bytes};
  piece.next.cursor = fmt::format("{}", from + bytes.size());
  // The first one makes the name, even of an empty string.
  if (from == 0 || !bytes.empty()) {
    piece.commands.push_back({from == 0 ? "SET" : "APPEND", rules.name, std::string(bytes)});
  }
  return piece;
}

Answer read_list(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  const std::uint64_t from = number_of(read.from.cursor);
  const std::uint64_t wanted = elements_of_piece(read.from, rules);
  const auto replies = source(
      {{"LRANGE", read.key, read.from.cursor, fmt::format("{}", from + wanted - 1)}}, rules.bytes);
  if (!replies) return std::unexpected(replies.error());
  resp::ReplyCursor cursor(replies->front());
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return not_read("LRANGE", replies->front());
  const auto count = static_cast<std::uint64_t>(header->count);
  PieceRead piece{.next = read.from, .is_last = count < wanted};
  CommandRow row(piece, rules, "RPUSH");
  for (std::uint64_t i = 0; i < count; ++i) {
    row.add({cursor.read_bulk().value_or(std::string_view{})});
  }
  piece.next.cursor = fmt::format("{}", from + count);
  note_elements(piece.next, count, replies->front().size());
  return piece;
}

// When fields expire; PieceRead::commands get what makes them expire so elsewhere.
std::expected<void, NodeLost> read_field_expiry(const ReadPiece& read, const PieceRules& rules,
                                                const Ask& source, const Words& fields,
                                                PieceRead& piece) {
  if (fields.empty()) return {};
  Words command = {"HPEXPIRETIME", read.key, "FIELDS", fmt::format("{}", fields.size())};
  command.insert(command.end(), fields.begin(), fields.end());
  const std::uint64_t bytes = 2 * bytes_of(command);
  const auto replies = source({std::move(command)}, bytes);
  if (!replies) return std::unexpected(replies.error());
  resp::ReplyCursor cursor(replies->front());
  const auto header = cursor.read_header();
  if (replies->front().starts_with("-WRONGTYPE")) return {};  // The feed says so too.
  if (!header || header->type != '*') {
    return std::unexpected(refused(Side::Source, "HPEXPIRETIME", replies->front()));
  }
  for (std::size_t i = 0; i < fields.size() && std::cmp_less(i, header->count); ++i) {
    const std::int64_t expire_at_ms = cursor.read_integer().value_or(-1);
    if (expire_at_ms < 0) continue;
    piece.commands.push_back(
        {"HPEXPIREAT", rules.name, fmt::format("{}", expire_at_ms), "FIELDS", "1", fields[i]});
  }
  return {};
}

Answer read_scan(const ReadPiece& read, const PieceRules& rules, const Ask& source,
                 const TypeCommands& type) {
  const std::uint64_t wanted = elements_of_piece(read.from, rules);
  const auto replies = source(
      {{std::string(type.scan), read.key, read.from.cursor, "COUNT", fmt::format("{}", wanted)}},
      rules.bytes);
  if (!replies) return std::unexpected(replies.error());
  resp::ReplyCursor cursor(replies->front());
  const auto header = cursor.read_header();
  const auto next = cursor.read_bulk();
  const auto elements = cursor.read_header();
  if (!header || header->type != '*' || !next || !elements) {
    return not_read(type.scan, replies->front());
  }
  PieceRead piece{.next = read.from, .is_last = *next == "0"};
  piece.next.cursor = *next;
  CommandRow row(piece, rules, type.add);
  Words fields;
  const bool is_set = type.type == "set";
  const std::int64_t count = is_set ? elements->count : elements->count / 2;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto first = cursor.read_bulk().value_or(std::string_view{});
    if (is_set) {
      row.add({first});
      continue;
    }
    const auto second = cursor.read_bulk().value_or(std::string_view{});
    if (type.type == "zset") {
      row.add({second, first});
    } else {
      row.add({first, second});
      if (read.from.has_field_expiry) fields.emplace_back(first);
    }
  }
  note_elements(piece.next, static_cast<std::uint64_t>(count), replies->front().size());
  if (auto asked = read_field_expiry(read, rules, source, fields, piece); !asked) {
    return std::unexpected(asked.error());
  }
  return piece;
}

Answer read_on(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  const TypeCommands& type = *commands_of(read.from.type);
  if (type.type == "string") return read_string(read, rules, source);
  if (type.type == "list") return read_list(read, rules, source);
  if (type.type == "stream") return read_stream(read, rules, source);
  return read_scan(read, rules, source, type);
}

// What the key is, and where its first piece begins.
Answer open(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  auto replies = source({{"TYPE", read.key}, {"MEMORY", "USAGE", read.key}}, kQuestionBytes);
  if (!replies) return std::unexpected(replies.error());
  PieceRead piece;
  piece.next.type = bulk_of((*replies)[0]);
  const std::int64_t usage = integer_of((*replies)[1]);
  for (const std::string_view reply : *replies) {
    if (is_error(reply)) return std::unexpected(refused(Side::Source, "TYPE", reply));
  }
  piece.key_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(usage, 0));
  if (piece.next.type == "none" || usage < 0) {
    piece.fate = Fate::Gone;
    return piece;
  }
  if (piece.key_bytes < rules.large_bytes && !read.is_any_size) {
    piece.fate = Fate::Small;
    return piece;
  }
  const TypeCommands* type = commands_of(piece.next.type);
  if (type == nullptr) {
    piece.fate = Fate::Whole;
    piece.text = "it is of a module's type";
    return piece;
  }
  std::vector<Words> questions = {{std::string(type->length), read.key}};
  // Only servers that have it know expiry of fields: Redis from 7.4 on, and others.
  if (type->type == "hash") questions.push_back({"HPEXPIRETIME", read.key, "FIELDS", "1", "f"});
  replies = source(questions, kQuestionBytes);
  if (!replies) return std::unexpected(replies.error());
  if (!(*replies)[0].starts_with(':')) return not_read(type->length, (*replies)[0]);
  if (type->type == "hash") {
    const std::string_view expiry = (*replies)[1];
    const bool is_unknown = expiry.starts_with("-ERR unknown command");
    if (is_error(expiry) && !is_unknown) {
      piece.fate = Fate::Whole;
      piece.text = fmt::format("whether its fields expire can't be asked: {}", error_text(expiry));
      return piece;
    }
    piece.next.has_field_expiry = !is_unknown;
  }
  const auto length = static_cast<std::uint64_t>(integer_of((*replies)[0]));
  piece.next.element_bytes =
      type->type == "string" ? length : piece.key_bytes / std::max<std::uint64_t>(length, 1);
  piece.next.cursor = type->type == "stream" ? "" : "0";
  return piece;
}

}  // namespace

PieceRules piece_rules_within(std::uint64_t chunk, std::string name, bool target_has_counters) {
  return {.name = std::move(name),
          .bytes = std::min(kPieceBytes, chunk),
          .large_bytes = std::min(kLargeBytes, chunk),
          .target_has_counters = target_has_counters};
}

std::expected<PieceWritten, NodeLost> write_piece(const WritePiece& write, const PieceRules& rules,
                                                  const Ask& target) {
  std::vector<Words> step;
  std::uint64_t bytes = 0;
  if (write.is_first) step.push_back({"UNLINK", rules.name});
  for (std::size_t i = 0; i < write.commands.size(); ++i) {
    bytes += bytes_of(write.commands[i]);
    step.push_back(write.commands[i]);
    const bool is_last = i + 1 == write.commands.size();
    if (!is_last && bytes + bytes_of(write.commands[i + 1]) <= rules.bytes) continue;
    const auto replies = target(step, bytes);
    if (!replies) return std::unexpected(replies.error());
    for (const std::string_view reply : *replies) {
      if (!is_error(reply)) continue;
      return PieceWritten{fate_of(error_text(reply)), std::string(error_text(reply))};
    }
    step.clear();
    bytes = 0;
  }
  return PieceWritten{};
}

std::string_view length_command(std::string_view type) {
  const TypeCommands* commands = commands_of(type);
  return commands == nullptr ? "" : commands->length;
}

std::uint64_t bytes_of(const Words& command) {
  std::uint64_t bytes = 0;
  for (const std::string& word : command) bytes += word.size() + kArgumentBytes;
  return bytes;
}

std::uint64_t elements_of_piece(const PiecePlace& place, const PieceRules& rules) {
  const std::uint64_t bytes = place.element_bytes + kArgumentBytes;
  return std::clamp<std::uint64_t>(rules.bytes / bytes, 1, kElementsMax);
}

// Smaller ones than expected slowly, larger ones at once.
void note_elements(PiecePlace& place, std::uint64_t elements, std::uint64_t bytes) {
  if (elements == 0) return;
  const std::uint64_t average = bytes / elements;
  place.element_bytes = std::max(average, (3 * place.element_bytes + average) / 4);
}

Answer read_piece(const ReadPiece& read, const PieceRules& rules, const Ask& source) {
  if (!read.from.type.empty()) {
    Answer piece = read_on(read, rules, source);
    if (piece) {
      for (const Words& command : piece->commands) piece->bytes += bytes_of(command);
    }
    return piece;
  }
  Answer opened = open(read, rules, source);
  if (!opened || opened->fate != Fate::Ok) return opened;
  Answer piece = read_piece({read.key, opened->next, read.is_any_size}, rules, source);
  if (piece) piece->key_bytes = opened->key_bytes;
  return piece;
}

}  // namespace proxy::mover
