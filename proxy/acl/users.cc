#include "proxy/acl/users.h"

#include <fmt/format.h>

#include <array>
#include <ranges>

#include "conf/words.h"
#include "slots/assert.h"

namespace proxy::acl {

namespace {

constexpr std::array<std::string_view, 12> kWords = {
    "on",          "off",           "nopass",      "resetpass",  "allkeys",        "resetkeys",
    "allchannels", "resetchannels", "allcommands", "nocommands", "clearselectors", "reset"};

User everything(const std::shared_ptr<const resp::CommandTable>& commands) {
  User user{std::string(Users::kDefault), commands};
  for (const std::string_view rule : {"on", "nopass", "allcommands", "allkeys", "allchannels"})
    SP_ASSERT(user.apply(rule));
  return user;
}

// Rules of commands, and of subcommands, whose names are near; "" for none.
std::string meant(std::string_view rule, const resp::CommandTable& commands) {
  std::vector<std::string> known;
  if (rule.starts_with("+@") || rule.starts_with("-@")) {
    for (const std::string_view name : resp::kCategoryNames)
      known.push_back(std::string(rule.substr(0, 2)).append(name));
  } else if (rule.starts_with('+') || rule.starts_with('-')) {
    for (const resp::CommandSpec& spec : commands.specs())
      known.push_back(std::string(rule.substr(0, 1)).append(spec.name));
  } else {
    known.assign(kWords.begin(), kWords.end());
  }
  const std::vector<std::string_view> views(known.begin(), known.end());
  return std::string(conf::closest(rule, views));
}

// Applies what the configuration says; `on_mistake` hears of each rule that can't be.
template <class OnMistake>
User make_user(const conf::UserConfig& config,
               const std::shared_ptr<const resp::CommandTable>& commands, OnMistake on_mistake) {
  User user(config.name, commands);
  user.set_enabled(config.enabled);
  if (config.nopass) SP_ASSERT(user.apply("nopass"));
  for (const std::string& hex : config.passwords) {
    if (const auto hash = conf::hash_of_hex(hex)) user.add_password(*hash);
  }
  for (const conf::PlacedText& rules : config.rules) {
    auto words = split_rules(rules.text);
    if (!words) {
      on_mistake(rules, rules.text, words.error().message);
      continue;
    }
    for (const std::string& word : *words) {
      if (auto applied = user.apply(word); !applied)
        on_mistake(rules, word, applied.error().message);
    }
  }
  user.set_connections_max(config.connections);
  return user;
}

}  // namespace

std::shared_ptr<const Users> Users::make(const conf::Config& config,
                                         const std::shared_ptr<const resp::CommandTable>& commands,
                                         const Users* before) {
  auto users = std::make_shared<Users>();
  for (const conf::UserConfig& each : config.users) {
    auto never = [](const conf::PlacedText&, std::string_view, std::string_view) {
      SP_ASSERT(false);
    };
    users->users_.emplace(each.name, make_user(each, commands, never));
  }
  if (users->find(kDefault) == nullptr) {
    User user = everything(commands);
    if (!config.listen.password.empty()) user.add_password(conf::hash_of(config.listen.password));
    users->users_.emplace(kDefault, std::move(user));
  }
  for (auto& [name, user] : users->users_) {
    const User* was = before == nullptr ? nullptr : before->find(name);
    if (was != nullptr) user.set_connections(was->connections());
  }
  return users;
}

std::shared_ptr<const Users> anybody() {
  static const std::shared_ptr<const Users> kAnybody =
      Users::make({}, resp::CommandTable::built_in(), nullptr);
  return kAnybody;
}

std::vector<conf::Mistake> check_users(const conf::Config& config) {
  const auto commands = resp::CommandTable::built_in();
  std::vector<conf::Mistake> mistakes;
  for (std::size_t i = 0; i < config.users.size(); ++i) {
    const conf::UserConfig& each = config.users[i];
    const std::string path = fmt::format("users[{}]", i);
    const std::size_t count = mistakes.size();
    const User user = make_user(
        each, commands,
        [&](const conf::PlacedText& rules, std::string_view word, std::string_view why) {
          if (word.starts_with('>')) word = word.substr(0, 1);  // What follows is a password.
          std::string hint = meant(word, *commands);
          if (!hint.empty()) hint = fmt::format("; did you mean {}?", hint);
          mistakes.push_back(
              {rules.where.line, rules.where.column,
               fmt::format("{}.rules: {}: {}{}", path, conf::in_quotes(word), why, hint)});
        });
    const bool may_log_in = user.needs_no_password() || !user.passwords().empty();
    if (mistakes.size() == count && user.is_enabled() && !may_log_in) {
      mistakes.push_back({each.where.line, each.where.column,
                          fmt::format("{}: nobody could log in as {}; give passwords, "
                                      "passwords_file or nopass: true, or enabled: false",
                                      path, conf::in_quotes(each.name))});
    }
  }
  return mistakes;
}

}  // namespace proxy::acl
