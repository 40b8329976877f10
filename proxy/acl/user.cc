#include "proxy/acl/user.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "proxy/resp/arguments.h"
#include "proxy/resp/key_finder.h"

namespace proxy::acl {

namespace {

using conf::PasswordHash;
using slots::Status;

std::unexpected<slots::Error> bad(std::string text) {
  return slots::fail(slots::Errc::InvalidArgument, std::move(text));
}

constexpr std::string_view kBlanks = " \t\n\v\f\r";

}  // namespace

slots::Result<std::vector<std::string>> split_rules(std::string_view text) {
  std::vector<std::string> rules;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    std::size_t end = text.find_first_of(kBlanks, at);
    if (text[at] == '(') {
      const std::size_t close = text.find(')', at);
      if (close == std::string_view::npos) {
        return bad("Unmatched parenthesis in acl selector starting at '" +
                   std::string(text.substr(at, end - at)) + "'.");
      }
      end = text.find_first_of(kBlanks, close);
    }
    rules.emplace_back(text.substr(at, end - at));
    if (end == std::string_view::npos) break;
    at = end;
  }
  return rules;
}

Status User::apply(std::string_view rule) {
  if (resp::is_word(rule, "on")) {
    is_enabled_ = true;
  } else if (resp::is_word(rule, "off")) {
    is_enabled_ = false;
  } else if (resp::is_word(rule, "nopass")) {
    needs_no_password_ = true;
    passwords_.clear();
  } else if (resp::is_word(rule, "resetpass")) {
    needs_no_password_ = false;
    passwords_.clear();
  } else if (rule.starts_with('#')) {
    const auto hash = conf::hash_of_hex(rule.substr(1));
    if (!hash) {
      return bad(
          "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
          "characters");
    }
    add_password(*hash);
  } else if (rule.starts_with('>') || rule.starts_with('<') || rule.starts_with('!')) {
    return bad(
        "passwords stand in the file as hashes only; see passwords and passwords_file, and "
        "\"printf "
        "%s PASSWORD | sha256sum\"");
  } else if (resp::is_word(rule, "sanitize-payload") ||
             resp::is_word(rule, "skip-sanitize-payload")) {
  } else if (resp::is_word(rule, "clearselectors")) {
    selectors_.erase(selectors_.begin() + 1, selectors_.end());
  } else if (resp::is_word(rule, "reset")) {
    *this = User(name_, commands_);
  } else if (rule.starts_with('(')) {
    if (rule.find(')') != rule.size() - 1) return bad("Syntax error");
    return apply_selector(rule.substr(1, rule.size() - 2));
  } else {
    return selectors_.front().apply(rule, *commands_);
  }
  return {};
}

Status User::apply_selector(std::string_view rules) {
  Selector selector(*commands_);
  auto words = split_rules(rules);
  if (!words) return std::unexpected(words.error());
  for (const std::string& word : *words) {
    if (auto applied = selector.apply(word, *commands_); !applied) return applied;
  }
  selectors_.push_back(std::move(selector));
  return {};
}

void User::add_password(const PasswordHash& hash) {
  needs_no_password_ = false;
  if (std::ranges::find(passwords_, hash) == passwords_.end()) passwords_.push_back(hash);
}

bool User::accepts(const PasswordHash& given) const {
  unsigned found = 0;
  for (const PasswordHash& wanted : passwords_) {
    const int difference = CRYPTO_memcmp(wanted.data(), given.data(), given.size());
    found |= static_cast<unsigned>(difference == 0);
  }
  return found != 0;
}

Verdict User::judge(const resp::CommandSpec& spec, resp::Args args) const {
  if (is_unrestricted()) return {};
  thread_local std::vector<std::uint32_t> keys;
  // What is wrong with the arguments the command itself says.
  if (!resp::find_keys(spec, args, keys)) keys.clear();
  const Question question{spec, static_cast<std::size_t>(&spec - commands_->specs().data()), args,
                          keys};
  Verdict nearest;
  for (const Selector& selector : selectors_) {
    const Verdict verdict = selector.judge(question);
    if (verdict.is_allowed()) return verdict;
    const bool is_nearer = verdict.denied > nearest.denied || (verdict.denied == nearest.denied &&
                                                               verdict.argument > nearest.argument);
    if (is_nearer) nearest = verdict;
  }
  return nearest;
}

bool User::may_subscribe(std::string_view channel, bool is_pattern) const {
  return std::ranges::any_of(selectors_, [&](const Selector& selector) {
    return selector.may_subscribe(channel, is_pattern);
  });
}

std::string User::text() const {
  std::string out = "user " + name_ + (is_enabled_ ? " on " : " off ");
  if (needs_no_password_) out += "nopass ";
  for (const PasswordHash& hash : passwords_) out += "#" + conf::hex_of(hash) + " ";
  out += selectors_.front().text();
  for (const Selector& selector : std::span(selectors_).subspan(1))
    out += " (" + selector.text() + ")";
  return out;
}

}  // namespace proxy::acl
