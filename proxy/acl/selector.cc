#include "proxy/acl/selector.h"

#include <algorithm>
#include <utility>

#include "proxy/pubsub/glob.h"
#include "proxy/resp/arguments.h"
#include "proxy/resp/key_finder.h"

namespace proxy::acl {

namespace {

using resp::CommandId;
using resp::CommandTable;
using resp::KeyAccess;
using slots::Status;

constexpr const char* kSyntax = "Syntax error";
constexpr const char* kUnknown = "Unknown command or category name in ACL";

Status bad(std::string text) { return slots::fail(slots::Errc::InvalidArgument, std::move(text)); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

// They would part a rule that is shown from the next one.
bool has_blanks(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return c == '\0' || c == ' ' || (c >= '\t' && c <= '\r'); });
}

std::string joined(const std::vector<std::string>& words, std::string_view before_each) {
  std::string out;
  for (const std::string& word : words)
    out.append(out.empty() ? "" : " ").append(before_each).append(word);
  return out;
}

bool has_all(KeyAccess had, KeyAccess needed) {
  const auto bits = static_cast<unsigned>(needed);
  return (static_cast<unsigned>(had) & bits) == bits;
}

// Which arguments of a command are channels.
struct Channels {
  bool are_patterns = false;
  bool is_first_only = false;
};

const Channels* channels_of(CommandId id) {
  static constexpr Channels kPublish{.are_patterns = false, .is_first_only = true};
  static constexpr Channels kSubscribe{.are_patterns = false, .is_first_only = false};
  static constexpr Channels kPsubscribe{.are_patterns = true, .is_first_only = false};
  switch (id) {
    case CommandId::Publish:
    case CommandId::Spublish:
      return &kPublish;
    case CommandId::Subscribe:
    case CommandId::Ssubscribe:
      return &kSubscribe;
    case CommandId::Psubscribe:
      return &kPsubscribe;
    default:
      return nullptr;
  }
}

}  // namespace

std::uint32_t category_bit(std::string_view name) {
  const auto found = std::ranges::find(resp::kCategoryNames, lower(name));
  return found == resp::kCategoryNames.end() ? 0 : 1U << (found - resp::kCategoryNames.begin());
}

// --- rules

Status Selector::apply(std::string_view rule, const CommandTable& commands) {
  if (resp::is_word(rule, "allkeys") || rule == "~*") {
    allows_all_keys_ = true;
    keys_.clear();
  } else if (resp::is_word(rule, "resetkeys")) {
    allows_all_keys_ = false;
    keys_.clear();
  } else if (resp::is_word(rule, "allchannels") || rule == "&*") {
    allows_all_channels_ = true;
    channels_.clear();
  } else if (resp::is_word(rule, "resetchannels")) {
    allows_all_channels_ = false;
    channels_.clear();
  } else if (resp::is_word(rule, "allcommands") || resp::is_word(rule, "+@all")) {
    set_all(true);
  } else if (resp::is_word(rule, "nocommands") || resp::is_word(rule, "-@all")) {
    set_all(false);
  } else if (rule.starts_with('~') || rule.starts_with('%')) {
    return apply_pattern(rule);
  } else if (rule.starts_with('&')) {
    return apply_channel(rule.substr(1));
  } else if (rule.starts_with("+@") || rule.starts_with("-@")) {
    return apply_category(rule[0] == '+', rule.substr(2), commands);
  } else if (rule.starts_with('+') || rule.starts_with('-')) {
    return apply_command(rule[0] == '+', rule.substr(1), commands);
  } else {
    return bad(kSyntax);
  }
  return {};
}

// "~pattern", "%R~pattern", "%W~pattern", "%RW~pattern".
Status Selector::apply_pattern(std::string_view rule) {
  if (allows_all_keys_) {
    return bad(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not "
        "have any effect. Try 'resetkeys' to start with an empty list of patterns");
  }
  unsigned access = rule.front() == '~' ? static_cast<unsigned>(KeyAccess::Both) : 0;
  const std::size_t tilde = rule.find('~');
  if (tilde == std::string_view::npos) return bad(kSyntax);
  for (const char letter : rule.front() == '%' ? rule.substr(1, tilde - 1) : std::string_view()) {
    const KeyAccess bit = letter == 'R' || letter == 'r'   ? KeyAccess::Read
                          : letter == 'W' || letter == 'w' ? KeyAccess::Write
                                                           : KeyAccess::Neither;
    if (bit == KeyAccess::Neither || (access & static_cast<unsigned>(bit)) != 0)
      return bad(kSyntax);
    access |= static_cast<unsigned>(bit);
  }
  const std::string_view pattern = rule.substr(tilde + 1);
  if (access == 0 || has_blanks(pattern)) return bad(kSyntax);
  const auto known = std::ranges::find(keys_, pattern, &KeyPattern::pattern);
  if (known == keys_.end()) {
    keys_.push_back({std::string(pattern), static_cast<KeyAccess>(access)});
  } else {
    known->access = static_cast<KeyAccess>(static_cast<unsigned>(known->access) | access);
  }
  return {};
}

Status Selector::apply_channel(std::string_view pattern) {
  if (allows_all_channels_) {
    return bad(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does "
        "not have any effect. Try 'resetchannels' to start with an empty list of channels");
  }
  if (has_blanks(pattern)) return bad(kSyntax);
  if (std::ranges::find(channels_, pattern) == channels_.end()) channels_.emplace_back(pattern);
  return {};
}

Status Selector::apply_category(bool allows, std::string_view name, const CommandTable& commands) {
  const std::uint32_t bit = category_bit(name);
  if (bit == 0) return bad(kUnknown);
  for (const resp::CommandSpec& spec : commands.specs()) {
    if ((spec.categories & bit) != 0) set(spec, allows, commands);
  }
  note_rule(allows, "@" + lower(name));
  return {};
}

Status Selector::apply_command(bool allows, std::string_view name, const CommandTable& commands) {
  const std::size_t bar = name.find('|');
  const resp::CommandSpec* spec = commands.find(name.substr(0, bar));
  if (spec == nullptr) {
    const bool is_of_module = name.find('.') != std::string_view::npos && !has_blanks(name);
    if (!is_of_module) return bad(kUnknown);
  } else if (bar == std::string_view::npos) {
    set(*spec, allows, commands);
  } else if (Status applied = apply_part(allows, *spec, name.substr(bar + 1), commands); !applied) {
    return applied;
  }
  note_rule(allows, lower(name));
  return {};
}

// Behind "config|" a subcommand, behind "select|" the first argument.
Status Selector::apply_part(bool allows, const resp::CommandSpec& container, std::string_view part,
                            const CommandTable& commands) {
  if (part.empty() || has_blanks(part)) return bad(kSyntax);
  if (container.rule == resp::KeyRule::Container) {
    const std::size_t bar = part.find('|');
    const resp::CommandSpec* sub = commands.find_sub(container, part.substr(0, bar));
    if (sub == nullptr) return bad(kUnknown);
    if (bar != std::string_view::npos)
      return bad("Allowing first-arg of a subcommand is not supported");
    set(*sub, allows, commands);
    return {};
  }
  if (!allows) return bad(kUnknown);
  const auto place = static_cast<std::size_t>(&container - commands.specs().data());
  if (!allowed_[place]) first_arguments_[place].push_back(lower(part));
  return {};
}

void Selector::set_all(bool allows) {
  allowed_.assign(allowed_.size(), allows);
  allows_all_commands_ = begins_with_all_ = allows;
  first_arguments_.clear();
  rules_.clear();
}

// A container with all that it contains.
void Selector::set(const resp::CommandSpec& spec, bool allows, const CommandTable& commands) {
  const std::span<const resp::CommandSpec> specs = commands.specs();
  set_bit(static_cast<std::size_t>(&spec - specs.data()), allows);
  if (spec.rule != resp::KeyRule::Container) return;
  const std::string prefix = std::string(spec.name) + "|";
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name.starts_with(prefix)) set_bit(i, allows);
  }
}

void Selector::set_bit(std::size_t command, bool allows) {
  allowed_[command] = allows;
  first_arguments_.erase(command);
  if (!allows) allows_all_commands_ = false;
}

// Of several rules about the same the last one counts; one about a whole command settles what was
// said of its parts.
void Selector::note_rule(bool allows, std::string name) {
  std::erase_if(rules_, [&](std::string_view rule) {
    rule.remove_prefix(1);
    return rule == name || (rule.starts_with(name) && rule.substr(name.size()).starts_with('|'));
  });
  rules_.push_back((allows ? "+" : "-") + std::move(name));
}

// --- judging

bool Selector::allows_command(const Question& question) const {
  // AUTH, HELLO, QUIT and RESET are anybody's.
  if (question.spec.has(resp::CommandFlag::NoAuth)) return true;
  if (question.command < allowed_.size() && allowed_[question.command]) return true;
  const auto firsts = first_arguments_.find(question.command);
  return firsts != first_arguments_.end() && question.args.size() > 1 &&
         std::ranges::any_of(firsts->second, [&](const std::string& first) {
           return resp::is_word(question.args[1], first);
         });
}

bool Selector::allows_key(std::string_view key, KeyAccess access) const {
  return allows_all_keys_ || std::ranges::any_of(keys_, [&](const KeyPattern& pattern) {
           return has_all(pattern.access, access) && pubsub::matches(pattern.pattern, key);
         });
}

bool Selector::may_subscribe(std::string_view channel, bool is_pattern) const {
  return allows_all_channels_ || std::ranges::any_of(channels_, [&](const std::string& pattern) {
           return is_pattern ? pattern == channel : pubsub::matches(pattern, channel);
         });
}

Verdict Selector::judge(const Question& question) const {
  if (!allows_command(question)) return {Denied::Command, 0};
  const resp::Args args = question.args;
  if (const Channels* channels = channels_of(question.spec.id)) {
    const std::size_t end =
        channels->is_first_only ? std::min<std::size_t>(args.size(), 2) : args.size();
    for (std::size_t i = 1; i < end; ++i) {
      if (!may_subscribe(args[i], channels->are_patterns)) return {Denied::Channel, i};
    }
    return {};
  }
  if (allows_all_keys_) return {};
  for (std::size_t place = 0; place < question.keys.size(); ++place) {
    const std::size_t at = question.keys[place];
    if (!allows_key(args[at], resp::key_access(question.spec, args, place)))
      return {Denied::Key, at};
  }
  return {};
}

// --- showing

std::string Selector::commands_text() const {
  const std::string_view begin = begins_with_all_ ? "+@all" : "-@all";
  return rules_.empty() ? std::string(begin) : std::string(begin) + " " + joined(rules_, "");
}

std::string Selector::keys_text() const {
  if (allows_all_keys_) return "~*";
  std::string out;
  for (const KeyPattern& key : keys_) {
    out.append(out.empty() ? "" : " ");
    if (key.access == KeyAccess::Read) out += "%R";
    if (key.access == KeyAccess::Write) out += "%W";
    // "~*" alone would read as allkeys, behind which no pattern may come.
    if (key.access == KeyAccess::Both && key.pattern == "*") out += "%RW";
    out.append("~").append(key.pattern);
  }
  return out;
}

std::string Selector::channels_text() const {
  return allows_all_channels_ ? "&*" : joined(channels_, "&");
}

std::string Selector::text() const {
  std::string out = keys_text();
  if (!out.empty()) out += ' ';
  if (!allows_all_channels_) out += "resetchannels ";
  if (const std::string channels = channels_text(); !channels.empty()) out += channels + " ";
  return out + commands_text();
}

}  // namespace proxy::acl
