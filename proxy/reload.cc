#include "proxy/reload.h"

#include <fmt/format.h>

#include <tuple>

#include "conf/drift.h"

namespace proxy {

namespace {

bool same_limits(const conf::Limits& a, const conf::Limits& b) {
  auto fields = [](const conf::Limits& l) {
    return std::tie(l.clients, l.bulk, l.buffered_request, l.stream_request, l.stream_reply,
                    l.inflight_requests, l.inflight_bytes, l.unread_replies, l.unread_replies_total,
                    l.unread_messages, l.subscribed_names, l.tracked_keys, l.node_queue,
                    l.merged_reply, l.large_connections, l.pinned_connections,
                    l.blocking_connections, l.script_cache, l.slot_scan_keys);
  };
  return fields(a) == fields(b);
}

bool same_timeouts(const conf::Timeouts& a, const conf::Timeouts& b) {
  auto fields = [](const conf::Timeouts& t) {
    return std::tie(t.connect, t.node_silent, t.request, t.stalled_client, t.drain);
  };
  return fields(a) == fields(b);
}

void compare_nodes(const conf::Config& now, const conf::Config& wanted, Reload& reload) {
  for (const conf::NodeConfig& node : wanted.nodes) {
    for (const conf::NodeConfig& was : now.nodes) {
      if (was.name != node.name) continue;
      if (was.address != node.address) {
        reload.notes.push_back(fmt::format("node {}: address {} is now {}", node.name,
                                           was.address.text(), node.address.text()));
      }
      if (was.username != node.username || was.password != node.password) {
        reload.notes.push_back(fmt::format("node {}: credentials changed", node.name));
      }
      if (was.endpoint != node.endpoint) {
        reload.notes.push_back(
            fmt::format("node {}: endpoint changes at the next restart", node.name));
      }
      if (was.announce != node.announce) {
        reload.notes.push_back(fmt::format("node {}: announce changed", node.name));
      }
    }
  }
}

}  // namespace

Reload plan_reload(const conf::Config& now, const conf::Config& wanted, const slots::SlotMap& map) {
  Reload reload;
  reload.config = wanted;
  auto needs_restart = [&](bool changed, std::string_view key) {
    if (changed) reload.notes.push_back(fmt::format("{} changes at the next restart", key));
  };
  auto applied = [&](bool changed, std::string_view what) {
    if (changed) reload.notes.push_back(fmt::format("{} changed", what));
  };
  applied(!same_limits(now.limits, wanted.limits), "limits");
  applied(!same_timeouts(now.timeouts, wanted.timeouts), "timeouts");
  applied(now.rebalance != wanted.rebalance, "rebalance");
  applied(now.log.level != wanted.log.level, "log.level");
  applied(now.listen.password != wanted.listen.password, "listen.password");
  applied(now.listen.admin_password != wanted.listen.admin_password, "listen.admin_password");
  applied(now.listen.admin_users != wanted.listen.admin_users, "listen.admin_users");
  applied(now.approval != wanted.approval, "approval");
  applied(now.listen.forward_cluster != wanted.listen.forward_cluster, "listen.forward_cluster");
  applied(now.users != wanted.users, "users");
  applied(now.allow_config != wanted.allow_config, "allow_config");
  applied(now.refused_commands != wanted.refused_commands, "refused_commands");
  applied(now.allowed_commands != wanted.allowed_commands, "allowed_commands");
  applied(now.ping_nodes != wanted.ping_nodes, "ping_nodes");
  applied(now.databases != wanted.databases, "databases");
  compare_nodes(now, wanted, reload);
  needs_restart(now.cluster != wanted.cluster, "cluster");
  needs_restart(now.listen.forward != wanted.listen.forward, "listen.forward");
  needs_restart(now.listen.admin != wanted.listen.admin, "listen.admin");
  needs_restart(now.workers != wanted.workers, "workers");
  needs_restart(now.state_dir != wanted.state_dir, "state_dir");
  needs_restart(now.log.file != wanted.log.file, "log.file");

  reload.config.cluster = now.cluster;
  reload.config.listen.forward = now.listen.forward;
  reload.config.listen.admin = now.listen.admin;
  reload.config.workers = now.workers;
  reload.config.state_dir = now.state_dir;
  reload.config.log.file = now.log.file;
  for (conf::NodeConfig& node : reload.config.nodes) {
    for (const conf::NodeConfig& was : now.nodes) {
      if (was.name == node.name) node.endpoint = was.endpoint;
    }
  }
  for (const std::string& line : conf::drift(reload.config, map))
    reload.notes.push_back("drift: " + line);
  if (reload.notes.empty()) reload.notes.push_back("nothing has changed");
  return reload;
}

}  // namespace proxy
