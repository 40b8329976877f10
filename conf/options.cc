#include "conf/options.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "conf/loader.h"
#include "conf/password_hash.h"
#include "conf/value_types.h"

namespace conf {
namespace {

using slots::Status;

template <auto... Members>
auto& member(auto& target) {
  return (target.*....*Members);
}

template <class Type, class Target, auto... Members>
Status set_member(Target& target, std::string_view text) {
  auto value = Type::parse(text);
  if (!value) return std::unexpected(std::move(value).error());
  member<Members...>(target) = *std::move(value);
  return {};
}

template <class Type, class Target, auto... Members>
std::vector<std::string> get_member(const Target& target) {
  const auto& value = member<Members...>(target);
  std::string text;
  if constexpr (requires { Type::print(value); }) {
    text = Type::print(value);
  } else if (value) {
    text = Type::print(*value);
  }
  if (text.empty()) return {};
  return {std::move(text)};
}

enum class Need { Optional, Required };

template <class Target, class Type, auto... Members>
constexpr Option<Target> option(std::string_view path, std::string_view help,
                                Need need = Need::Optional) {
  return {.path = path,
          .form = Type::kForm,
          .help = help,
          .is_required = need == Need::Required,
          .takes_list = false,
          .set = &set_member<Type, Target, Members...>,
          .get = &get_member<Type, Target, Members...>};
}

Status add_forward(Config& config, std::string_view text) {
  auto address = parse_address(text);
  if (!address) return std::unexpected(std::move(address).error());
  config.listen.forward.push_back(*std::move(address));
  return {};
}

std::vector<std::string> get_forward(const Config& config) {
  std::vector<std::string> out;
  for (const Address& address : config.listen.forward) out.push_back(address.text());
  return out;
}

Status add_slots(NodeConfig& node, std::string_view text) {
  auto slots = slots::parse_slot_set(text);
  if (!slots) return std::unexpected(std::move(slots).error());
  if (!node.slots) node.slots.emplace();
  node.slots->add(*slots);
  return {};
}

Status add_admin_user(Config& config, std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size())
    return slots::fail(slots::Errc::InvalidArgument, "should be NAME:PASSWORD");
  auto name = value::Name::parse(text.substr(0, colon));
  if (!name) return std::unexpected(std::move(name).error());
  config.listen.admin_users.push_back({*std::move(name), std::string(text.substr(colon + 1))});
  return {};
}

std::vector<std::string> get_admin_users(const Config& config) {
  std::vector<std::string> out;
  for (const AdminUser& user : config.listen.admin_users)
    out.push_back(user.name + ":" + user.password);
  return out;
}

std::vector<std::string> get_slots(const NodeConfig& node) {
  if (!node.slots) return {};
  return {slots::to_string(*node.slots)};
}

Status add_password(UserConfig& user, std::string_view text) {
  if (text.empty()) return {};  // An empty list.
  const auto hash = hash_of_hex(text.substr(text.starts_with('#') ? 1 : 0));
  if (!hash) {
    return slots::fail(slots::Errc::InvalidArgument,
                       "should be the SHA-256 of a password, 64 hexadecimal digits in lower case "
                       "(printf %s PASSWORD | sha256sum)");
  }
  user.passwords.push_back(hex_of(*hash));
  return {};
}

std::vector<std::string> get_passwords(const UserConfig& user) { return user.passwords; }

Status add_rules(UserConfig& user, std::string_view text) {
  if (text.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos) return {};
  if (text.find('\0') != std::string_view::npos)
    return slots::fail(slots::Errc::InvalidArgument, "rules can't hold a zero byte");
  user.rules.push_back({std::string(text), {}});
  return {};
}

std::vector<std::string> get_rules(const UserConfig& user) {
  std::vector<std::string> out;
  for (const PlacedText& rules : user.rules) out.push_back(rules.text);
  return out;
}

template <auto Member>
Status add_command(Config& config, std::string_view text) {
  if (text.empty()) return {};  // An empty list.
  std::string name(text);
  for (char& c : name) {
    if (c <= ' ' || c > '~') {
      return slots::fail(slots::Errc::InvalidArgument,
                         "should be a command such as keys, or config|set");
    }
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  (config.*Member).push_back({std::move(name), {}});
  return {};
}

template <auto Member>
std::vector<std::string> get_commands(const Config& config) {
  std::vector<std::string> out;
  for (const PlacedText& command : config.*Member) out.push_back(command.text);
  return out;
}

using C = Config;
using N = NodeConfig;
using U = UserConfig;

constexpr auto kConfigOptions = std::to_array<Option<Config>>({
    option<C, value::Name, &C::cluster>(
        "cluster", "The cluster's name; part of the node ids that cluster clients see.",
        Need::Required),
    {.path = "listen.forward",
     .form = "host:port or a Unix socket path, or a list of them",
     .help = "Where plain clients connect; looks like one standalone server.",
     .is_required = true,
     .takes_list = true,
     .set = &add_forward,
     .get = &get_forward},
    option<C, value::Switch, &C::listen, &ListenConfig::forward_cluster>(
        "listen.forward_cluster",
        "Whether the forward port also answers CLUSTER, as a seed for cluster clients."),
    option<C, value::Text, &C::listen, &ListenConfig::password>(
        "listen.password", "What clients must give to AUTH; without it they need not."),
    option<C, value::File, &C::listen, &ListenConfig::password_file>(
        "listen.password_file", "A file that holds that password."),
    option<C, value::AnyAddress, &C::listen, &ListenConfig::admin>(
        "listen.admin",
        "Where slotctl connects. A TCP address needs a password; a socket has mode 0600."),
    option<C, value::Text, &C::listen, &ListenConfig::admin_password>(
        "listen.admin_password", "What slotctl must give to AUTH."),
    option<C, value::File, &C::listen, &ListenConfig::admin_password_file>(
        "listen.admin_password_file", "A file that holds that password."),
    {.path = "listen.admin_users",
     .form = "NAME:PASSWORD, or a list of them",
     .help = "Further passwords that slotctl may give over TCP, each a person's.",
     .is_required = false,
     .takes_list = true,
     .set = &add_admin_user,
     .get = &get_admin_users},
    option<C, value::Workers, &C::workers>("workers", "Threads that serve clients."),
    option<C, value::AbsolutePath, &C::state_dir>(
        "state_dir", "The folder of the map that is in force; belongs to one proxy at a time."),
    option<C, value::PlacementName, &C::placement>(
        "placement", "How the first start spreads the slots when no node lists any."),
    option<C, value::Switch, &C::allow_config>(
        "allow_config", "Whether clients may CONFIG SET and CONFIG RESETSTAT, at all nodes."),
    {.path = "refused_commands",
     .form = "a command such as keys, or a list of them",
     .help = "What no client may do, besides what a proxy can't pass on.",
     .is_required = false,
     .takes_list = true,
     .set = &add_command<&C::refused_commands>,
     .get = &get_commands<&C::refused_commands>},
    {.path = "allowed_commands",
     .form = "a command such as debug, or a list of them",
     .help = "Of bgrewriteaof, bgsave, debug, failover, lastsave, save and shutdown, which act on "
             "one server, those that clients may send at its node's endpoint.",
     .is_required = false,
     .takes_list = true,
     .set = &add_command<&C::allowed_commands>,
     .get = &get_commands<&C::allowed_commands>},
    option<C, value::Switch, &C::ping_nodes>(
        "ping_nodes", "Whether PING asks all nodes, and says what one of them can't serve for."),
    option<C, value::DatabaseCount, &C::databases>(
        "databases",
        "Numbered databases that clients of the forward port may SELECT. Nodes need as many."),
    option<C, value::Count, &C::limits, &Limits::clients>("limits.clients",
                                                          "Client sessions of this proxy."),
    option<C, value::Size, &C::limits, &Limits::bulk>("limits.bulk", "One argument of a request."),
    option<C, value::Size, &C::limits, &Limits::buffered_request>(
        "limits.buffered_request",
        "A request that has to be held whole, since its keys are known only at its end."),
    option<C, value::Size, &C::limits, &Limits::stream_request>(
        "limits.stream_request", "A larger argument is streamed, on a node connection of its own."),
    option<C, value::Size, &C::limits, &Limits::stream_reply>(
        "limits.stream_reply", "A larger reply takes its node connection for itself."),
    option<C, value::Count, &C::limits, &Limits::inflight_requests>(
        "limits.inflight_requests",
        "Per client: requests sent to nodes and not yet answered; further ones wait."),
    option<C, value::Size, &C::limits, &Limits::inflight_bytes>(
        "limits.inflight_bytes", "Per client: bytes of those requests."),
    option<C, value::Size, &C::limits, &Limits::unread_replies>(
        "limits.unread_replies",
        "Per client: replies that it has not read; beyond it its requests wait."),
    option<C, value::Size, &C::limits, &Limits::unread_replies_total>(
        "limits.unread_replies_total",
        "All clients: unread replies; beyond it the client with most is closed."),
    option<C, value::Size, &C::limits, &Limits::unread_messages>(
        "limits.unread_messages",
        "Per client: what a subscriber has not read; beyond it it is closed."),
    option<C, value::Size, &C::limits, &Limits::subscribed_names>(
        "limits.subscribed_names",
        "Per client: names of what it has subscribed, and 128 bytes for each; beyond it an error."),
    option<C, value::Count, &C::limits, &Limits::tracked_keys>(
        "limits.tracked_keys",
        "Per worker: keys that clients with CLIENT TRACKING have read; beyond it they are told "
        "that "
        "the oldest have changed."),
    option<C, value::Size, &C::limits, &Limits::node_queue>(
        "limits.node_queue",
        "Per worker and node: request bytes not yet sent; beyond it an error."),
    option<C, value::Size, &C::limits, &Limits::merged_reply>(
        "limits.merged_reply",
        "A reply that is put together from several nodes; beyond it an error."),
    option<C, value::Count, &C::limits, &Limits::large_connections>(
        "limits.large_connections",
        "Per worker and node: connections for streamed requests; further ones wait."),
    option<C, value::Count, &C::limits, &Limits::pinned_connections>(
        "limits.pinned_connections",
        "Per worker and node: clients that watch keys at once; further ones get an error."),
    option<C, value::Count, &C::limits, &Limits::blocking_connections>(
        "limits.blocking_connections",
        "Per worker and node: clients that block at once (BLPOP); further ones get an error."),
    option<C, value::SizeOrZero, &C::limits, &Limits::script_cache>(
        "limits.script_cache",
        "Script sources remembered, to load them again on a node that lost them."),
    option<C, value::Count, &C::limits, &Limits::slot_scan_keys>(
        "limits.slot_scan_keys",
        "CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT are refused on a node with more keys."),
    option<C, value::Duration, &C::timeouts, &Timeouts::connect>("timeouts.connect",
                                                                 "To connect to a node."),
    option<C, value::Duration, &C::timeouts, &Timeouts::node_silent>(
        "timeouts.node_silent",
        "A node that answers no PING for so long is down. BUSY and LOADING are answers."),
    option<C, value::DurationOrZero, &C::timeouts, &Timeouts::request>(
        "timeouts.request",
        "For a node to answer a request; 0: no limit, since long scripts are legitimate."),
    option<C, value::Duration, &C::timeouts, &Timeouts::stalled_client>(
        "timeouts.stalled_client",
        "A client that neither reads its replies nor ends its request for so long is closed."),
    option<C, value::DurationOrZero, &C::timeouts, &Timeouts::drain>(
        "timeouts.drain",
        "At SIGTERM, or when a node leaves the map: for requests in flight to finish; 0: not at "
        "all."),
    option<C, value::Rate, &C::rebalance, &Rebalance::bandwidth>(
        "rebalance.bandwidth", "What a plan may move per second, unless it says otherwise."),
    option<C, value::Duration, &C::rebalance, &Rebalance::pause>(
        "rebalance.pause",
        "The longest that clients of a group of slots may wait while it changes "
        "hands, unless the plan says otherwise."),
    option<C, value::Share, &C::rebalance, &Rebalance::node_share>(
        "rebalance.node_share",
        "Of a node's time, what a plan with a limit takes at most. Without a limit: all it gets."),
    option<C, value::DurationOrZero, &C::rebalance, &Rebalance::grace>(
        "rebalance.grace",
        "How long a source keeps its copies when the target has neither AOF, RDB nor a replica."),
    option<C, value::Latency, &C::rebalance, &Rebalance::latency>(
        "rebalance.latency",
        "A plan slows down while the p99 of a node that takes part is above this, or above so many "
        "times what it was before the plan."),
    option<C, value::Spread, &C::rebalance, &Rebalance::propose_at>(
        "rebalance.propose_at",
        "A plan is proposed by itself, never approved, when the spread (largest over fair share) "
        "stays above this."),
    option<C, value::Duration, &C::rebalance, &Rebalance::propose_after>("rebalance.propose_after",
                                                                         "For so long."),
    option<C, value::MeasureName, &C::rebalance, &Rebalance::propose_by>(
        "rebalance.propose_by", "What that spread is of, and what the plan balances."),
    option<C, value::ApprovalName, &C::approval>(
        "approval",
        "Who may start a plan. two_person: somebody with other credentials than who proposed it, "
        "which are the uid at the admin socket and the password over TCP."),
    option<C, value::LogLevelName, &C::log, &LogConfig::level>(
        "log.level", "The least severe messages that are logged."),
    option<C, value::AbsolutePath, &C::log, &LogConfig::file>(
        "log.file", "Where to log; without it to stderr."),
});

constexpr auto kNodeOptions = std::to_array<Option<NodeConfig>>({
    option<N, value::Name, &N::name>("name", "The node's name; it stays when the address changes.",
                                     Need::Required),
    option<N, value::AnyAddress, &N::address>("address", "Where the Redis server listens.",
                                              Need::Required),
    option<N, value::TcpAddress, &N::endpoint>("endpoint",
                                               "Where cluster clients reach this node: a listener "
                                               "of this proxy. At all nodes or at none."),
    option<N, value::TcpAddress, &N::announce>(
        "announce", "What MOVED and CLUSTER say instead of the endpoint."),
    option<N, value::Weight, &N::weight>("weight", "Its share when slots are placed; 0: none."),
    {.path = "slots",
     .form = "slots such as 0-8191, or a list of them",
     .help = "The slots it owns at the first start. No node lists slots, or together they list all "
             "of 0-16383.",
     .is_required = false,
     .takes_list = true,
     .set = &add_slots,
     .get = &get_slots},
    option<N, value::Text, &N::username>("username",
                                         "The ACL user to log in as; without it \"default\"."),
    option<N, value::Text, &N::password>("password", "The password to log in with."),
    option<N, value::File, &N::password_file>("password_file", "A file that holds that password."),
});

constexpr auto kUserOptions = std::to_array<Option<UserConfig>>({
    option<U, value::UserName, &U::name>("name",
                                         "Whom AUTH and HELLO name. \"default\" is whoever "
                                         "has not logged in, or has only given a password.",
                                         Need::Required),
    option<U, value::Switch, &U::enabled>("enabled", "Whether anybody may log in as this user."),
    option<U, value::Switch, &U::nopass>("nopass", "Whether any password will do."),
    {.path = "passwords",
     .form = "SHA-256 as 64 hex digits, or a list of them",
     .help = "Hashes of passwords, each of which will do; sha256sum makes them.",
     .is_required = false,
     .takes_list = true,
     .set = &add_password,
     .get = &get_passwords},
    option<U, value::File, &U::passwords_file>(
        "passwords_file", "A file with a password, or \"#\" and a hash, in each line."),
    {.path = "rules",
     .form = "rules of ACL SETUSER, or a list of them",
     .help = "What the user may do, such as \"+@read -@dangerous ~app:* &app:*\"; without rules: "
             "nothing.",
     .is_required = false,
     .takes_list = true,
     .set = &add_rules,
     .get = &get_rules},
    option<U, value::CountOrZero, &U::connections>("connections",
                                                   "That may be logged in at once; 0: any number."),
});

template <class Target>
std::string reference_rows(std::span<const Option<Target>> options, std::string_view prefix) {
  std::string out;
  const Target defaults{};
  for (const Option<Target>& option : options) {
    const std::vector<std::string> values = option.get(defaults);
    const std::string fallback =
        option.is_required ? "required"
                           : (values.empty() ? "" : fmt::format("`{}`", fmt::join(values, ", ")));
    out += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, option.path, option.form, fallback,
                       option.help);
  }
  return out;
}

}  // namespace

std::span<const Option<Config>> config_options() { return kConfigOptions; }
std::span<const Option<NodeConfig>> node_options() { return kNodeOptions; }
std::span<const Option<UserConfig>> user_options() { return kUserOptions; }

std::string option_reference() {
  return "| key | value | default | meaning |\n|---|---|---|---|\n" +
         reference_rows(config_options(), "") + reference_rows(node_options(), "nodes[].") +
         reference_rows(user_options(), "users[].");
}

}  // namespace conf
