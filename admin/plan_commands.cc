#include "admin/plan_commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "admin/plan_api.h"
#include "admin/plan_render.h"
#include "admin/plan_watch.h"
#include "slots/measure.h"

namespace admin {

namespace {

// Loads by slot are counted at the pace of the nodes.
constexpr double kProposeTimeoutSeconds = 3600;

constexpr const char* kProposeHelp = R"(
The goals are reached together, with the fewest moves. A node to add must be in the configuration
that the daemon has loaded (slotctl reload). Nothing moves before somebody approves the plan.

Examples:
  slotctl plan propose --add inv-tar
  slotctl plan propose --drain inv-bcn --limit 5MB/s --by ana --reason "new disks"
  slotctl plan propose --move 100-199:inv-vlc
  slotctl plan propose --to-config
  slotctl plan propose --collect-strays)";

constexpr const char* kWaitHelp = R"(
Exit codes:
  0  done
  1  refused, or the daemon can't be reached
  3  failed
  4  aborted
  5  rejected or stale
  6  paused by the system (wait only)
  7  --timeout is over (wait only))";

// What one subcommand has been given.
struct PlanArguments {
  std::string id;
  Words goals;  // As the daemon gets them, in the order of the command line.
  std::string digest;
  std::string rate;
  std::string by;
  std::string reason;
  std::optional<double> timeout;
};

struct Command {
  CLI::App* app;
  std::shared_ptr<PlanArguments> arguments;
};

Command add(CLI::App& plan, const char* name, const char* help) {
  CLI::App* app = plan.add_subcommand(name, help);
  app->fallthrough();
  return {app, std::make_shared<PlanArguments>()};
}

Command add_with_id(CLI::App& plan, const char* name, const char* help) {
  Command command = add(plan, name, help);
  command.app->add_option("N", command.arguments->id, "The plan's number")
      ->required()
      ->check(CLI::PositiveNumber.description(""));
  return command;
}

// Who does it and why, for the audit log.
void take_person(const Command& command) {
  command.app->add_option("--by", command.arguments->by, "Who does it; for the audit log")
      ->type_name("NAME");
  command.app->add_option("--reason", command.arguments->reason, "Why; for the audit log")
      ->type_name("TEXT");
}

Words with_person(Words words, const PlanArguments& arguments) {
  if (!arguments.by.empty()) words.insert(words.end(), {"--by", arguments.by});
  if (!arguments.reason.empty()) words.insert(words.end(), {"--reason", arguments.reason});
  return words;
}

// An option whose name and value go to the daemon as they stand.
CLI::Option* pass_on(const Command& command, const char* name, const char* type, const char* help) {
  const std::shared_ptr<PlanArguments>& arguments = command.arguments;
  return command.app
      ->add_option_function<std::string>(
          name,
          [arguments, name](const std::string& value) {
            arguments->goals.insert(arguments->goals.end(), {name, value});
          },
          help)
      ->trigger_on_parse()
      ->type_name(type);
}

// A goal whose value may be left out.
void pass_measure(const Command& command, const char* name, const char* fallback,
                  const char* help) {
  const std::shared_ptr<PlanArguments>& arguments = command.arguments;
  command.app
      ->add_option_function<std::string>(
          name,
          [arguments, name, fallback](const std::string& value) {
            const bool is_left_out = value.empty() || value == "true";
            if (!is_left_out &&
                std::ranges::find(slots::kMeasureNames, value) == slots::kMeasureNames.end()) {
              throw CLI::ValidationError(name, "should be slots, keys, bytes or ops");
            }
            arguments->goals.insert(arguments->goals.end(), {name, is_left_out ? fallback : value});
          },
          std::string(help) + "; without a word: " + fallback)
      ->expected(0, 1)
      ->trigger_on_parse()
      ->type_name("[slots|keys|bytes|ops]");
}

void pass_flag(const Command& command, const char* name, const char* help) {
  command.app
      ->add_flag_function(
          name,
          [arguments = command.arguments, name](std::int64_t) {
            arguments->goals.emplace_back(name);
          },
          help)
      ->trigger_on_parse();
}

void register_propose(CLI::App& plan, const Session& session, int& exit_code) {
  const Command command = add(plan, "propose", "Propose what makes the goals true");
  pass_on(command, "--add", "NODE", "A node of the configuration joins the map with its share");
  pass_on(command, "--drain", "NODE", "A node gives all it owns away, and stays");
  pass_on(command, "--remove", "NODE", "A node gives all it owns away, and leaves the map");
  pass_on(command, "--weight", "NODE=W", "A node gets the share of that weight");
  pass_on(command, "--move", "SLOTS:NODE", "These slots to that node, such as 100-199,300:inv-bcn");
  pass_measure(command, "--balance", "slots", "The shares of all nodes follow their weights");
  pass_measure(command, "--relieve", "ops", "The heaviest slots of the busiest node to the idlest");
  pass_flag(command, "--to-config", "Nodes, weights and ownership as the configuration says");
  pass_flag(command, "--collect-strays",
            "Keys on nodes that do not own them, to their owners; alone");
  pass_on(command, "--slots", "N", "Move no more slots than these")
      ->check(CLI::PositiveNumber.description(""));
  pass_on(command, "--limit", "RATE",
          "Bytes per second, such as 5MB/s, or unlimited; without it rebalance.bandwidth");
  pass_on(command, "--pause", "DURATION",
          "The longest that a group of slots may wait; without it rebalance.pause");
  take_person(command);
  command.app->footer(kProposeHelp);
  command.app->callback([&session, &exit_code, arguments = command.arguments] {
    Words request{"PLAN", "PROPOSE"};
    request.insert(request.end(), arguments->goals.begin(), arguments->goals.end());
    exit_code = static_cast<int>(
        session.show<PlanReport>(with_person(request, *arguments), kProposeTimeoutSeconds));
  });
}

// Commands that look at one plan.
template <class Report>
void register_look(CLI::App& plan, const char* name, const char* verb, const char* help,
                   const Session& session, int& exit_code) {
  const Command command = add_with_id(plan, name, help);
  command.app->callback([&session, &exit_code, verb, arguments = command.arguments] {
    exit_code = static_cast<int>(session.show<Report>({"PLAN", verb, arguments->id}));
  });
}

Exit show_outcome(const Session& session, const Words& request) {
  const auto text = [&session](const PlanReport& report) {
    return render_outcome(report, session.surroundings().style);
  };
  return session.show<PlanReport>(request, kTimeoutSeconds, text);
}

// Commands that change one plan.
void register_change(CLI::App& plan, const char* name, const char* verb, const char* help,
                     const Session& session, int& exit_code) {
  const Command command = add_with_id(plan, name, help);
  take_person(command);
  command.app->callback([&session, &exit_code, verb, arguments = command.arguments] {
    exit_code = static_cast<int>(
        show_outcome(session, with_person({"PLAN", verb, arguments->id}, *arguments)));
  });
}

// Commands whose answer is a new plan.
void register_successor(CLI::App& plan, const char* name, const char* verb, const char* help,
                        const Session& session, int& exit_code) {
  const Command command = add_with_id(plan, name, help);
  take_person(command);
  command.app->callback([&session, &exit_code, verb, arguments = command.arguments] {
    exit_code = static_cast<int>(session.show<PlanReport>(
        with_person({"PLAN", verb, arguments->id}, *arguments), kProposeTimeoutSeconds));
  });
}

void register_approve(CLI::App& plan, const Session& session, int& exit_code) {
  const Command command = add_with_id(plan, "approve", "Start a plan");
  command.app
      ->add_option("--digest", command.arguments->digest,
                   "What you approve: the digest that slotctl plan show N prints")
      ->type_name("D")
      ->required();
  take_person(command);
  command.app->callback([&session, &exit_code, arguments = command.arguments] {
    const Words request{"PLAN", "APPROVE", arguments->id, "--digest", arguments->digest};
    exit_code = static_cast<int>(show_outcome(session, with_person(request, *arguments)));
  });
}

void register_throttle(CLI::App& plan, const Session& session, int& exit_code) {
  const Command command = add_with_id(plan, "throttle", "Another limit, while it runs too");
  command.app
      ->add_option("RATE", command.arguments->rate,
                   "Such as 10MB/s (1 MB is 10^6 bytes), or unlimited")
      ->required();
  take_person(command);
  command.app->callback([&session, &exit_code, arguments = command.arguments] {
    const Words request{"PLAN", "THROTTLE", arguments->id, arguments->rate};
    exit_code = static_cast<int>(show_outcome(session, with_person(request, *arguments)));
  });
}

void register_history(CLI::App& plan, const Session& session, int& exit_code) {
  const Command command = add(plan, "history", "The audit log: who did what, when and why");
  command.app->add_option("N", command.arguments->id, "Of this plan alone")
      ->check(CLI::PositiveNumber.description(""));
  command.app->callback([&session, &exit_code, arguments = command.arguments] {
    Words request{"PLAN", "HISTORY"};
    if (!arguments->id.empty()) request.push_back(arguments->id);
    exit_code = static_cast<int>(session.show<HistoryReport>(request));
  });
}

void register_waits(CLI::App& plan, const Session& session, int& exit_code) {
  const Command wait =
      add_with_id(plan, "wait", "Return when a plan has ended; its exit code says how");
  wait.app->add_option("--timeout", wait.arguments->timeout, "Wait no longer than this")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber.description(""));
  wait.app->footer(kWaitHelp);
  wait.app->callback([&session, &exit_code, arguments = wait.arguments] {
    exit_code = static_cast<int>(wait_for_plan(session, arguments->id, arguments->timeout));
  });
  const Command watch =
      add_with_id(plan, "watch", "Show the progress of a plan until it has ended");
  watch.app->footer(kWaitHelp);
  watch.app->callback([&session, &exit_code, arguments = watch.arguments] {
    exit_code = static_cast<int>(watch_plan(session, arguments->id));
  });
}

}  // namespace

void register_plan(CLI::App& app, const Session& session, int& exit_code) {
  CLI::App* plan = app.add_subcommand("plan", "Plans: propose, approve and watch moves of slots");
  plan->fallthrough();
  plan->require_subcommand(1);
  register_propose(*plan, session, exit_code);
  plan->add_subcommand("list", "All plans, the newest first")
      ->fallthrough()
      ->callback([&session, &exit_code] {
        exit_code = static_cast<int>(session.show<PlansReport>({"PLAN", "LIST"}));
      });
  register_look<PlanReport>(*plan, "show", "SHOW", "A plan with its checks and its progress",
                            session, exit_code);
  register_look<PlanDiffReport>(*plan, "diff", "DIFF", "What each node owns before and after it",
                                session, exit_code);
  register_approve(*plan, session, exit_code);
  register_change(*plan, "reject", "REJECT", "Never start it", session, exit_code);
  register_change(*plan, "pause", "PAUSE", "Stop moving until it is resumed", session, exit_code);
  register_change(*plan, "resume", "RESUME", "Go on", session, exit_code);
  register_change(*plan, "abort", "ABORT", "End it; slots already committed stay where they are",
                  session, exit_code);
  register_successor(*plan, "retry", "RETRY", "Propose again what an ended plan left undone",
                     session, exit_code);
  register_successor(*plan, "revert", "REVERT", "Propose the way back", session, exit_code);
  register_throttle(*plan, session, exit_code);
  register_waits(*plan, session, exit_code);
  register_history(*plan, session, exit_code);
}

}  // namespace admin
