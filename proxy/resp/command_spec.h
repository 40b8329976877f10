// CommandSpec: what the proxy knows of a command, and CommandId, by which code names it.
//
// The built-in specs (command_table.inc) are made from COMMAND of Redis 7.0; what a node knows
// beyond them is added from the node's own COMMAND at start. Facts:
// https://redis.io/commands/command/ and https://redis.io/docs/reference/command-tips/ (request and
// response policies).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace proxy::resp {

using Args = std::span<const std::string_view>;  // args[0] is the command's name.

// Get, Set, ClientSetname ("client|setname"), ...: one for each built-in command and subcommand, in
// the order of CommandTable::specs().
enum class CommandId : std::uint16_t {
#define SP_COMMAND(id, ...) id,
#include "proxy/resp/command_table.inc"
#undef SP_COMMAND
  Count,
  Learned = 0xffff,  // Any command that only the nodes know.
};
inline constexpr CommandId kLearnedCommand = CommandId::Learned;

enum class CommandFlag : std::uint32_t {
  Write = 1U << 0,
  ReadOnly = 1U << 1,
  DenyOom = 1U << 2,
  Admin = 1U << 3,
  PubSub = 1U << 4,
  NoScript = 1U << 5,
  Blocking = 1U << 6,
  Loading = 1U << 7,
  Stale = 1U << 8,
  NoAuth = 1U << 9,
  MovableKeys = 1U << 10,
  Fast = 1U << 11,
  NoMulti = 1U << 12,
  Asking = 1U << 13,
  AllowBusy = 1U << 14,
  NoAsyncLoading = 1U << 15,
  SkipMonitor = 1U << 16,
  SkipSlowlog = 1U << 17,
  NoMandatoryKeys = 1U << 18,
};

// Redis's ACL categories, each a bit, in the order in which Redis lists them.
enum class CommandCategory : std::uint32_t {
  Keyspace = 1U << 0,
  Read = 1U << 1,
  Write = 1U << 2,
  Set = 1U << 3,
  SortedSet = 1U << 4,
  List = 1U << 5,
  Hash = 1U << 6,
  String = 1U << 7,
  Bitmap = 1U << 8,
  HyperLogLog = 1U << 9,
  Geo = 1U << 10,
  Stream = 1U << 11,
  PubSub = 1U << 12,
  Admin = 1U << 13,
  Fast = 1U << 14,
  Slow = 1U << 15,
  Blocking = 1U << 16,
  Dangerous = 1U << 17,
  Connection = 1U << 18,
  Transaction = 1U << 19,
  Scripting = 1U << 20,
};

// By the number of the bit.
inline constexpr std::array<std::string_view, 21> kCategoryNames = {
    "keyspace", "read",   "write",       "set",       "sortedset",  "list",        "hash",
    "string",   "bitmap", "hyperloglog", "geo",       "stream",     "pubsub",      "admin",
    "fast",     "slow",   "blocking",    "dangerous", "connection", "transaction", "scripting"};

// What a command does with a key's value. Neither: it asks about the key alone (EXISTS).
enum class KeyAccess : std::uint8_t { Neither = 0, Read = 1, Write = 2, Both = 3 };

// How keys are found among the arguments. Positions are indexes into Args.
enum class KeyRule : std::uint8_t {
  None,       // No keys.
  Range,      // first, last (negative counts from the end), step.
  NumKeys,    // args[first - 1] says how many keys follow at `first`; extra_key may name one more.
  Streams,    // Keys are the first half of what follows the word STREAMS (XREAD, XREADGROUP).
  Keyword,    // SORT's STORE, GEORADIUS's STORE/STOREDIST, MIGRATE's KEYS: special cases, by id.
  Container,  // Subcommands decide: look at the subcommand's own spec.
  Unknown,  // Keys can't be told from what the node says of a learned command: it can't be routed.
};

enum class RequestPolicy : std::uint8_t { Default, AllShards, AllNodes, MultiShard, Special };
enum class ReplyPolicy : std::uint8_t {
  Default,
  OneSucceeded,
  AllSucceeded,
  AggSum,
  AggMin,
  AggMax,
  AggLogicalAnd,
  AggLogicalOr,
  Special
};

struct CommandSpec {
  std::string_view name;    // Lower case; a subcommand is "container|sub". The table's, or static.
  std::int16_t arity = 0;   // As Redis: n exactly, -n at least n, the name included.
  std::uint32_t flags = 0;  // CommandFlag bits.
  KeyRule rule = KeyRule::None;
  std::int16_t first_key = 0;  // Range and NumKeys.
  std::int16_t last_key = 0;   // Range only.
  std::int16_t key_step = 0;   // Range only.
  std::int16_t extra_key = 0;  // NumKeys: one more key's place (ZUNIONSTORE's target); 0: none.
  RequestPolicy request_policy = RequestPolicy::Default;
  ReplyPolicy reply_policy = ReplyPolicy::Default;
  std::uint32_t categories = 0;  // CommandCategory bits.
  // Of the key that is named first, and of all others; what depends on the arguments is
  // key_access()'s to know.
  KeyAccess first_access = KeyAccess::Neither;
  KeyAccess other_access = KeyAccess::Neither;
  CommandId id = kLearnedCommand;
  bool is_refused = false;  // The operator lets nobody have it; it names no keys then.

  [[nodiscard]] bool has(CommandFlag flag) const {
    return (flags & static_cast<std::uint32_t>(flag)) != 0;
  }
  [[nodiscard]] bool is_in(CommandCategory category) const {
    return (categories & static_cast<std::uint32_t>(category)) != 0;
  }
  // EVAL, FCALL and their like.
  [[nodiscard]] bool calls_script() const {
    switch (id) {
      case CommandId::Eval:
      case CommandId::EvalRo:
      case CommandId::Evalsha:
      case CommandId::EvalshaRo:
      case CommandId::Fcall:
      case CommandId::FcallRo:
        return true;
      default:
        return false;
    }
  }
  [[nodiscard]] bool arity_ok(std::size_t argc) const {
    return arity >= 0 ? argc == static_cast<std::size_t>(arity)
                      : argc >= static_cast<std::size_t>(-arity);
  }
};

}  // namespace proxy::resp
