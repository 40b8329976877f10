#include "proxy/control/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace proxy::control {

namespace {

constexpr std::int64_t kClockSkewMaxMs = 1000;
constexpr double kMemoryWarning = 0.9;
constexpr std::uint64_t kOwnKeys = 1;  // Each verified node holds its identity key.

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Lines "name:value" of INFO.
template <class Take>
void each_fact(std::string_view info, Take take) {
  while (!info.empty()) {
    const std::size_t end = info.find('\n');
    std::string_view line = info.substr(0, end);
    info.remove_prefix(end == std::string_view::npos ? info.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) take(line.substr(0, colon), line.substr(colon + 1));
  }
}

void take_info(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_string()) {
    finding.problem = "does not answer INFO: " + reply.text;
    return;
  }
  finding.facts = parse_info(reply.text);
  each_fact(reply.text, [&](std::string_view name, std::string_view value) {
    if (name == "aof_enabled" || name == "connected_slaves") finding.is_persistent |= value != "0";
    if (name.size() > 2 && name.starts_with("db") && name != "db0" &&
        name.find_first_not_of("0123456789", 2) == std::string_view::npos) {
      finding.other_databases += (finding.other_databases.empty() ? "" : ", ") + std::string(name);
    }
  });
}

void take_time(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_array() || reply.elements.size() != 2) return;
  const std::int64_t seconds = std::atoll(reply.elements[0].text.c_str());
  const std::int64_t micros = std::atoll(reply.elements[1].text.c_str());
  finding.clock_ms_ahead = seconds * 1000 + micros / 1000 - now_ms();
}

// "save" of CONFIG GET is empty without RDB; a server that does not let us ask says nothing.
void take_save(NodeFinding& finding, const Reply& reply) {
  if (reply.is_array() && reply.elements.size() == 2 && !reply.elements[1].text.empty())
    finding.is_persistent = true;
}

// What the mover and the collector send.
const std::array<Command, 11> kNeeded{{{"SCAN", "0"},
                                       {"DUMP", "k"},
                                       {"PTTL", "k"},
                                       {"RESTORE", "k", "0", "v", "REPLACE", "ABSTTL"},
                                       {"UNLINK", "k"},
                                       {"SET", "k", "v"},
                                       {"GET", "k"},
                                       {"TIME"},
                                       {"INFO"},
                                       {"CLIENT", "TRACKING", "ON"},
                                       {"CLIENT", "KILL", "ID", "1"}}};

struct Version {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Version&) const = default;
};

Version version_of(std::string_view text) {
  Version version;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, version.major);
  if (error == std::errc{} && after != end) std::from_chars(after + 1, end, version.minor);
  return version;
}

std::string in_megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

// The checks, one after the other.
class Judge {
 public:
  Judge(const PlanRecord& plan, const Findings& findings) : plan_(plan), findings_(findings) {
    for (const slots::Move& move : plan.plan.content.moves) {
      pairs_.insert({move.from, move.to});
      sources_.insert(move.from);
      coming_[move.to] += expected_of(plan, move).bytes;
    }
    for (const slots::SlotMapEdit& edit : plan.plan.content.edits_before) {
      if (const auto* add = std::get_if<slots::AddNode>(&edit)) joining_.insert(add->node.name);
    }
  }

  std::vector<admin::PlanCheck> run() {
    check_nodes();
    for (const auto& [source, target] : pairs_) check_pair(source, target);
    for (const std::string& source : sources_) check_databases(source);
    for (const auto& [target, bytes] : coming_) check_memory(target, bytes);
    check_joining();
    check_rights();
    std::ranges::stable_sort(checks_, {}, [](const admin::PlanCheck& check) {
      return check.result == "fail" ? 0 : check.result == "warn" ? 1 : 2;
    });
    return std::move(checks_);
  }

 private:
  void pass(std::string what) { checks_.push_back({"pass", std::move(what), ""}); }
  void warn(std::string what, std::string advice) {
    checks_.push_back({"warn", std::move(what), std::move(advice)});
  }
  void fail(std::string what, std::string advice) {
    checks_.push_back({"fail", std::move(what), std::move(advice)});
  }
  // Null when the node could not be asked, which is said once.
  const NodeFinding* found(const std::string& node) const {
    const auto finding = findings_.find(node);
    return finding == findings_.end() || !finding->second.problem.empty() ? nullptr
                                                                          : &finding->second;
  }

  void check_nodes() {
    for (const auto& [name, finding] : findings_) {
      std::string problem = finding.problem;
      if (problem.empty()) problem = why_unsuitable(finding.facts).value_or("");
      if (problem.empty()) {
        pass(fmt::format("{} is up and a primary", name));
      } else {
        fail(fmt::format("{} {}", name, problem), "mend it, then approve again");
      }
    }
  }

  void check_pair(const std::string& source, const std::string& target) {
    const NodeFinding* from = found(source);
    const NodeFinding* to = found(target);
    if (from == nullptr || to == nullptr) return;
    const std::string what = fmt::format("versions: {} {} -> {} {}", source, from->facts.version,
                                         target, to->facts.version);
    if (version_of(to->facts.version) < version_of(from->facts.version)) {
      fail(what, fmt::format("{} may not read what {} dumps: upgrade it first", target, source));
    } else {
      pass(what);
    }
    const std::int64_t skew = std::abs(from->clock_ms_ahead - to->clock_ms_ahead);
    if (skew > kClockSkewMaxMs) {
      fail(fmt::format("the clocks of {} and {} differ by {} ms", source, target, skew),
           "keys would expire too early or too late: set the clocks (NTP)");
    } else {
      pass(fmt::format("clocks of {} and {} agree", source, target));
    }
  }

  void check_databases(const std::string& source) {
    const NodeFinding* finding = found(source);
    if (finding == nullptr) return;
    if (finding->other_databases.empty()) {
      pass(fmt::format("{} has keys in database 0 only", source));
    } else {
      fail(fmt::format("{} has keys in {}", source, finding->other_databases),
           "only database 0 moves: empty the others, or move their keys yourself");
    }
  }

  void check_memory(const std::string& target, double coming) {
    const NodeFinding* finding = found(target);
    if (finding == nullptr) return;
    const NodeFacts& facts = finding->facts;
    if (!finding->is_persistent) {
      warn(fmt::format("{} has neither AOF, RDB nor a replica", target),
           "what it takes over is lost if its server ends; the sources keep their copies only for "
           "rebalance.grace");
    }
    if (facts.maxmemory == 0) return pass(fmt::format("{} has no maxmemory", target));
    const double after = static_cast<double>(facts.used_memory) + coming;
    const auto limit = static_cast<double>(facts.maxmemory);
    const std::string what = fmt::format("memory of {} after: {} of {}", target,
                                         in_megabytes(after), in_megabytes(limit));
    if (after > limit) {
      fail(what, "raise its maxmemory, or move less (--slots)");
    } else if (after > limit * kMemoryWarning) {
      warn(what, "raise its maxmemory, or move less (--slots)");
    } else {
      pass(what);
    }
    if (facts.maxmemory_policy == "noeviction") return;
    warn(fmt::format("{} evicts ({})", target, facts.maxmemory_policy),
         "copies can be evicted before they count; they are copied again, which takes longer");
  }

  void check_joining() {
    for (const std::string& name : joining_) {
      const NodeFinding* finding = found(name);
      if (finding == nullptr) continue;
      if (finding->facts.keys > kOwnKeys) {
        fail(fmt::format("{} joins with {} keys of its own", name, finding->facts.keys),
             "the move would delete those of the slots that it gets: empty it first (FLUSHALL)");
      } else {
        pass(fmt::format("{} joins empty", name));
      }
    }
  }

  void check_rights() {
    for (const auto& [name, finding] : findings_) {
      if (!finding.problem.empty()) continue;
      if (!finding.denied.empty()) {
        fail(fmt::format("{} denies {}", name, fmt::join(finding.denied, ", ")),
             "give the proxy's user these rights (ACL SETUSER)");
      } else if (finding.rights_known) {
        pass(fmt::format("rights on {}", name));
      } else {
        warn(fmt::format("rights on {} can't be asked for", name),
             "it needs ACL DRYRUN (Redis 7.0); see that the proxy's user may do everything");
      }
    }
  }

  const PlanRecord& plan_;
  const Findings& findings_;
  std::set<std::pair<std::string, std::string>> pairs_;
  std::set<std::string> sources_;
  std::set<std::string> joining_;
  std::map<std::string, double> coming_;
  std::vector<admin::PlanCheck> checks_;
};

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
  ask(index, {"TIME"}, take_time);
  ask(index, {"INFO"}, take_info);
  ask(index, {"CONFIG", "GET", "save"}, take_save);
  const std::string& user = nodes_[index].asked.username;
  for (const Command& needed : kNeeded) {
    Command dry_run{"ACL", "DRYRUN", user.empty() ? "default" : user};
    dry_run.insert(dry_run.end(), needed.begin(), needed.end());
    ask(index, dry_run, [name = needed.front()](NodeFinding& finding, const Reply& reply) {
      if (reply.is_error()) return;
      finding.rights_known = true;
      if (reply.text != "OK" && std::ranges::find(finding.denied, name) == finding.denied.end())
        finding.denied.push_back(name);
    });
  }
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
  const auto load = plan.forecast.loads.find(move.from);
  if (load == plan.forecast.loads.end()) return {};
  const double keys = static_cast<double>(move.slots.size()) * load->second.keys_per_slot;
  return {keys, keys * load->second.bytes_per_key};
}

std::vector<admin::PlanCheck> judge(const PlanRecord& plan, const Findings& findings) {
  return Judge(plan, findings).run();
}

}  // namespace proxy::control
