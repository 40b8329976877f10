#include "proxy/load_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conf/words.h"
#include "proxy/acl/users.h"

namespace proxy {

namespace {

using conf::Mistake;
using resp::CommandTable;

// They act on one server; command_of_one_server() passes them on at its endpoint.
constexpr std::array<std::string_view, 7> kAllowable = {
    "bgrewriteaof", "bgsave", "debug", "failover", "lastsave", "save", "shutdown"};

// Whether it is a command, or one of what a command contains; a name with a dot is a module's.
bool is_command(const CommandTable& commands, std::string_view name) {
  const std::size_t bar = name.find('|');
  const resp::CommandSpec* spec = commands.find(name.substr(0, bar));
  if (spec == nullptr) return name.find('.') != std::string_view::npos;
  return bar == std::string_view::npos ||
         (spec->rule == resp::KeyRule::Container &&
          commands.find_sub(*spec, name.substr(bar + 1)) != nullptr);
}

void check_commands(const conf::Config& config, std::vector<Mistake>& mistakes) {
  const auto commands = CommandTable::built_in();
  std::vector<std::string_view> known;
  for (const resp::CommandSpec& spec : commands->specs()) known.push_back(spec.name);
  for (const conf::PlacedText& each : config.refused_commands) {
    if (is_command(*commands, each.text)) continue;
    const std::string_view meant = conf::closest(each.text, known);
    mistakes.push_back(
        {each.where.line, each.where.column,
         fmt::format("refused_commands: {} is no command{}", conf::in_quotes(each.text),
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant))});
  }
  for (const conf::PlacedText& each : config.allowed_commands) {
    if (std::ranges::find(kAllowable, each.text) != kAllowable.end()) continue;
    mistakes.push_back({each.where.line, each.where.column,
                        fmt::format("allowed_commands: {} can't be allowed; those that can are {}",
                                    conf::in_quotes(each.text), fmt::join(kAllowable, ", "))});
  }
}

}  // namespace

std::expected<conf::Config, conf::Mistakes> load_config(const std::string& path) {
  auto config = conf::load(path);
  if (!config) return config;
  std::vector<Mistake> mistakes = acl::check_users(*config);
  check_commands(*config, mistakes);
  std::ranges::stable_sort(mistakes, {}, &Mistake::line);
  if (!mistakes.empty()) return std::unexpected(conf::Mistakes{path, std::move(mistakes)});
  return config;
}

}  // namespace proxy
