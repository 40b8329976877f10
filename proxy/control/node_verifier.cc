#include "proxy/control/node_verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "proxy/resp/keyspace_info.h"
#include "proxy/resp/reserved_key.h"
#include "slots/assert.h"

namespace proxy::control {

namespace {

constexpr int kMajorMin = 6;
constexpr int kMinorMin = 2;
constexpr std::size_t kQuotedBytesMax = 160;

// What follows `word` in `text`, up to `end` or the end of it; empty when it is not there.
std::string_view value_after(std::string_view text, std::string_view word, char end) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + word.size());
  return rest.substr(0, rest.find(end));
}

// A server's bytes inside one of our lines: short, and nothing that could end or hide a line.
std::string quoted(std::string_view text) {
  std::string out(text.substr(0, kQuotedBytesMax));
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > kQuotedBytesMax ? out + "..." : out;
}

bool version_is_old(std::string_view version, bool& readable) {
  int major = 0;
  int minor = 0;
  const char* end = version.data() + version.size();
  const auto [after_major, error] = std::from_chars(version.data(), end, major);
  readable = error == std::errc{} && after_major != end && *after_major == '.' &&
             std::from_chars(after_major + 1, end, minor).ec == std::errc{};
  return major < kMajorMin || (major == kMajorMin && minor < kMinorMin);
}

void take_fact(NodeFacts& facts, std::string_view name, std::string_view value) {
  if (name == "redis_version") facts.version = value;
  if (name == "run_id") facts.run_id = value;
  if (name == "role") facts.role = value;
  if (name == "cluster_enabled") facts.cluster_enabled = value == "1";
  if (name == "loading") facts.loading = value == "1";
  if (name == "used_memory") facts.used_memory = number_of(value);
  if (name == "used_memory_dataset") facts.dataset = number_of(value);
  if (name == "maxmemory") facts.maxmemory = number_of(value);
  if (name == "maxmemory_policy") facts.maxmemory_policy = value;
  if (name == "instantaneous_ops_per_sec") facts.ops_per_second = number_of(value);
  if (name == "connected_clients") facts.connected_clients = number_of(value);
}

struct Identity {
  std::string_view cluster;
  std::string_view node;
};

std::optional<Identity> parse_identity(std::string_view text) {
  const std::size_t second = text.rfind('/');
  if (second == std::string_view::npos || second == 0) return std::nullopt;
  const std::size_t first = text.rfind('/', second - 1);
  if (first == std::string_view::npos) return std::nullopt;
  return Identity{text.substr(0, first), text.substr(first + 1, second - first - 1)};
}

Verdict refused(std::string reason) { return {VerifyOutcome::Refused, std::move(reason)}; }

// Errors that pass by themselves: the server can't say at the moment who it is.
std::optional<std::string> why_only_alive(std::string_view word) {
  if (word == "LOADING") return "is loading its data set";
  if (word == "BUSY") return "is busy running a script";
  return std::nullopt;
}

// Errors of a server that is the right one but takes no writes now.
bool takes_no_writes(std::string_view word) {
  return word == "OOM" || word == "MISCONF" || word == "NOREPLICAS";
}

}  // namespace

std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

NodeFacts parse_info(std::string_view info) {
  NodeFacts facts;
  for (const auto& [database, keys] : resp::keys_by_database(info)) facts.keys += keys;
  while (!info.empty()) {
    const std::size_t end = info.find('\n');
    std::string_view line = info.substr(0, end);
    info.remove_prefix(end == std::string_view::npos ? info.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      take_fact(facts, line.substr(0, colon), line.substr(colon + 1));
  }
  return facts;
}

std::optional<std::string> why_unsuitable(const NodeFacts& facts) {
  bool readable = false;
  const bool is_old = version_is_old(facts.version, readable);
  if (!readable || facts.run_id.empty()) return "does not answer INFO as a redis-server does";
  if (is_old) {
    return fmt::format("runs version {}; {}.{} or newer is needed", quoted(facts.version),
                       kMajorMin, kMinorMin);
  }
  if (facts.role == "slave") return "is a replica (role:slave), not a primary";
  if (facts.role != "master") return fmt::format("is not a primary (role:{})", quoted(facts.role));
  if (facts.cluster_enabled)
    return "runs in cluster mode (cluster_enabled:1); a stock standalone server is needed";
  return std::nullopt;
}

std::optional<std::string> why_foreign(std::string_view identity, std::string_view cluster,
                                       std::string_view node) {
  const auto holder = parse_identity(identity);
  if (!holder) return fmt::format("holds something else under the key {}", resp::kIdentityKey);
  if (holder->cluster != cluster) {
    return fmt::format("belongs to cluster \"{}\", as node {}", quoted(holder->cluster),
                       quoted(holder->node));
  }
  if (holder->node != node)
    return fmt::format("is the server of node {} of this cluster", quoted(holder->node));
  return std::nullopt;
}

std::string identity_of(std::string_view cluster, std::string_view node, std::uint64_t random) {
  return fmt::format("{}/{}/{:016x}", cluster, node, random);
}

NodeVerifier::NodeVerifier(VerifyOptions options) : options_(std::move(options)) {}

Command NodeVerifier::ask(Asking what, Command command) {
  asking_ = what;
  return command;
}

Command NodeVerifier::first_command() {
  if (options_.username.empty() && options_.password.empty()) return ask_name();
  if (options_.username.empty()) return ask(Asking::Auth, {"AUTH", options_.password});
  return ask(Asking::Auth, {"AUTH", options_.username, options_.password});
}

Command NodeVerifier::ask_name() {
  return ask(Asking::SetName,
             {"CLIENT", "SETNAME", options_.client_name_prefix + options_.incarnation});
}

NodeVerifier::Step NodeVerifier::on_reply(const Reply& reply) {
  if (reply.is_error()) return on_error(reply);
  switch (asking_) {
    case Asking::Auth:
      return ask_name();
    case Asking::SetName:
      return ask(Asking::Info, {"INFO"});
    case Asking::Info:
      return on_info(reply);
    case Asking::GetIdentity:
      return on_identity(reply);
    case Asking::SetIdentity:
      return on_identity_set(reply);
    case Asking::ClientList:
      return on_client_list(reply);
    case Asking::ClientKill:
      if (reply.type == Reply::Type::Integer && reply.integer > 0) ++killed_;
      return next_kill();
    case Asking::Commands:
      if (reply.is_array()) commands_ = encode_resp2(reply);
      return Verdict{VerifyOutcome::Verified, {}};
  }
  SP_ASSERT(false);
}

NodeVerifier::Step NodeVerifier::on_error(const Reply& error) {
  const std::string_view word = error.error_word();
  const std::string said = quoted(error.text);
  if (auto reason = why_only_alive(word)) return Verdict{VerifyOutcome::Alive, std::move(*reason)};
  if (error.text.starts_with("ERR max number of clients")) {
    return Verdict{VerifyOutcome::Failed, "has no room for more clients"};
  }
  if (word == "DENIED") return refused("denies connections (protected mode without a password)");
  if (word == "NOAUTH") return refused("wants a password and none is configured");
  if (asking_ == Asking::Auth)
    return refused(fmt::format("node's password was not accepted: {}", said));
  // What the server knows beyond the table is a convenience.
  if (asking_ == Asking::Commands) return Verdict{VerifyOutcome::Verified, {}};
  if (word == "NOPERM") return refused(fmt::format("the configured user lacks a right: {}", said));
  if (asking_ == Asking::SetIdentity && takes_no_writes(word)) {
    warning_ =
        fmt::format("its identity could not be written, as it takes no writes now: {}", said);
    return after_identity();
  }
  if (asking_ == Asking::ClientKill) return next_kill();  // It is gone already.
  if (asking_ == Asking::GetIdentity && word == "WRONGTYPE") {
    return refused(fmt::format("holds something else under the key {}", resp::kIdentityKey));
  }
  return refused(fmt::format("answers an error: {}", said));
}

NodeVerifier::Step NodeVerifier::on_info(const Reply& reply) {
  facts_ = parse_info(reply.text);
  if (auto reason = why_unsuitable(facts_)) return refused(std::move(*reason));
  if (options_.claim_run_id) {
    if (const auto other = options_.claim_run_id(facts_.run_id)) {
      return refused(
          fmt::format("is the same server as node {} (run_id {})", *other, facts_.run_id));
    }
  }
  if (facts_.loading) return Verdict{VerifyOutcome::Alive, "is loading its data set"};
  return ask(Asking::GetIdentity, {"GET", std::string(resp::kIdentityKey)});
}

NodeVerifier::Step NodeVerifier::on_identity(const Reply& reply) {
  const std::string& expected = options_.expected_identity;
  if (reply.is_nil()) {
    if (set_tried_) return refused(fmt::format("does not keep the key {}", resp::kIdentityKey));
    set_tried_ = true;
    const std::string& value = expected.empty() ? options_.new_identity : expected;
    return ask(Asking::SetIdentity, {"SET", std::string(resp::kIdentityKey), value, "NX"});
  }
  if (!reply.is_string())
    return refused(fmt::format("holds something else under the key {}", resp::kIdentityKey));
  if (!expected.empty() && reply.text != expected) {
    return refused(fmt::format("is another server: its identity is {}, recorded is {}",
                               quoted(reply.text), expected));
  }
  if (auto reason = why_foreign(reply.text, options_.cluster, options_.node))
    return refused(std::move(*reason));
  identity_ = reply.text;
  return after_identity();
}

NodeVerifier::Step NodeVerifier::on_identity_set(const Reply& reply) {
  // Somebody else was faster: what is there now decides.
  if (reply.is_nil()) return ask(Asking::GetIdentity, {"GET", std::string(resp::kIdentityKey)});
  identity_ =
      options_.expected_identity.empty() ? options_.new_identity : options_.expected_identity;
  if (!options_.expected_identity.empty()) {
    warning_ =
        "had lost its identity key, so it came back empty, was flushed or evicted it; it was "
        "written again";
  }
  return after_identity();
}

NodeVerifier::Step NodeVerifier::after_identity() {
  if (options_.kill_predecessors) return ask(Asking::ClientList, {"CLIENT", "LIST"});
  return after_kills();
}

NodeVerifier::Step NodeVerifier::on_client_list(const Reply& reply) {
  std::string_view lines = reply.text;
  const std::string& prefix = options_.client_name_prefix;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    const std::string_view name = value_after(line, " name=", ' ');
    if (!line.starts_with("id=") || prefix.empty() || !name.starts_with(prefix)) continue;
    if (name.substr(prefix.size()) != options_.incarnation)
      to_kill_.emplace_back(value_after(line, "id=", ' '));
  }
  return next_kill();
}

NodeVerifier::Step NodeVerifier::next_kill() {
  if (to_kill_.empty()) return after_kills();
  std::string id = std::move(to_kill_.back());
  to_kill_.pop_back();
  return ask(Asking::ClientKill, {"CLIENT", "KILL", "ID", std::move(id)});
}

NodeVerifier::Step NodeVerifier::after_kills() {
  if (options_.fetch_commands) return ask(Asking::Commands, {"COMMAND"});
  return Verdict{VerifyOutcome::Verified, {}};
}

}  // namespace proxy::control
