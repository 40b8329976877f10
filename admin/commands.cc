#include "admin/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <ostream>
#include <utility>

#include "admin/api.h"
#include "admin/client.h"
#include "admin/simulate.h"
#include "admin/text.h"
#include "conf/loader.h"
#include "conf/options.h"

namespace admin {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using Words = std::vector<std::string>;

constexpr const char* kDefaultAdmin = "/tmp/slotproxy/admin.sock";
constexpr double kTimeoutSeconds = 10;
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

Examples:
  slotctl status
  slotctl explain 'cart:{42}' user:7
  slotctl explain --command MGET a b
  slotctl config check shop.yaml)";

struct Options {
  std::string admin;
  std::string password_file;
  double timeout = 0;  // Seconds; 0: the command's own.
  bool is_json = false;
  bool is_command = false;
  bool is_list = false;
  Words words;
  std::string config_file;
};

// One run of slotctl: what every command needs.
class Session {
 public:
  Session(const Options& options, const Surroundings& surroundings, std::ostream& out,
          std::ostream& err)
      : options_(options), surroundings_(surroundings), out_(out), err_(err) {}

  // Asks the daemon and prints its report; `judge` may turn a report into another exit code.
  template <class Report>
  Exit show(const Words& request, double timeout = kTimeoutSeconds,
            Exit (*judge)(const Report&) = nullptr) {
    const Result<std::string> answer = ask(request, timeout);
    if (!answer) return complain(answer.error());
    const Result<Report> report = from_json<Report>(*answer);
    if (!report) return complain(report.error());
    if (options_.is_json) {
      out_ << *answer << '\n';
    } else {
      out_ << render(*report, surroundings_.style);
    }
    return judge == nullptr ? Exit::Ok : judge(*report);
  }

  Exit check_config();
  Exit show_reference();

 private:
  [[nodiscard]] Result<std::string> ask(const Words& request, double timeout) const;
  [[nodiscard]] Result<conf::Address> admin_address() const;
  [[nodiscard]] Result<std::string> password() const;
  Exit complain(const slots::Error& error);

  const Options& options_;
  const Surroundings& surroundings_;
  std::ostream& out_;
  std::ostream& err_;
};

// A mistake of whoever typed the command; told from the daemon's refusals by its code.
constexpr Errc kUsage = Errc::NotFound;

Result<conf::Address> Session::admin_address() const {
  std::string text = kDefaultAdmin;
  std::string source = "the default";
  if (!options_.admin.empty()) {
    text = options_.admin;
    source = "--admin";
  } else if (!surroundings_.admin_address.empty()) {
    text = surroundings_.admin_address;
    source = "$SLOTPROXY_ADMIN";
  }
  Result<conf::Address> address = conf::parse_address(text);
  if (!address) return fail(kUsage, fmt::format("{}: {}", source, address.error().message));
  return address;
}

Result<std::string> Session::password() const {
  if (options_.password_file.empty()) return surroundings_.admin_password;
  std::ifstream file(options_.password_file);
  std::string line;
  if (!file || !std::getline(file, line)) {
    return fail(kUsage, fmt::format("can't read a password from {}; name a file with "
                                    "--admin-password-file whose first line is the password",
                                    options_.password_file));
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

Result<std::string> Session::ask(const Words& request, double timeout) const {
  const double seconds = options_.timeout > 0 ? options_.timeout : timeout;
  const auto limit =
      std::chrono::duration_cast<AdminClient::Milliseconds>(std::chrono::duration<double>(seconds));
  const Result<conf::Address> address = admin_address();
  if (!address) return std::unexpected(address.error());
  const Result<std::string> secret = password();
  if (!secret) return std::unexpected(secret.error());
  const auto connect_limit = std::chrono::duration_cast<AdminClient::Milliseconds>(
      std::chrono::duration<double>(std::min(seconds, kTimeoutSeconds)));
  Result<AdminClient> client = AdminClient::open(*address, *secret, connect_limit);
  if (!client) return std::unexpected(client.error());
  return client->call(request, limit);
}

Exit Session::complain(const slots::Error& error) {
  switch (error.code) {
    case Errc::Unavailable:
    case Errc::Timeout:
      err_ << error.message << '\n';
      return Exit::Unreachable;
    case kUsage:
      err_ << error.message << '\n';
      return Exit::Usage;
    default:
      break;
  }
  std::string message = error.message;
  if (message.starts_with("ERR ")) message.erase(0, 4);
  err_ << "refused: " << message << '\n';
  return Exit::Refused;
}

Exit Session::check_config() {
  const auto config = conf::load(options_.config_file);
  const std::size_t mistakes = config ? 0 : config.error().list.size();
  if (options_.is_json) {
    Json json{{"file", options_.config_file}, {"ok", config.has_value()}};
    json["mistakes"] = Json::array();
    for (std::size_t i = 0; i < mistakes; ++i) {
      const conf::Mistake& mistake = config.error().list[i];
      json["mistakes"].push_back(
          {{"line", mistake.line}, {"column", mistake.column}, {"message", mistake.message}});
    }
    out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else if (config) {
    out_ << fmt::format("{}: ok, cluster \"{}\", {}\n", options_.config_file, config->cluster,
                        counted(config->nodes.size(), "node"));
  } else {
    err_ << config.error().text() << '\n'
         << fmt::format("{}; correct the file and check it again\n", counted(mistakes, "mistake"));
  }
  return config ? Exit::Ok : Exit::Usage;
}

Exit Session::show_reference() {
  if (options_.is_json) {
    out_ << Json{{"reference", conf::option_reference()}}.dump() << '\n';
  } else {
    out_ << conf::option_reference();
  }
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

void register_config(CLI::App& app, Options& options, Session& session, int& exit_code) {
  CLI::App* config = add(app, "config", "The configuration: show, check FILE, reference");
  config->require_subcommand(1);
  add(*config, "show", "The configuration in force and its drift from the map")->callback([&] {
    exit_code = static_cast<int>(session.show<ConfigReport>({"CONFIG"}));
  });
  CLI::App* check = add(*config, "check", "Check a configuration file; needs no running proxy");
  check->add_option("FILE", options.config_file, "The file")->required();
  check->callback([&] { exit_code = static_cast<int>(session.check_config()); });
  add(*config, "reference", "Every option, its default and meaning")->callback([&] {
    exit_code = static_cast<int>(session.show_reference());
  });
}

template <class Report>
void register_report(CLI::App& app, const char* name, const char* verb, const char* help,
                     Session& session, int& exit_code, Exit (*judge)(const Report&) = nullptr) {
  add(app, name, help)->callback([&session, &exit_code, verb, judge] {
    exit_code = static_cast<int>(session.show<Report>({verb}, kTimeoutSeconds, judge));
  });
}

void register_commands(CLI::App& app, Options& options, Session& session, int& exit_code) {
  register_report<StatusReport>(app, "status", "STATUS", "The cluster at a glance", session,
                                exit_code);
  register_report<NodesReport>(app, "nodes", "NODES", "The nodes in detail", session, exit_code);
  register_report<SlotsReport>(app, "slots", "SLOTS", "The slots of each node", session, exit_code);

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
  Session session(options, surroundings, out, err);
  int exit_code = 0;
  CLI::App app("slotctl: look at and steer a running slotproxy", "slotctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", "slotctl " SLOTPROXY_VERSION);
  app.add_option("--admin", options.admin, "Admin address of the daemon")
      ->type_name("PATH|HOST:PORT");
  app.add_option("--admin-password-file", options.password_file, "File with the admin password")
      ->type_name("FILE");
  app.add_option("--timeout", options.timeout,
                 "How long to wait for an answer; 10, for strays 3600, when not given")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 86400.0).description(""));
  app.add_flag("--json", options.is_json, "Print JSON");
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
