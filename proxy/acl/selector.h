// Selector: which commands, keys and channels somebody may use, made of rules in Redis's words. A
// user has one, and as many more as stand in parentheses. Pure.
//
// Facts: https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
// Commands are known by their places in a CommandTable: what a selector was made for it can judge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/resp/command_table.h"
#include "slots/result.h"

namespace proxy::acl {

// The larger, the nearer a request came to being allowed.
enum class Denied : std::uint8_t { Nothing, Command, Key, Channel };

struct Verdict {
  Denied denied = Denied::Nothing;
  std::size_t argument = 0;  // The key or the channel.

  [[nodiscard]] bool is_allowed() const { return denied == Denied::Nothing; }
};

// A request, with what all selectors need to know of it.
struct Question {
  const resp::CommandSpec& spec;
  std::size_t command;  // Its place in the table.
  resp::Args args;
  std::span<const std::uint32_t> keys;  // As find_keys() says.
};

// 0 when there is none of this name, in any case.
[[nodiscard]] std::uint32_t category_bit(std::string_view name);

class Selector {
 public:
  // Allows nothing.
  explicit Selector(const resp::CommandTable& commands) : allowed_(commands.specs().size()) {}

  // One rule: "+get", "-@dangerous", "~app:*", "%R~*", "&news", "allkeys" ... A name with a dot is
  // a module's command, which the table may not know (yet).
  // Errors: InvalidArgument, in Redis's words.
  [[nodiscard]] slots::Status apply(std::string_view rule, const resp::CommandTable& commands);

  [[nodiscard]] Verdict judge(const Question& question) const;
  // Whether a channel or (that is taken literally) a pattern may be subscribed.
  [[nodiscard]] bool may_subscribe(std::string_view channel, bool is_pattern) const;
  // May all that there is, today's commands and tomorrow's.
  [[nodiscard]] bool is_unrestricted() const {
    return allows_all_commands_ && allows_all_keys_ && allows_all_channels_;
  }

  // As ACL GETUSER shows them. Commands: the rules that count, as they were given.
  [[nodiscard]] std::string commands_text() const;
  [[nodiscard]] std::string keys_text() const;
  [[nodiscard]] std::string channels_text() const;
  // As ACL LIST shows it, without parentheses.
  [[nodiscard]] std::string text() const;

 private:
  struct KeyPattern {
    std::string pattern;
    resp::KeyAccess access;
  };

  slots::Status apply_pattern(std::string_view rule);
  slots::Status apply_channel(std::string_view pattern);
  slots::Status apply_category(bool allows, std::string_view name,
                               const resp::CommandTable& commands);
  slots::Status apply_command(bool allows, std::string_view name,
                              const resp::CommandTable& commands);
  slots::Status apply_part(bool allows, const resp::CommandSpec& container, std::string_view part,
                           const resp::CommandTable& commands);
  void set_all(bool allows);
  void set(const resp::CommandSpec& spec, bool allows, const resp::CommandTable& commands);
  void set_bit(std::size_t command, bool allows);
  void note_rule(bool allows, std::string name);
  [[nodiscard]] bool allows_command(const Question& question) const;
  [[nodiscard]] bool allows_key(std::string_view key, resp::KeyAccess access) const;

  std::vector<bool> allowed_;                                        // By a command's place.
  std::map<std::size_t, std::vector<std::string>> first_arguments_;  // "+select|0"; lower case.
  std::vector<KeyPattern> keys_;
  std::vector<std::string> channels_;
  std::vector<std::string> rules_;  // Of commands, behind "+@all" or "-@all".
  bool begins_with_all_ = false;
  bool allows_all_commands_ = false;
  bool allows_all_keys_ = false;
  bool allows_all_channels_ = false;
};

}  // namespace proxy::acl
