#include "admin/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "admin/api.h"
#include "admin/config_export.h"
#include "admin/heat_api.h"
#include "admin/heat_render.h"
#include "admin/plan_commands.h"
#include "admin/simulate.h"
#include "admin/text.h"
#include "conf/loader.h"
#include "conf/options.h"

namespace admin {

namespace {

constexpr double kCountTimeoutSeconds = 3600;  // Strays are counted at the pace of the nodes.

constexpr const char* kFooter = R"(
The daemon's admin address is --admin, else $SLOTPROXY_ADMIN, else /tmp/slotproxy/admin.sock.
A TCP address needs the password: $SLOTPROXY_ADMIN_PASSWORD or --admin-password-file.
Arguments behind -- are taken as they are, even when they begin with -.

Exit codes:
  0  done
  1  refused: the daemon's answer is an error or can't be understood, or its health is not ok
  2  a mistake on the command line or in a configuration file
  4  the daemon can't be reached, or did not answer in time
plan wait and plan watch have their own: see slotctl plan wait --help

Examples:
  slotctl status
  slotctl explain 'cart:{42}' user:7
  slotctl explain --command MGET a b
  slotctl plan propose --add inv-tar
  slotctl config check shop.yaml)";

struct Options {
  SessionOptions session;
  bool is_command = false;
  bool is_list = false;
  bool is_heat = false;
  std::uint64_t top = 10;
  std::uint64_t seconds = 5;
  Words words;
  std::string config_file;
};

Exit check_config(const Session& session, const std::string& file) {
  const auto config = conf::load(file);
  const std::size_t mistakes = config ? 0 : config.error().list.size();
  if (session.is_json()) {
    Json json{{"file", file}, {"ok", config.has_value()}};
    json["mistakes"] = Json::array();
    for (std::size_t i = 0; i < mistakes; ++i) {
      const conf::Mistake& mistake = config.error().list[i];
      json["mistakes"].push_back(
          {{"line", mistake.line}, {"column", mistake.column}, {"message", mistake.message}});
    }
    session.print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } else if (config) {
    session.print(fmt::format("{}: ok, cluster \"{}\", {}\n", file, config->cluster,
                              counted(config->nodes.size(), "node")));
  } else {
    session.err() << config.error().text() << '\n'
                  << fmt::format("{}; correct the file and check it again\n",
                                 counted(mistakes, "mistake"));
  }
  return config ? Exit::Ok : Exit::Usage;
}

Exit show_reference(const Session& session) {
  const std::string reference = conf::option_reference();
  session.print(session.is_json() ? Json{{"reference", reference}}.dump() + "\n" : reference);
  return Exit::Ok;
}

// Asks for one report; an error has been told.
template <class Report>
std::optional<Report> fetch(const Session& session, const char* verb, Exit& exit) {
  const slots::Result<std::string> answer = session.ask({verb});
  slots::Result<Report> report =
      answer ? from_json<Report>(*answer) : slots::Result<Report>(std::unexpected(answer.error()));
  if (report) return *std::move(report);
  exit = session.complain(report.error());
  return std::nullopt;
}

Exit export_config(const Session& session) {
  Exit exit = Exit::Ok;
  const auto config = fetch<ConfigReport>(session, "CONFIG", exit);
  if (!config) return exit;
  const auto nodes = fetch<NodesReport>(session, "NODES", exit);
  if (!nodes) return exit;
  const auto slots = fetch<SlotsReport>(session, "SLOTS", exit);
  if (!slots) return exit;
  const slots::Result<std::string> yaml = export_yaml(*config, *nodes, *slots);
  if (!yaml) return session.complain(yaml.error());
  session.print(session.is_json() ? Json{{"yaml", *yaml}}.dump() + "\n" : *yaml);
  return Exit::Ok;
}

Exit judge_health(const HealthReport& report) {
  return report.health == "ok" ? Exit::Ok : Exit::Refused;
}

Words explain_request(const Options& options) {
  Words request{"EXPLAIN"};
  if (options.is_command) request.emplace_back("--command");
  request.insert(request.end(), options.words.begin(), options.words.end());
  return request;
}

// Adds a subcommand that also takes the options of slotctl itself.
CLI::App* add(CLI::App& parent, const char* name, const char* help) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->fallthrough();
  return command;
}

void register_config(CLI::App& app, Options& options, const Session& session, int& exit_code) {
  CLI::App* config = add(app, "config", "The configuration: show, check FILE, export, reference");
  config->require_subcommand(1);
  add(*config, "show", "The configuration in force and its drift from the map")->callback([&] {
    exit_code = static_cast<int>(session.show<ConfigReport>({"CONFIG"}));
  });
  CLI::App* check = add(*config, "check", "Check a configuration file; needs no running proxy");
  check->add_option("FILE", options.config_file, "The file")->required();
  check->callback(
      [&] { exit_code = static_cast<int>(check_config(session, options.config_file)); });
  add(*config, "export", "The configuration file that says what is; without passwords")
      ->callback([&] { exit_code = static_cast<int>(export_config(session)); });
  add(*config, "reference", "Every option, its default and meaning")->callback([&] {
    exit_code = static_cast<int>(show_reference(session));
  });
}

template <class Report>
void register_report(CLI::App& app, const char* name, const char* verb, const char* help,
                     const Session& session, int& exit_code,
                     Exit (*judge)(const Report&) = nullptr) {
  add(app, name, help)->callback([&session, &exit_code, verb, judge] {
    exit_code = static_cast<int>(session.show<Report>({verb}, kTimeoutSeconds, judge));
  });
}

CLI::Option* take_top(CLI::App& command, Options& options, std::uint64_t most, const char* help) {
  return command.add_option("--top", options.top, help)
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, most).description(""));
}

void register_slots(CLI::App& app, Options& options, const Session& session, int& exit_code) {
  CLI::App* slots = add(app, "slots", "The slots of each node, or what they do");
  CLI::Option* heat =
      slots->add_flag("--heat", options.is_heat, "The slots with most traffic, and the largest");
  take_top(*slots, options, slots::kSlotCount, "So many of each; 10 when not given")->needs(heat);
  slots->callback([&] {
    const Words request{"SLOTS", "HEAT", std::to_string(options.top)};
    exit_code = static_cast<int>(options.is_heat ? session.show<HeatReport>(request)
                                                 : session.show<SlotsReport>({"SLOTS"}));
  });
}

void register_hot_keys(CLI::App& app, Options& options, const Session& session, int& exit_code) {
  CLI::App* keys = add(app, "hot-keys", "Watch requests for some seconds: the keys used most");
  keys->add_option("--seconds", options.seconds, "Watch for so long; 5 when not given")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, kHotKeysSecondsMax).description(""));
  take_top(*keys, options, kHotKeysMax, "Name so many; 10 when not given");
  keys->callback([&] {
    const Words request{"HOTKEYS", std::to_string(options.seconds), std::to_string(options.top)};
    const double timeout = kTimeoutSeconds + static_cast<double>(options.seconds);
    exit_code = static_cast<int>(session.show<HotKeysReport>(request, timeout));
  });
}

void register_commands(CLI::App& app, Options& options, const Session& session, int& exit_code) {
  register_report<StatusReport>(app, "status", "STATUS", "The cluster at a glance", session,
                                exit_code);
  register_report<NodesReport>(app, "nodes", "NODES", "The nodes in detail", session, exit_code);
  register_slots(app, options, session, exit_code);
  register_hot_keys(app, options, session, exit_code);

  CLI::App* explain = add(app, "explain", "Slot and owner of keys, or the way of a command");
  explain->add_flag("--command", options.is_command, "The words are a command and its arguments");
  explain->add_option("KEY", options.words, "Keys, or the words of a command")->required();
  explain->callback(
      [&] { exit_code = static_cast<int>(session.show<ExplainReport>(explain_request(options))); });

  CLI::App* strays = add(app, "strays", "Count keys on nodes that do not own their slots");
  strays->add_flag("--list", options.is_list, "Name them too");
  strays->callback([&] {
    Words request{"STRAYS"};
    if (options.is_list) request.emplace_back("LIST");
    exit_code = static_cast<int>(session.show<StraysReport>(request, kCountTimeoutSeconds));
  });

  register_report<ReloadReport>(app, "reload", "RELOAD",
                                "Read the configuration again and apply what can change", session,
                                exit_code);
  register_report<HealthReport>(app, "health", "HEALTH", "Whether every node is up; exits 1 if not",
                                session, exit_code, judge_health);
  register_plan(app, session, exit_code);
  register_config(app, options, session, exit_code);
  register_simulate(app, exit_code);
}

// simulate takes --json itself, so one that stands before the subcommand goes behind it.
Words with_json_behind_simulate(Words arguments) {
  const auto command = std::find(arguments.begin(), arguments.end(), "simulate");
  const auto json = std::find(arguments.begin(), command, "--json");
  if (command != arguments.end() && json != command) std::rotate(json, json + 1, command + 1);
  return arguments;
}

}  // namespace

int run_command_line(const Words& arguments, const Surroundings& surroundings, std::ostream& out,
                     std::ostream& err) {
  Options options;
  const Session session(options.session, surroundings, out, err);
  int exit_code = 0;
  CLI::App app("slotctl: look at and steer a running slotproxy", "slotctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", "slotctl " SLOTPROXY_VERSION);
  app.add_option("--admin", options.session.admin, "Admin address of the daemon")
      ->type_name("PATH|HOST:PORT");
  app.add_option("--admin-password-file", options.session.password_file,
                 "File with the admin password")
      ->type_name("FILE");
  app.add_option("--timeout", options.session.timeout,
                 "How long to wait for an answer; 10, for strays 3600, when not given")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 86400.0).description(""));
  app.add_flag("--json", options.session.is_json, "Print JSON");
  register_commands(app, options, session, exit_code);
  app.footer(kFooter);  // Last, since subcommands inherit what is there when they are added.
  try {
    Words reversed = with_json_behind_simulate(arguments);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request, out, err);
    return static_cast<int>(Exit::Ok);
  } catch (const CLI::ParseError& mistake) {
    const Words unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty()) {
      err << fmt::format("{} is no command of slotctl", printable(unknown.front()));
    } else {
      err << mistake.what();
    }
    err << "\nsee slotctl --help, or slotctl COMMAND --help\n";
    return static_cast<int>(Exit::Usage);
  }
  return exit_code;
}

}  // namespace admin
