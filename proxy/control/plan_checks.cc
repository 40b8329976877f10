#include "proxy/control/plan_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "proxy/control/preflight.h"

namespace proxy::control {

namespace {

constexpr std::int64_t kClockSkewMaxMs = 1000;
constexpr std::int64_t kClockSkewWarningMs = 50;
constexpr double kMemoryWarning = 0.9;
constexpr std::uint64_t kOwnKeys = 1;  // Each verified node holds its identity key.
// A batch of copies has to fit; the notices of a second's writes should.
constexpr std::uint64_t kReplyLimitMin = std::uint64_t{1} << 20;
constexpr std::uint64_t kReplyLimitWarning = std::uint64_t{32} << 20;

std::string in_megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

// The checks, one after the other.
class Judge {
 public:
  Judge(const PlanRecord& plan, const Findings& findings)
      : findings_(findings), roles_(roles_in(plan.plan.content)) {
    for (const slots::Move& move : plan.plan.content.moves) {
      pairs_.insert({move.from, move.to});
      coming_[move.to] += expected_of(plan, move).bytes;
    }
    for (const slots::StrayMove& strays : plan.plan.content.strays) {
      pairs_.insert({strays.from, strays.to});
      coming_[strays.to] += static_cast<double>(strays.bytes);
    }
  }

  std::vector<admin::PlanCheck> run() {
    for (const auto& [name, finding] : findings_) check_node(name, finding);
    for (const auto& [source, target] : pairs_) check_pair(source, target);
    for (const auto& [name, role] : roles_) {
      const NodeFinding* finding = found(name);
      if (finding == nullptr) continue;
      check_rights(name, *finding);
      check_databases(name, role, *finding);
      check_clients(name, *finding);
      if (role.takes || role.takes_strays) check_target(name, *finding);
      if (role.joins) check_joining(name, *finding);
    }
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

  void check_node(const std::string& name, const NodeFinding& finding) {
    std::string problem = finding.problem;
    if (problem.empty()) problem = why_unsuitable(finding.facts).value_or("");
    if (problem.empty() && finding.facts.loading) problem = "is loading its data set";
    if (problem.empty()) {
      pass(fmt::format("{} is up and a primary", name));
    } else {
      fail(fmt::format("{} {}", name, problem), "mend it, then approve again");
    }
    for (const std::string& replica : finding.late_replicas) {
      warn(fmt::format("a replica of {}, {}", name, replica),
           "what moves adds to what it has to catch up with: wait until it has, or choose a "
           "smaller --limit");
    }
  }

  void check_pair(const std::string& source, const std::string& target) {
    const NodeFinding* from = found(source);
    const NodeFinding* to = found(target);
    if (from == nullptr || to == nullptr) return;
    check_versions(source, *from, target, *to);
    check_clocks(source, *from, target, *to);
    check_functions(source, *from, target, *to);
    check_databases(source, *from, target, *to);
  }

  void check_versions(const std::string& source, const NodeFinding& from, const std::string& target,
                      const NodeFinding& to) {
    const std::string what = fmt::format("versions: {} {} -> {} {}", source, from.facts.version,
                                         target, to.facts.version);
    const auto dumped = payload_version_of(from);
    const auto read = payload_version_of(to);
    if (dumped && read && *dumped > *read) {
      warn(fmt::format("{}: payloads of version {}, and {} reads up to {}", what, *dumped, target,
                       *read),
           fmt::format("{} can't read what {} dumps, so every key goes in pieces: that is much "
                       "slower, and what pieces can't carry (types of modules) ends the plan",
                       target, source));
    } else {
      pass(what);
    }
  }

  void check_clocks(const std::string& source, const NodeFinding& from, const std::string& target,
                    const NodeFinding& to) {
    const std::int64_t measured = std::abs(from.clock_ms_ahead - to.clock_ms_ahead);
    // What is left when both measurements were as wrong as they can be.
    const std::int64_t skew = measured - from.clock_ms_doubt - to.clock_ms_doubt;
    if (skew <= kClockSkewWarningMs)
      return pass(fmt::format("clocks of {} and {} agree", source, target));
    const std::string what =
        fmt::format("the clocks of {} and {} differ by about {} ms", source, target, measured);
    const char* advice = "keys expire by so much too early or too late: set the clocks (NTP)";
    if (skew > kClockSkewMaxMs) {
      fail(what, advice);
    } else {
      warn(what, advice);
    }
  }

  void check_functions(const std::string& source, const NodeFinding& from,
                       const std::string& target, const NodeFinding& to) {
    if (from.libraries.empty()) return;
    std::vector<std::string> lacking;
    for (const auto& [name, code] : from.libraries) {
      const auto same = to.libraries.find(name);
      if (same == to.libraries.end() || same->second != code) lacking.push_back(name);
    }
    const std::string all = fmt::format("{}", fmt::join(lacking, ", "));
    if (lacking.empty()) {
      pass(fmt::format("{} has the functions of {}", target, source));
    } else if (roles_[target].joins) {
      pass(fmt::format("{} gets the functions of {} before its first slot: {}", target, source,
                       all));
    } else {
      warn(fmt::format("{} lacks functions of {}, or has others: {}", target, source, all),
           "FCALL on keys that move would fail: FUNCTION LOAD REPLACE them through the proxy, "
           "which loads them on every node");
    }
  }

  void check_databases(const std::string& name, const PlanRole& role, const NodeFinding& finding) {
    if (finding.other_databases.empty()) {
      pass(fmt::format("{} has keys in database 0 only", name));
    } else if (role.gives_strays) {
      warn(fmt::format("{} has keys in {}", name, text_of(finding.other_databases)),
           "only strays of database 0 are collected");
    } else {
      pass(fmt::format("{} has keys in {}{}", name, text_of(finding.other_databases),
                       role.gives ? ", which move too" : ""));
    }
  }

  // What moves needs its database at the target.
  void check_databases(const std::string& source, const NodeFinding& from,
                       const std::string& target, const NodeFinding& to) {
    if (from.other_databases.empty() || !roles_[source].gives) return;
    const std::uint64_t needed = from.other_databases.back() + 1;
    if (to.databases == 0) {
      warn(fmt::format("{} does not say how many databases it has", target),
           fmt::format("{} has keys in {}: look at `databases` in the redis.conf of {}, or let the "
                       "proxy ask for it (CONFIG GET)",
                       source, text_of(from.other_databases), target));
    } else if (to.databases < needed) {
      fail(fmt::format("{} has keys in {}, and {} has {} databases", source,
                       text_of(from.other_databases), target, to.databases),
           fmt::format("set `databases {}` or more in the redis.conf of {} and restart it", needed,
                       target));
    } else {
      pass(fmt::format("{} has the databases of {}", target, source));
    }
  }

  static std::string text_of(const std::vector<std::uint64_t>& databases) {
    return fmt::format("db{}", fmt::join(databases, ", db"));
  }

  // What could cut off the connection that hears of every change, or drop it for its memory.
  void check_clients(const std::string& name, const NodeFinding& finding) {
    if (finding.reply_limit == 0) {
      pass(fmt::format("{} lets any number of replies wait for a client", name));
    } else {
      const std::string what =
          fmt::format("{} cuts off clients for which {} wait (client-output-buffer-limit normal)",
                      name, in_megabytes(static_cast<double>(finding.reply_limit)));
      const char* advice = "CONFIG SET client-output-buffer-limit \"normal 0 0 0\"";
      if (finding.reply_limit < kReplyLimitMin) {
        fail(what, fmt::format("copies would never arrive: {}", advice));
      } else if (finding.reply_limit < kReplyLimitWarning) {
        warn(what, fmt::format("after a burst of changes the copying begins anew: {}", advice));
      } else {
        pass(what);
      }
    }
    if (!finding.evicts_clients) return;
    const bool is_exempt =
        std::ranges::find(finding.rights.wished, "client|no-evict") == finding.rights.wished.end();
    if (is_exempt) {
      pass(fmt::format("{} evicts clients (maxmemory-clients), those that move slots excepted",
                       name));
    } else {
      warn(fmt::format("{} may evict the connections that move slots (maxmemory-clients)", name),
           "the copying begins anew then: " + acl_line(finding.user, finding.rights));
    }
  }

  void check_target(const std::string& target, const NodeFinding& finding) {
    if (!finding.is_persistent) {
      warn(fmt::format("{} has neither AOF, RDB nor a replica", target),
           "what it takes over is lost if its server ends; the sources keep their copies only for "
           "rebalance.grace");
    }
    for (const std::string& problem : finding.persistence_problems) {
      warn(fmt::format("{}: {}", target, problem),
           "it may refuse writes (MISCONF) and the sources keep their copies until it can: see "
           "its disk and its log");
    }
    check_memory(target, finding);
    check_eviction(target, finding.facts);
  }

  void check_memory(const std::string& target, const NodeFinding& finding) {
    const double after = static_cast<double>(finding.facts.used_memory) + coming_[target];
    const bool has_maxmemory = finding.facts.maxmemory != 0;
    const auto limit =
        static_cast<double>(has_maxmemory ? finding.facts.maxmemory : finding.machine_memory);
    if (limit == 0) return pass(fmt::format("{} has no maxmemory", target));
    const std::string what =
        fmt::format("memory of {} after: {} of {}{}", target, in_megabytes(after),
                    in_megabytes(limit), has_maxmemory ? "" : " of its machine (no maxmemory)");
    const std::string advice = fmt::format("{}, or move less (--slots)",
                                           has_maxmemory ? "raise its maxmemory" : "give it more");
    if (after > limit) {
      fail(what, advice);
    } else if (after > limit * kMemoryWarning) {
      warn(what, advice);
    } else {
      pass(what);
    }
  }

  void check_eviction(const std::string& target, const NodeFacts& facts) {
    const std::string& policy = facts.maxmemory_policy;
    if (policy == "noeviction" || policy.empty() || facts.maxmemory == 0)
      return pass(fmt::format("{} evicts no keys", target));
    const bool is_any = policy.starts_with("allkeys-");
    warn(fmt::format("{} evicts {} when it is full ({})", target,
                     is_any ? "any key" : "keys that expire", policy),
         is_any ? "copies can be evicted before they count, and are copied again; and it may evict "
                  "its proof of what it holds: raise its maxmemory, or set noeviction meanwhile"
                : "copies of keys with an expiry can be evicted before they count, and are copied "
                  "again: raise its maxmemory, or set noeviction meanwhile");
  }

  void check_joining(const std::string& name, const NodeFinding& finding) {
    if (finding.facts.keys > kOwnKeys) {
      fail(fmt::format("{} joins with {} keys of its own", name, finding.facts.keys),
           "the move would delete those of the slots that it gets: empty it first (FLUSHALL)");
    } else {
      pass(fmt::format("{} joins empty", name));
    }
  }

  void check_rights(const std::string& name, const NodeFinding& finding) {
    const Rights& rights = finding.rights;
    if (!rights.missing.empty()) {
      fail(fmt::format("{} does not know {}", name, fmt::join(rights.missing, ", ")),
           "it was renamed or switched off: undo its rename-command");
    }
    if (!rights.are_known) {
      return warn(fmt::format("rights on {} can't be asked for", name),
                  "see that the proxy's user may do everything");
    }
    std::vector<std::string> refused = rights.denied;
    if (rights.denies_keys) refused.emplace_back("keys of the data");
    if (rights.denies_own_keys) refused.emplace_back("keys that begin with __slotproxy:");
    if (!refused.empty()) {
      return fail(
          fmt::format("{} denies its user {}: {}", name, finding.user, fmt::join(refused, ", ")),
          "on that server: " + acl_line(finding.user, rights));
    }
    pass(fmt::format("rights on {}", name));
    if (rights.wished.empty()) return;
    warn(fmt::format("{} denies its user {}: {}", name, finding.user,
                     fmt::join(rights.wished, ", ")),
         "it goes on without, less surely or later: " + acl_line(finding.user, rights));
  }

  const Findings& findings_;
  std::map<std::string, PlanRole> roles_;
  std::set<std::pair<std::string, std::string>> pairs_;
  std::map<std::string, double> coming_;
  std::vector<admin::PlanCheck> checks_;
};

}  // namespace

std::map<std::string, PlanRole> roles_in(const slots::PlanContent& plan) {
  std::map<std::string, PlanRole> roles;
  std::set<std::string> joining;
  for (const slots::SlotMapEdit& edit : plan.edits_before) {
    if (const auto* add = std::get_if<slots::AddNode>(&edit)) joining.insert(add->node.name);
  }
  for (const std::string& name : joining) roles[name].joins = true;
  for (const slots::Move& move : plan.moves) {
    roles[move.from].gives = true;
    roles[move.to].takes = true;
    if (joining.contains(move.to)) roles[move.from].gives_functions = true;
  }
  for (const slots::StrayMove& strays : plan.strays) {
    roles[strays.from].gives_strays = true;
    roles[strays.to].takes_strays = true;
  }
  return roles;
}

std::vector<admin::PlanCheck> judge(const PlanRecord& plan, const Findings& findings) {
  return Judge(plan, findings).run();
}

}  // namespace proxy::control
