#include "proxy/control/admin_commands.h"

#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "admin/api.h"
#include "admin/heat_api.h"
#include "conf/units.h"
#include "proxy/control/admin_explain.h"
#include "proxy/control/admin_reports.h"
#include "proxy/control/heat_reports.h"

namespace proxy::control {

namespace {

// Error replies are one line; what was several lines stays legible.
AdminReply error_of(const slots::Error& error) {
  std::string text = "ERR ";
  for (const char byte : error.message) {
    if (byte == '\n') {
      text += "; ";
    } else {
      text += byte;
    }
  }
  return AdminReply::error(std::move(text));
}

std::string_view arguments_of(std::string_view verb) {
  for (const admin::VerbHelp& known : admin::kVerbs) {
    if (known.verb == verb) return known.arguments;
  }
  return "";
}

AdminReply usage(std::string_view verb) {
  std::string text = "ERR " + std::string(verb);
  const std::string_view arguments = arguments_of(verb);
  text += arguments.empty() ? " takes no arguments; send it alone"
                            : " takes: " + std::string(arguments) + "; see HELP";
  return AdminReply::error(std::move(text));
}

// What a snapshot answers at once; nothing for any other verb.
std::optional<std::string> report_of(std::string_view verb, AdminPort& port) {
  if (verb == "STATUS") return to_json(status_report(port.snapshot()));
  if (verb == "NODES") return to_json(nodes_report(port.snapshot()));
  if (verb == "SLOTS") return to_json(slots_report(port.snapshot()));
  if (verb == "HEALTH") return to_json(health_report(port.snapshot()));
  if (verb == "CONFIG") return to_json(config_report(port.snapshot()));
  if (verb == "HELP") return to_json(help_report());
  return std::nullopt;
}

constexpr std::uint64_t kTold = 10;
constexpr std::uint64_t kWatchedSeconds = 5;

// The word at this place as a number from 1 to `most`; `otherwise` when there is none.
slots::Result<std::uint64_t> number_at(const AdminCommands::Words& words, std::size_t place,
                                       std::uint64_t most, std::uint64_t otherwise) {
  if (words.size() <= place) return otherwise;
  return conf::parse_count(words[place], 1, most);
}

AdminReply slot_heat(AdminPort& port, const AdminCommands::Words& words) {
  const auto count = number_at(words, 2, slots::kSlotCount, kTold);
  if (verb_of(words[1]) != "HEAT" || words.size() > 3 || !count) return usage("SLOTS");
  return AdminReply::body(
      to_json(heat_report(*port.snapshot().table, port.heat(), static_cast<std::size_t>(*count))));
}

AdminReply explain(const AdminSnapshot& snapshot, const AdminCommands::Words& words) {
  const bool is_command = words.size() > 1 && verb_of(words[1]) == "--COMMAND";
  if (words.size() < (is_command ? 3 : 2)) return usage("EXPLAIN");
  if (!is_command) {
    return AdminReply::body(to_json(explain_keys(snapshot, {words.begin() + 1, words.end()})));
  }
  return AdminReply::body(to_json(explain_command(snapshot, {words.begin() + 2, words.end()})));
}

}  // namespace

std::string verb_of(const std::string& word) {
  std::string verb = word;
  for (char& byte : verb) byte = static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  return verb;
}

void AdminCommands::run(const Words& words, const AdminPeer& peer, Done done) {
  const std::string verb = verb_of(words.front());
  if (verb == "EXPLAIN") return done(explain(port_.snapshot(), words));
  if (verb == "STRAYS") return count_strays(words, std::move(done));
  if (verb == "PLAN") return plan(words, peer, std::move(done));
  if (verb == "HOTKEYS") return hot_keys(words, done);
  if (verb == "SLOTS" && words.size() > 1) return done(slot_heat(port_, words));
  if (words.size() > 1 && (verb == "PING" || verb == "RELOAD")) return done(usage(verb));
  if (verb == "PING") return done(AdminReply::simple("PONG"));
  if (verb == "RELOAD") return reload(peer, std::move(done));
  std::optional<std::string> report = report_of(verb, port_);
  if (!report) {
    return done(AdminReply::error("ERR unknown verb '" + words.front().substr(0, 64) +
                                  "'; HELP lists what there is"));
  }
  done(words.size() > 1 ? usage(verb) : AdminReply::body(std::move(*report)));
}

void AdminCommands::reload(const AdminPeer& peer, Done done) {
  if (is_reloading_) {
    return done(AdminReply::error("ERR a reload is under way; see slotctl status when it is done"));
  }
  is_reloading_ = true;
  port_.reload(peer, [this, life = life_,
                      done = std::move(done)](slots::Result<std::vector<std::string>> notes) {
    if (!*life) return;
    is_reloading_ = false;
    if (notes) {
      return done(AdminReply::body(to_json(admin::ReloadReport{std::move(*notes)})));
    }
    slots::Error error = std::move(notes.error());
    if (error.code == slots::Errc::InvalidArgument) {
      error.message += "\ncorrect the configuration and reload again";
    }
    done(error_of(error));
  });
}

void AdminCommands::plan(const Words& words, const AdminPeer& peer, Done done) {
  port_.plan(words, peer, [life = life_, done = std::move(done)](slots::Result<std::string> json) {
    if (!*life) return;
    done(json ? AdminReply::body(*std::move(json)) : error_of(json.error()));
  });
}

void AdminCommands::hot_keys(const Words& words, const Done& done) {
  const auto seconds = number_at(words, 1, admin::kHotKeysSecondsMax, kWatchedSeconds);
  const auto count = number_at(words, 2, admin::kHotKeysMax, kTold);
  if (!seconds || !count || words.size() > 3) return done(usage("HOTKEYS"));
  const std::chrono::seconds duration{static_cast<std::int64_t>(*seconds)};
  port_.watch_keys(duration, [this, life = life_, duration, done, count = *count](
                                 slots::Result<std::shared_ptr<const slots::TopKeys>> keys) {
    if (!*life) return;
    if (!keys) return done(error_of(keys.error()));
    done(AdminReply::body(to_json(hot_keys_report(*port_.snapshot().table, **keys, duration,
                                                  static_cast<std::size_t>(count)))));
  });
}

void AdminCommands::count_strays(const Words& words, Done done) {
  const bool is_list = words.size() == 2 && verb_of(words[1]) == "LIST";
  if (words.size() > 1 && !is_list) return done(usage("STRAYS"));
  if (is_counting_) {
    return done(
        AdminReply::error("ERR strays are being counted already; ask again when that "
                          "count is done"));
  }
  is_counting_ = true;
  port_.count_strays(is_list, [this, life = life_, is_list, done = std::move(done)](
                                  slots::Result<std::vector<NodeStrayCount>> counts) {
    if (!*life) return;
    is_counting_ = false;
    if (!counts) return done(error_of(counts.error()));
    done(AdminReply::body(to_json(strays_report(port_.snapshot(), is_list, *counts))));
  });
}

}  // namespace proxy::control
