// CONFIG: what the nodes and the proxy are set to, as one server would say it.
//
// Without allow_config in the YAML clients read what tools ask for and change nothing. With it, GET
// says what the nodes say, and SET and RESETSTAT go to all of them.

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <vector>

#include "proxy/backend/refusals.h"
#include "proxy/resp/arguments.h"
#include "proxy/resp/reply_cursor.h"
#include "proxy/route/info_merge.h"
#include "proxy/session/all_nodes.h"
#include "proxy/session/commands.h"
#include "proxy/session/sessions.h"

namespace proxy::session {

namespace {

using resp::CommandId;
using resp::ReplyWriter;

struct Setting {
  std::string name;
  std::string value;
  std::string_view field = {};  // Of INFO, when the nodes are to say it.
};

// The host of the listener, without the brackets that a port behind an IPv6 address calls for.
std::string bound_host(const ListenerFacts& listener) {
  if (!listener.is_tcp) return {};
  std::string host = listener.address.substr(0, listener.address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

// What clients and tools ask CONFIG GET for, answered for the proxy as a whole.
std::vector<Setting> settings(const ClientSession& session) {
  const conf::Limits& limits = session.table().limits;
  return {
      {"appendonly", "no"},
      {"bind", bound_host(session.listener())},
      {"cluster-enabled", session.is_redirect() || session.table().forward_cluster ? "yes" : "no"},
      {"databases", std::to_string(session.is_redirect() ? 1 : session.table().databases)},
      {"latency-monitor-threshold", "0"},
      {"maxclients", std::to_string(limits.clients)},
      {"maxmemory", "", "maxmemory"},
      {"maxmemory-policy", "", "maxmemory_policy"},
      {"notify-keyspace-events", ""},
      {"port", std::to_string(session.listener().port)},
      {"proto-max-bulk-len", std::to_string(limits.bulk)},
      {"replica-read-only", "yes"},
      {"save", ""},
      {"slave-read-only", "yes"},
      {"slowlog-log-slower-than", "-1"},
      {"slowlog-max-len", "0"},
      {"tcp-keepalive", "300"},
      {"timeout", "0"},
      {"unixsocket", session.listener().is_tcp ? "" : session.listener().address}};
}

// A name without wildcards comes back as it was spelled.
std::vector<Setting> chosen_settings(const ClientSession& session, resp::Args patterns) {
  std::vector<Setting> chosen;
  for (Setting& setting : settings(session)) {
    for (std::string_view pattern : patterns) {
      bool is_glob = pattern.find_first_of("*?[") != std::string_view::npos;
      bool matches =
          is_glob ? ::fnmatch(std::string(pattern).c_str(), setting.name.c_str(), FNM_CASEFOLD) == 0
                  : resp::is_word(pattern, setting.name);
      if (!matches) continue;
      if (!is_glob) setting.name = std::string(pattern);
      chosen.push_back(std::move(setting));
      break;
    }
  }
  return chosen;
}

void write_settings(std::string& out, bool resp3, const std::vector<Setting>& settings) {
  ReplyWriter writer(out, resp3);
  writer.map(settings.size());
  for (const Setting& setting : settings) {
    writer.bulk(setting.name);
    writer.bulk(setting.value);
  }
}

std::string field_of(std::string_view info, std::string_view name) {
  std::string start = fmt::format("\r\n{}:", name);
  std::size_t at = info.find(start);
  if (at == std::string_view::npos) return {};
  info.remove_prefix(at + start.size());
  return std::string(info.substr(0, info.find("\r\n")));
}

// Settings that the nodes decide, merged as INFO does, so that both say the same.
class SettingsGather final : public AllNodesGather {
 public:
  SettingsGather(ClientSession& session, std::vector<Setting> settings)
      : AllNodesGather(session), settings_(std::move(settings)) {}

  void start() {
    std::string bytes;
    resp::append_request(bytes, {"INFO", "memory"});
    ask_all(NodesMeant::Every, bytes);
    sent_all();
  }

 private:
  bool finish(std::string& out) override {
    std::vector<route::NodeInfo> nodes(fragments().size());
    for (std::size_t i = 0; i < nodes.size(); ++i)
      nodes[i].info = resp::ReplyCursor(fragments()[i].reply).read_bulk();
    std::string info = route::merge_info({}, nodes, {"memory"});
    for (Setting& setting : settings_) {
      if (!setting.field.empty()) setting.value = field_of(info, setting.field);
    }
    write_settings(out, resp3(), settings_);
    return true;
  }

  std::vector<Setting> settings_;
};

void config_get(ClientSession& session, const Request& request) {
  std::vector<Setting> chosen = chosen_settings(session, request.args.subspan(2));
  bool nodes_decide =
      std::ranges::any_of(chosen, [](const Setting& each) { return !each.field.empty(); });
  if (nodes_decide) return (new SettingsGather(session, std::move(chosen)))->start();
  std::string out;
  write_settings(out, session.resp3(), chosen);
  session.reply(out);
}

// What only the proxy knows, and what would cut it off from the nodes if clients could change it.
bool is_of_proxy(std::string_view name) {
  constexpr std::string_view kNames[] = {"bind", "cluster-enabled", "databases", "maxclients",
                                         "port", "unixsocket"};
  return std::ranges::any_of(kNames, [&](auto each) { return resp::is_word(name, each); });
}
bool would_cut_off(std::string_view name) {
  constexpr std::string_view kNames[] = {"aclfile",        "bind",      "cluster-enabled",
                                         "port",           "replicaof", "requirepass",
                                         "protected-mode", "slaveof",   "tls-port"};
  return std::ranges::any_of(kNames, [&](auto each) { return resp::is_word(name, each); });
}
// The proxy's way into the nodes, and theirs to each other, is none of a client's business.
bool is_secret(std::string_view name) {
  constexpr std::string_view kNames[] = {"masterauth", "primaryauth", "requirepass",
                                         "tls-client-key-file-pass", "tls-key-file-pass"};
  return std::ranges::any_of(kNames, [&](auto each) { return resp::is_word(name, each); });
}

// What the first node says that can be asked, but for what the proxy says itself and for secrets.
class NodeSettingsGather final : public AllNodesGather {
 public:
  NodeSettingsGather(ClientSession& session, const Request& request) : AllNodesGather(session) {
    for (Setting& setting : chosen_settings(session, request.args.subspan(2))) {
      if (is_of_proxy(setting.name)) own_.push_back(std::move(setting));
    }
    ask_all(NodesMeant::Every, request.bytes);
  }

 private:
  bool finish(std::string& out) override {
    auto said =
        std::ranges::find_if(fragments(), [](const auto& each) { return !each.is_error(); });
    if (said == fragments().end()) {
      out = merged_error();
      return true;
    }
    resp::ReplyCursor cursor(said->reply);
    auto header = cursor.read_header();
    if (!header || (header->type != '*' && header->type != '%')) {
      out = malformed(*said);
      return true;
    }
    std::vector<Setting> settings;
    const std::int64_t pairs = header->type == '%' ? header->count : header->count / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      Setting setting;
      setting.name = cursor.read_bulk().value_or("");
      setting.value = cursor.read_bulk().value_or("");
      if (is_secret(setting.name)) continue;
      auto own = std::ranges::find(own_, setting.name, &Setting::name);
      settings.push_back(own == own_.end() ? std::move(setting) : *own);
    }
    write_settings(out, resp3(), settings);
    return true;
  }

  std::vector<Setting> own_;
};

void config_set(ClientSession& session, const Request& request) {
  for (std::size_t i = 2; i < request.args.size(); i += 2) {
    if (!would_cut_off(request.args[i])) continue;
    return session.reply_error(
        fmt::format("ERR CONFIG SET {} would cut the proxy off from its nodes; change it at each "
                    "node, and in the "
                    "proxy's YAML",
                    request.args[i]));
  }
  // The nodes track nothing for clients: the limit is the proxy's. They judge whether it is one.
  for (std::size_t i = 2; i + 1 < request.args.size(); i += 2) {
    const auto keys = resp::integer_of(request.args[i + 1]);
    if (resp::is_word(request.args[i], "tracking-table-max-keys") && keys && *keys >= 0)
      session.sessions().trackers().set_keys_max(static_cast<std::uint64_t>(*keys));
  }
  session.core().refusals->note(session.core().now_ms());  // It may make nodes refuse commands.
  (new AllSucceededGather(session, request.bytes))->sent_all();
}

void refuse(ClientSession& session, const Request& request) {
  session.reply_error(resp::errors::not_supported(
      request.spec->name,
      "it acts on one server; change the node's own configuration, or the "
      "proxy's YAML"));
}

}  // namespace

void command_config(ClientSession& session, const Request& request) {
  const bool is_allowed = session.table().allow_config;
  switch (request.spec->id) {
    case CommandId::ConfigGet:
      if (is_allowed) return (new NodeSettingsGather(session, request))->sent_all();
      return config_get(session, request);
    case CommandId::ConfigSet:
      if (is_allowed) return config_set(session, request);
      break;
    case CommandId::ConfigResetstat:
      if (!is_allowed) break;
      session.sessions().reset_totals();
      return (new AllSucceededGather(session, request.bytes))->sent_all();
    case CommandId::ConfigHelp:
      return reply_help(
          session,
          std::to_array<std::string_view>(
              {"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "GET <pattern>",
               "    Return what the proxy answers for the nodes as one server.",
               "SET <directive> <value>, RESETSTAT",
               "    At all nodes, if allow_config is true in the proxy's YAML.", "HELP",
               "    Print this help."}));
    default:
      return refuse(session, request);
  }
  session.reply_error(resp::errors::not_supported(request.spec->name,
                                                  "it would act on all nodes; set allow_config: "
                                                  "true in the proxy's YAML to let clients do so"));
}

}  // namespace proxy::session
