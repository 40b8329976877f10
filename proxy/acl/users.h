// Users: all users of a configuration, for one command table. Immutable: a reload makes the next
// ones. Pure.
//
// Thread:  any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/config.h"
#include "conf/loader.h"
#include "proxy/acl/user.h"

namespace proxy::acl {

class Users {
 public:
  // Without a user "default" in the configuration there is one that may do everything, with
  // listen.password, or without any. `before` (may be null): whose counts of connections go on.
  // Requires check_users() to find no mistakes; a name that was good stays good in a table that
  // has learned.
  [[nodiscard]] static std::shared_ptr<const Users> make(
      const conf::Config& config, const std::shared_ptr<const resp::CommandTable>& commands,
      const Users* before);

  [[nodiscard]] const User* find(std::string_view name) const {  // Null: there is none.
    const auto found = users_.find(name);
    return found == users_.end() ? nullptr : &found->second;
  }
  // Whoever has not logged in as somebody.
  [[nodiscard]] const User& default_user() const { return users_.find(kDefault)->second; }
  [[nodiscard]] const std::map<std::string, User, std::less<>>& all() const { return users_; }

  static constexpr std::string_view kDefault = "default";

 private:
  std::map<std::string, User, std::less<>> users_;
};

// "default" alone, who may do everything without a password.
[[nodiscard]] std::shared_ptr<const Users> anybody();

// What is wrong with the rules of the configuration's users, in file order; commands are those of
// the built-in table.
[[nodiscard]] std::vector<conf::Mistake> check_users(const conf::Config& config);

}  // namespace proxy::acl
