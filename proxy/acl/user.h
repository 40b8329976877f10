// User: who may log in, how, and what for. Made of rules in the words of Redis's ACL SETUSER, and
// never changed once it is made. Pure.
//
// Thread:  any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/password_hash.h"
#include "proxy/acl/selector.h"

namespace proxy::acl {

// Text of several rules as single ones, which blanks part; what stands in parentheses stays in one.
// Errors: InvalidArgument for a parenthesis that does not end.
[[nodiscard]] slots::Result<std::vector<std::string>> split_rules(std::string_view text);

class User {
 public:
  // Is off and may do nothing.
  User(std::string name, std::shared_ptr<const resp::CommandTable> commands)
      : name_(std::move(name)), commands_(std::move(commands)), selectors_{Selector(*commands_)} {}

  // One rule: a Selector's, or about the user: on, off, nopass, resetpass, "#" and a hash, a
  // selector in parentheses, clearselectors, reset. How nodes take RESTORE's payloads
  // (sanitize-payload) is theirs to say: without effect. Errors: InvalidArgument.
  [[nodiscard]] slots::Status apply(std::string_view rule);
  void add_password(const conf::PasswordHash& hash);
  void set_enabled(bool yes) { is_enabled_ = yes; }
  void set_connections_max(std::uint64_t most) { connections_max_ = most; }
  // How many connections are logged in; shared with whoever stands for it after a reload.
  void set_connections(std::shared_ptr<std::atomic<std::uint64_t>> count) {
    connections_ = std::move(count);
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_enabled() const { return is_enabled_; }
  [[nodiscard]] bool needs_no_password() const { return needs_no_password_; }
  [[nodiscard]] std::span<const conf::PasswordHash> passwords() const { return passwords_; }
  [[nodiscard]] bool is_unrestricted() const { return selectors_.front().is_unrestricted(); }
  [[nodiscard]] std::uint64_t connections_max() const { return connections_max_; }  // 0: any.
  [[nodiscard]] const std::shared_ptr<std::atomic<std::uint64_t>>& connections() const {
    return connections_;
  }
  // Takes the same time whichever of the passwords it is, if any.
  [[nodiscard]] bool accepts(const conf::PasswordHash& given) const;

  // Requires a spec of this user's table whose arity holds.
  [[nodiscard]] Verdict judge(const resp::CommandSpec& spec, resp::Args args) const;
  [[nodiscard]] bool may_subscribe(std::string_view channel, bool is_pattern) const;

  // As ACL LIST shows it.
  [[nodiscard]] std::string text() const;
  // The user's own, then those in parentheses.
  [[nodiscard]] std::span<const Selector> selectors() const { return selectors_; }

 private:
  slots::Status apply_selector(std::string_view rules);

  std::string name_;
  std::shared_ptr<const resp::CommandTable> commands_;
  std::vector<conf::PasswordHash> passwords_;
  std::vector<Selector> selectors_;
  std::shared_ptr<std::atomic<std::uint64_t>> connections_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t connections_max_ = 0;
  bool is_enabled_ = false;
  bool needs_no_password_ = false;
};

}  // namespace proxy::acl
