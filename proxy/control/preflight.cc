#include "proxy/control/preflight.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proxy/resp/reserved_key.h"

namespace proxy::control {

namespace {

constexpr std::uint64_t kOwnKeys = 1;  // Each verified node holds its identity key.

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Preflight::Preflight(uv_loop_t* loop, std::vector<AskedNode> nodes, std::string client_name,
                     conf::Milliseconds connect, conf::Milliseconds answer,
                     std::function<void(Findings)> done)
    : client_name_(std::move(client_name)),
      connect_(connect),
      answer_(answer),
      done_(std::move(done)),
      waiting_(nodes.size()) {
  for (AskedNode& asked : nodes) {
    Node& node = nodes_.emplace_back();
    node.asked = std::move(asked);
    node.client = std::make_unique<NodeClient>(loop);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) start(i);
}

void Preflight::start(std::size_t index) {
  Node& node = nodes_[index];
  node.client->on_lost([this, index](const slots::Error& error) { end(index, error.message); });
  node.client->connect(node.asked.address, connect_, [this, index](slots::Status connected) {
    if (!connected) return end(index, "can't be reached: " + connected.error().message);
    const AskedNode& asked = nodes_[index].asked;
    nodes_[index].client->log_in(asked.username, asked.password, client_name_, answer_,
                                 [this, index](slots::Status in) {
                                   if (!in) return end(index, in.error().message);
                                   ask(index);
                                 });
  });
}

void Preflight::ask(std::size_t index, const Command& command,
                    std::function<void(NodeFinding&, const Reply&)> take) {
  ++nodes_[index].waiting;
  nodes_[index].client->call(command, answer_,
                             [this, index, take = std::move(take)](slots::Result<Reply> reply) {
                               if (!reply) return end(index, reply.error().message);
                               take(nodes_[index].finding, *reply);
                               if (--nodes_[index].waiting == 0)
                                 end(index, nodes_[index].finding.problem);
                             });
}

void Preflight::ask(std::size_t index) {
  ask(index, {"TIME"}, [sent = now_ms()](NodeFinding& finding, const Reply& reply) {
    take_time(finding, reply, sent, now_ms());
  });
  for (const char* name : {"save", "maxmemory-clients", "client-output-buffer-limit", "databases"})
    ask(index, {"CONFIG", "GET", name}, take_config);
  ask(index, {"GET", std::string(resp::kIdentityKey)},
      [](NodeFinding& finding, const Reply& reply) {
        if (reply.is_string()) finding.identity = reply.text;
      });
  ask(index, {"DUMP", std::string(resp::kIdentityKey)}, take_payload);
  ask(index, {"FUNCTION", "LIST", "WITHCODE"}, take_libraries);
  ask(index, {"INFO"}, [this, index](NodeFinding& finding, const Reply& reply) {
    take_info(finding, reply);
    if (finding.problem.empty()) ask_for_rights(index);
  });
}

void Preflight::ask_for_rights(std::size_t index) {
  Node& node = nodes_[index];
  if (!node.asked.username.empty()) node.finding.user = node.asked.username;
  for (const NeededRight& right : needed_rights(node.asked.role, major_version(node.finding) >= 7))
    ask_for_right(index, right);
}

void Preflight::ask_for_right(std::size_t index, const NeededRight& right) {
  Command dry_run{"ACL", "DRYRUN", nodes_[index].finding.user};
  dry_run.insert(dry_run.end(), right.command.begin(), right.command.end());
  ask(index, dry_run, [this, index, right](NodeFinding& finding, const Reply& reply) {
    const bool may_not_ask = reply.error_word() == "NOPERM" ||
                             reply.text.starts_with("ERR unknown subcommand") ||
                             reply.text.starts_with("ERR Unknown subcommand");
    if (!reply.is_error() || !may_not_ask) return take_dry_run(finding.rights, right, reply);
    ask(index, right.command, [right](NodeFinding& tried, const Reply& answer) {
      take_trial(tried.rights, right, answer);
    });
  });
}

void Preflight::end(std::size_t index, std::string problem) {
  Node& node = nodes_[index];
  if (node.has_ended) return;
  node.has_ended = true;
  node.finding.problem = std::move(problem);
  if (--waiting_ > 0) return;
  Findings findings;
  for (Node& each : nodes_) findings[each.asked.name] = std::move(each.finding);
  done_(std::move(findings));
}

SlotLoad expected_load(const NodeFacts& facts, std::size_t slots) {
  const auto keys = static_cast<double>(facts.keys - std::min(facts.keys, kOwnKeys));
  if (slots == 0) return {};
  return {keys / static_cast<double>(slots),
          keys > 0 ? static_cast<double>(facts.dataset) / keys : 0};
}

Expected expected_of(const PlanRecord& plan, const slots::Move& move) {
  if (const auto counted = plan.forecast.moves.find(move.slots.first);
      counted != plan.forecast.moves.end())
    return {counted->second.keys, counted->second.bytes};
  const auto load = plan.forecast.loads.find(move.from);
  if (load == plan.forecast.loads.end()) return {};
  const double keys = static_cast<double>(move.slots.size()) * load->second.keys_per_slot;
  return {keys, keys * load->second.bytes_per_key};
}

Expected expected_total(const PlanRecord& plan) {
  Expected total;
  for (const slots::Move& move : plan.plan.content.moves) {
    const Expected expected = expected_of(plan, move);
    total.keys += expected.keys;
    total.bytes += expected.bytes;
  }
  for (const slots::StrayMove& strays : plan.plan.content.strays) {
    total.keys += static_cast<double>(strays.keys());
    total.bytes += static_cast<double>(strays.bytes);
  }
  return total;
}

}  // namespace proxy::control
