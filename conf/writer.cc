#include "conf/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "conf/options.h"

namespace conf {
namespace {

bool is_plain_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._/:,-").find(c) != std::string_view::npos;
}

// A plain scalar must not look like an indicator, a null, a flow or "key: value".
bool can_be_plain(std::string_view text) {
  constexpr std::array<std::string_view, 4> kNulls{"null", "Null", "NULL", "~"};
  if (text.empty() || std::ranges::find(kNulls, text) != kNulls.end()) return false;
  if (!std::ranges::all_of(text, is_plain_character)) return false;
  const bool begins_well =
      text.front() != '-' && text.front() != ':' && text.front() != ',' && text.front() != '.';
  return begins_well && text.back() != ':';
}

bool is_secret(std::string_view path) {
  return path == "password" || path == "passwords" || path.ends_with(".password") ||
         path.ends_with("admin_password") || path.ends_with("admin_users");
}

std::string in_yaml_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string value_of(const std::vector<std::string>& values) {
  if (values.size() == 1) return yaml_scalar(values.front());
  std::string out = "[";
  for (const std::string& value : values) {
    if (out.size() > 1) out += ", ";
    // In a flow list a comma ends an item.
    out += value.find(',') == std::string::npos ? yaml_scalar(value) : in_yaml_quotes(value);
  }
  return out + "]";
}

template <class Target>
class OptionWriter {
 public:
  OptionWriter(const Target& target, Secrets secrets) : target_(target), secrets_(secrets) {}

  // The line of an option at this indentation; empty when it has its default.
  [[nodiscard]] std::string line(const Option<Target>& option, std::string_view indent) const {
    std::vector<std::string> values = option.get(target_);
    const std::string_view key = option.path.substr(option.path.rfind('.') + 1);
    const bool is_default = values == option.get(defaults_);
    if (values.empty() || (is_default && !option.is_required) || is_read_from_file(option))
      return {};
    if (is_secret(option.path) && secrets_ == Secrets::LeaveOut) {
      return fmt::format(
          "{}# {}: left out here; it is set in the configuration this was made from\n", indent,
          key);
    }
    return fmt::format("{}{}: {}\n", indent, key, value_of(values));
  }

 private:
  // A password that came from a file is written as that file.
  [[nodiscard]] bool is_read_from_file(const Option<Target>& option) const {
    if (!is_secret(option.path)) return false;
    const std::string file_path = std::string(option.path) + "_file";
    const auto options = options_of(target_);
    const auto file = std::ranges::find(options, file_path, &Option<Target>::path);
    return file != options.end() && !file->get(target_).empty();
  }
  static std::span<const Option<Config>> options_of(const Config& /*selects*/) {
    return config_options();
  }
  static std::span<const Option<NodeConfig>> options_of(const NodeConfig& /*selects*/) {
    return node_options();
  }
  static std::span<const Option<UserConfig>> options_of(const UserConfig& /*selects*/) {
    return user_options();
  }

  const Target& target_;
  const Target defaults_{};
  Secrets secrets_;
};

template <class Target>
std::string item_text(const Target& target, std::span<const Option<Target>> options,
                      Secrets secrets) {
  const OptionWriter<Target> writer(target, secrets);
  std::string out;
  for (const Option<Target>& option : options) {
    // `name` comes first in the tables and is always written.
    out += out.empty() ? "  - " + writer.line(option, "") : writer.line(option, "    ");
  }
  return out;
}

}  // namespace

std::string yaml_scalar(std::string_view text) {
  return can_be_plain(text) ? std::string(text) : in_yaml_quotes(text);
}

std::string to_yaml(const Config& config, Secrets secrets) {
  const OptionWriter<Config> writer(config, secrets);
  std::string top;
  std::vector<std::pair<std::string_view, std::string>> groups;  // In the order of the table.
  for (const Option<Config>& option : config_options()) {
    const std::size_t dot = option.path.find('.');
    if (dot == std::string_view::npos) {
      top += writer.line(option, "");
      continue;
    }
    const std::string_view group = option.path.substr(0, dot);
    if (groups.empty() || groups.back().first != group) groups.emplace_back(group, "");
    groups.back().second += writer.line(option, "  ");
  }
  std::string out = top;
  for (const auto& [group, lines] : groups) {
    if (!lines.empty()) out += fmt::format("{}:\n{}", group, lines);
  }
  out += "nodes:\n";
  for (const NodeConfig& node : config.nodes) out += item_text(node, node_options(), secrets);
  if (!config.users.empty()) out += "users:\n";
  for (const UserConfig& user : config.users) out += item_text(user, user_options(), secrets);
  return out;
}

}  // namespace conf
