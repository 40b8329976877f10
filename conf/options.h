// The options of the configuration file as data: the loader, the writer and the reference are all
// made from them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/config.h"
#include "slots/result.h"

namespace conf {

// One option of a Target: Config, or NodeConfig and UserConfig for what stands under each item of
// `nodes` and `users`.
template <class Target>
struct Option {
  std::string_view
      path;  // Keys from the top joined by dots, "limits.bulk"; for a node or user its key alone.
  std::string_view form;  // What a value looks like, in words: "a size such as 64MB".
  std::string_view help;  // One line.
  bool is_required = false;
  bool takes_list =
      false;  // A single value or a list; set() is called once per item, with "" for an empty list.
  // Errors: InvalidArgument; the message names the text and what would be right, not the option.
  slots::Status (*set)(Target& target, std::string_view text) = nullptr;
  // The value as text that set() takes; empty when it is not set, several for a list.
  std::vector<std::string> (*get)(const Target& target) = nullptr;
};

[[nodiscard]] std::span<const Option<Config>> config_options();
[[nodiscard]] std::span<const Option<NodeConfig>> node_options();
[[nodiscard]] std::span<const Option<UserConfig>> user_options();

// Every option with its default and meaning, as Markdown.
[[nodiscard]] std::string option_reference();

}  // namespace conf
