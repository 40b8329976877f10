#include "proxy/control/needed_rights.h"

#include <algorithm>
#include <string_view>

#include "proxy/resp/reserved_key.h"

namespace proxy::control {

namespace {

// A name that no client will have chosen, and one of the proxy's own that it does not use.
constexpr const char* kAnyKey = "slotproxy-asks-for-its-rights:3f9ce1a2";
const std::string kOwnKey = std::string(resp::kReservedPrefix) + "rights";

const std::string kString(resp::kIdentityKey);

enum class Who : std::uint8_t { Both, Source, Target, Functions, Strays, StraysOwner };
enum class Keys : std::uint8_t { None, Data, Own };

struct Line {
  Who who;
  const char* name;
  Keys keys;
  bool is_vital;
  Command words;
};

// What the greeting of a mover's connection, its feed, its copies, the collection, and the watch
// over the target's durability need. PEXPIRETIME and PTTL with TIME: one or the other, by version.
const std::vector<Line>& lines() {
  static const std::vector<Line> kLines{
      {Who::Both, "client|setname", Keys::None, true, {"CLIENT", "SETNAME", ""}},
      {Who::Both, "client|id", Keys::None, true, {"CLIENT", "ID"}},
      {Who::Both, "client|list", Keys::None, true, {"CLIENT", "LIST", "ID", "1"}},
      {Who::Both, "client|kill", Keys::None, true, {"CLIENT", "KILL", "ID", "0"}},
      {Who::Source, "client|unblock", Keys::None, true, {"CLIENT", "UNBLOCK", "0"}},
      {Who::Both, "client|tracking", Keys::None, true, {"CLIENT", "TRACKING", "OFF"}},
      {Who::Both, "role", Keys::None, true, {"ROLE"}},
      {Who::Both, "info", Keys::None, true, {"INFO", "server"}},
      {Who::Both, "ping", Keys::None, true, {"PING"}},
      {Who::Both, "select", Keys::None, false, {"SELECT", "0"}},
      {Who::Both, "get", Keys::Own, true, {"GET", kOwnKey}},
      {Who::Both, "scan", Keys::None, true, {"SCAN", "0", "COUNT", "1"}},
      {Who::Both, "unlink", Keys::Data, true, {"UNLINK", kAnyKey}},
      {Who::Source, "memory|usage", Keys::Data, true, {"MEMORY", "USAGE", kAnyKey}},
      {Who::Source, "dump", Keys::Data, true, {"DUMP", kAnyKey}},
      {Who::Target, "restore", Keys::Data, true, {"RESTORE", kAnyKey, "0", "x"}},
      {Who::Target, "set", Keys::Own, true, {"SET", kOwnKey, "x", "XX"}},
      {Who::Target, "unlink", Keys::Own, true, {"UNLINK", kOwnKey}},
      // Large values in pieces. Their writes are asked for in forms that every server refuses, or
      // of a key that is a string.
      {Who::Both, "time", Keys::None, true, {"TIME"}},
      {Who::Both, "strlen", Keys::Data, true, {"STRLEN", kAnyKey}},
      {Who::Both, "llen", Keys::Data, true, {"LLEN", kAnyKey}},
      {Who::Both, "scard", Keys::Data, true, {"SCARD", kAnyKey}},
      {Who::Both, "hlen", Keys::Data, true, {"HLEN", kAnyKey}},
      {Who::Both, "zcard", Keys::Data, true, {"ZCARD", kAnyKey}},
      {Who::Both, "xlen", Keys::Data, true, {"XLEN", kAnyKey}},
      {Who::Both, "xinfo|stream", Keys::Data, true, {"XINFO", "STREAM", kAnyKey}},
      {Who::Both, "xinfo|groups", Keys::Data, true, {"XINFO", "GROUPS", kAnyKey}},
      {Who::Both, "xinfo|consumers", Keys::Data, true, {"XINFO", "CONSUMERS", kAnyKey, "g"}},
      {Who::Both, "xpending", Keys::Data, true, {"XPENDING", kAnyKey, "g"}},
      {Who::Source, "type", Keys::Data, true, {"TYPE", kAnyKey}},
      {Who::Source, "getrange", Keys::Data, true, {"GETRANGE", kAnyKey, "0", "0"}},
      {Who::Source, "lrange", Keys::Data, true, {"LRANGE", kAnyKey, "0", "0"}},
      {Who::Source, "sscan", Keys::Data, true, {"SSCAN", kAnyKey, "0"}},
      {Who::Source, "hscan", Keys::Data, true, {"HSCAN", kAnyKey, "0"}},
      {Who::Source, "zscan", Keys::Data, true, {"ZSCAN", kAnyKey, "0"}},
      {Who::Source, "xrange", Keys::Data, true, {"XRANGE", kAnyKey, "-", "+"}},
      {Who::Target, "append", Keys::Own, true, {"APPEND", kString, ""}},
      {Who::Target, "rpush", Keys::Own, true, {"RPUSH", kString, "x"}},
      {Who::Target, "sadd", Keys::Own, true, {"SADD", kString, "x"}},
      {Who::Target, "hset", Keys::Own, true, {"HSET", kOwnKey, "f", "v", "odd"}},
      {Who::Target, "zadd", Keys::Own, true, {"ZADD", kOwnKey, "no number", "x"}},
      {Who::Target, "xadd", Keys::Own, true, {"XADD", kOwnKey, "no id", "f", "v"}},
      {Who::Target, "xdel", Keys::Own, true, {"XDEL", kOwnKey, "1-1"}},
      {Who::Target, "xack", Keys::Own, true, {"XACK", kOwnKey, "g", "1-1"}},
      {Who::Target, "xclaim", Keys::Own, true, {"XCLAIM", kOwnKey, "g", "c", "0", "1-1"}},
      {Who::Target, "xsetid", Keys::Own, true, {"XSETID", kOwnKey, "1-1"}},
      {Who::Target, "xgroup|create", Keys::Own, true, {"XGROUP", "CREATE", kOwnKey, "g", "0"}},
      {Who::Target, "xgroup|setid", Keys::Own, true, {"XGROUP", "SETID", kOwnKey, "g", "0"}},
      {Who::Target, "xgroup|destroy", Keys::Own, true, {"XGROUP", "DESTROY", kOwnKey, "g"}},
      {Who::Target,
       "xgroup|createconsumer",
       Keys::Own,
       true,
       {"XGROUP", "CREATECONSUMER", kOwnKey, "g", "c"}},
      {Who::Target,
       "xgroup|delconsumer",
       Keys::Own,
       true,
       {"XGROUP", "DELCONSUMER", kOwnKey, "g", "c"}},
      {Who::Target, "pexpireat", Keys::Own, true, {"PEXPIREAT", kOwnKey, "1"}},
      {Who::Target, "rename", Keys::Data, true, {"RENAME", kOwnKey, kAnyKey}},
      {Who::Target, "exec", Keys::None, true, {"EXEC"}},
      // Strays: what is read and written of them is watched meanwhile.
      {Who::Strays, "exists", Keys::Data, true, {"EXISTS", kAnyKey}},
      {Who::Strays, "watch", Keys::Data, true, {"WATCH", kAnyKey}},
      {Who::Strays, "unwatch", Keys::None, true, {"UNWATCH"}},
      {Who::Strays, "exec", Keys::None, true, {"EXEC"}},
      {Who::StraysOwner, "eval", Keys::Data, true, {"EVAL", "return 0", "1", kAnyKey}},
      {Who::StraysOwner, "smembers", Keys::Own, true, {"SMEMBERS", kString}},
      {Who::StraysOwner, "srem", Keys::Own, true, {"SREM", kOwnKey, "x"}},
      {Who::Target, "config|get", Keys::None, false, {"CONFIG", "GET", "save"}},
      {Who::Target, "bgsave", Keys::None, false, {"BGSAVE", "x"}},
  };
  return kLines;
}

// After all others: where it is tried, what comes after it would only be queued.
const std::vector<Line>& last_lines() {
  static const std::vector<Line> kLines{
      {Who::Target, "multi", Keys::None, true, {"MULTI"}},
      {Who::Strays, "multi", Keys::None, true, {"MULTI"}},
  };
  return kLines;
}

const std::vector<Line>& lines_by_version(bool knows_expire_time) {
  static const std::vector<Line> kNewer{
      {Who::Source, "pexpiretime", Keys::Data, true, {"PEXPIRETIME", kAnyKey}},
      {Who::Both, "client|no-evict", Keys::None, false, {"CLIENT", "NO-EVICT", "OFF"}},
      {Who::Functions, "function|dump", Keys::None, true, {"FUNCTION", "DUMP"}},
      {Who::Functions, "function|restore", Keys::None, true, {"FUNCTION", "RESTORE", "x"}},
  };
  static const std::vector<Line> kOlder{
      {Who::Source, "pttl", Keys::Data, true, {"PTTL", kAnyKey}},
  };
  return knows_expire_time ? kNewer : kOlder;
}

bool concerns(const Line& line, const PlanRole& role) {
  switch (line.who) {
    case Who::Both:
      return true;
    case Who::Source:
      return role.gives || role.gives_strays;
    case Who::Target:
      return role.takes || role.takes_strays;
    case Who::Strays:
      return role.gives_strays || role.takes_strays;
    case Who::StraysOwner:
      return role.takes_strays;
    case Who::Functions:
      return role.joins || role.gives_functions;
  }
  return true;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// `words`: of the server, in which it refuses the command or one of its keys.
void take_refusal(Rights& rights, const NeededRight& right, std::string_view words) {
  if (words.find(" key") != std::string_view::npos) {
    (right.on_keys ? rights.denies_keys : rights.denies_own_keys) = true;
  } else {
    add_once(right.is_vital ? rights.denied : rights.wished, right.name);
  }
}

void take_unknown(Rights& rights, const NeededRight& right) {
  if (right.is_vital) add_once(rights.missing, right.name);
}

}  // namespace

std::vector<NeededRight> needed_rights(const PlanRole& role, bool knows_expire_time) {
  std::vector<NeededRight> rights;
  for (const auto* all : {&lines(), &lines_by_version(knows_expire_time), &last_lines()}) {
    for (const Line& line : *all) {
      if (concerns(line, role))
        rights.push_back({line.name, line.words, line.keys == Keys::Data, line.is_vital});
    }
  }
  return rights;
}

void take_dry_run(Rights& rights, const NeededRight& right, const Reply& reply) {
  if (reply.is_error()) {
    // "ERR Command 'dump' not found", of a server where it was renamed.
    if (reply.text.find("not found") != std::string::npos) take_unknown(rights, right);
    return;
  }
  rights.are_known = true;
  if (reply.text != "OK") take_refusal(rights, right, reply.text);
}

void take_trial(Rights& rights, const NeededRight& right, const Reply& reply) {
  rights.are_known = true;
  if (!reply.is_error()) return;
  if (reply.error_word() == "NOPERM") take_refusal(rights, right, reply.text);
  if (reply.text.starts_with("ERR unknown command")) take_unknown(rights, right);
}

std::string acl_line(const std::string& user, const Rights& rights) {
  std::string line = "ACL SETUSER " + user;
  for (const auto* names : {&rights.denied, &rights.wished}) {
    for (const std::string& name : *names) line += " +" + name;
  }
  if (rights.denies_keys) {
    line += " ~*";
  } else if (rights.denies_own_keys) {
    line += " ~" + std::string(resp::kReservedPrefix) + "*";
  }
  return line;
}

}  // namespace proxy::control
