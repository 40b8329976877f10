#include "conf/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "conf/check.h"
#include "conf/file.h"
#include "conf/options.h"
#include "conf/password_hash.h"
#include "conf/words.h"
#include "conf/written.h"
#include "conf/yaml_tree.h"

namespace conf {
namespace {

using Kind = YamlValue::Kind;

constexpr std::size_t kMistakesMax = 100;
constexpr std::size_t kMessageBytesMax = 400;
constexpr std::size_t kPasswordBytesMax = 4096;
constexpr std::size_t kPasswordsBytesMax = 1'000'000;  // Of a user's file.
constexpr std::size_t kUsersMax = 10'000;

std::string_view last_key(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// The keys that stand directly below `prefix` ("" or "limits."), each once.
template <class Target>
std::vector<std::string_view> keys_below(std::span<const Option<Target>> options,
                                         std::string_view prefix) {
  std::vector<std::string_view> keys;
  for (const Option<Target>& option : options) {
    if (!option.path.starts_with(prefix)) continue;
    const std::string_view rest = option.path.substr(prefix.size());
    const std::string_view key = rest.substr(0, rest.find('.'));
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

// Where a key would be at home, for one that stands in the wrong group; empty when nowhere.
std::string home_of(std::string_view key) {
  for (const Option<Config>& option : config_options()) {
    if (last_key(option.path) != key) continue;
    if (option.path == key) return "at the top";
    return fmt::format("under {}",
                       in_quotes(option.path.substr(0, option.path.size() - key.size() - 1)));
  }
  for (const Option<NodeConfig>& option : node_options()) {
    if (option.path == key) return "under an item of \"nodes\"";
  }
  for (const Option<UserConfig>& option : user_options()) {
    if (option.path == key) return "under an item of \"users\"";
  }
  return {};
}

// Walks the document along the table of options: whatever is in the table is set, all else is a
// mistake.
class Loader {
 public:
  explicit Loader(const std::string& file) : folder_(std::filesystem::path(file).parent_path()) {}

  void read(const YamlValue& root) {
    if (root.kind == Kind::Null) {
      add(root.place,
          "the file is empty; a configuration needs at least cluster, listen.forward and nodes");
      return;
    }
    if (root.kind != Kind::Map) {
      add(root.place,
          fmt::format("a configuration is a group of keys, such as \"cluster: shop\"; this is {}",
                      kind_in_words(root.kind)));
      return;
    }
    read_map(root, config_options(), "", "", config_);
    read_password_files();
    place_texts();
    std::ranges::move(check(config_, written_), std::back_inserter(mistakes_));
  }

  [[nodiscard]] std::vector<Mistake> take_mistakes() { return std::move(mistakes_); }
  [[nodiscard]] Config take_config() { return std::move(config_); }

 private:
  void add(Place place, std::string message) {
    mistakes_.push_back({place.line, place.column, std::move(message)});
  }
  void add(Place place, const std::string& path, std::string_view message) {
    add(place, fmt::format("{}: {}", path, one_line(message, kMessageBytesMax)));
  }

  // `base` is what messages put before an option's path: "" or "nodes[1]."; `prefix` is the group
  // within the table.
  template <class Target>
  void read_map(const YamlValue& map, std::span<const Option<Target>> options,
                const std::string& base, const std::string& prefix, Target& target) {
    std::map<std::string_view, int> lines;
    for (const YamlEntry& entry : map.entries) {
      const YamlValue& key = *entry.key;
      if (key.kind != Kind::Scalar) {
        add(key.place, fmt::format("a key must be a word; this is {}", kind_in_words(key.kind)));
        continue;
      }
      const std::string path = base + prefix + one_line(key.text, kMessageBytesMax);
      const auto [first, is_new] = lines.emplace(key.text, key.place.line);
      if (!is_new) {
        add(key.place, path,
            fmt::format("stands here twice (first in line {}); keep one", first->second));
        continue;
      }
      read_entry(entry, options, base, prefix, path, target);
    }
  }

  template <class Target>
  void read_entry(const YamlEntry& entry, std::span<const Option<Target>> options,
                  const std::string& base, const std::string& prefix, const std::string& path,
                  Target& target) {
    const std::string in_table = prefix + entry.key->text;
    const auto option = std::ranges::find(options, in_table, &Option<Target>::path);
    if (option != options.end()) {
      read_option(*entry.value, *option, path, target);
      return;
    }
    if constexpr (std::is_same_v<Target, Config>) {
      if (in_table == "nodes") {
        read_items(*entry.value, {"nodes", "node", "an address", slots::kNodesMax}, node_options(),
                   config_.nodes);
        return;
      }
      if (in_table == "users") {
        read_items(*entry.value, {"users", "user", "rules", kUsersMax}, user_options(),
                   config_.users);
        return;
      }
    }
    const std::string group = in_table + ".";
    const bool is_group = std::ranges::any_of(
        options, [&](const Option<Target>& one) { return one.path.starts_with(group); });
    if (!is_group) {
      report_unknown(entry, options, base, prefix, path);
      return;
    }
    written_.put(path, entry.value->place, "");
    if (entry.value->kind == Kind::Map) {
      read_map(*entry.value, options, base, group, target);
    } else if (entry.value->kind !=
               Kind::Null) {  // A group whose keys are all left out has its defaults.
      wrong_kind(*entry.value, path,
                 fmt::format("a group of keys ({})", fmt::join(keys_below(options, group), ", ")));
    }
  }

  template <class Target>
  void report_unknown(const YamlEntry& entry, std::span<const Option<Target>> options,
                      const std::string& base, const std::string& prefix, const std::string& path) {
    std::vector<std::string_view> known = keys_below(options, prefix);
    if (std::is_same_v<Target, Config> && prefix.empty()) {
      known.push_back("nodes");
      known.push_back("users");
    }
    const std::string_view key = entry.key->text;
    const std::string_view meant = closest(key, known);
    const Place place = entry.key->place;
    if (!meant.empty()) {
      add(place, path, fmt::format("unknown key; did you mean {}?", in_quotes(meant)));
      // What the misspelt key was to say is not known: that it is missing too would be no news.
      const std::string meant_path = base + prefix + std::string(meant);
      if (!written_.has(meant_path)) mark_bad(place, meant_path);
    } else if (const std::string home = home_of(key); !home.empty()) {
      add(place, path, fmt::format("unknown key here; {} belongs {}", in_quotes(key), home));
    } else {
      add(place, path, fmt::format("unknown key; known here: {}", fmt::join(known, ", ")));
    }
  }

  void mark_bad(Place place, const std::string& path) {
    written_.put(path, place, "");
    written_.mark_bad(path);
  }

  void wrong_kind(const YamlValue& value, const std::string& path, std::string_view expected) {
    mark_bad(value.place, path);
    add(value.place, path,
        fmt::format("expected {}, found {}", expected, kind_in_words(value.kind)));
  }

  template <class Target>
  void read_option(const YamlValue& value, const Option<Target>& option, const std::string& path,
                   Target& target) {
    if (value.kind == Kind::List && option.takes_list) {
      read_list(value, option, path, target);
      return;
    }
    if (value.kind == Kind::Null) {
      mark_bad(value.place, path);
      add(value.place, path, fmt::format("has no value; it takes {}", option.form));
      return;
    }
    if (value.kind != Kind::Scalar) {
      const bool is_bracketed_ip = value.kind == Kind::List && option.form.starts_with("host:port");
      wrong_kind(value, path,
                 fmt::format("{}{}", option.form,
                             is_bracketed_ip ? " (IPv6 in quotes: \"[::1]:7001\")" : ""));
      return;
    }
    set_option(value.place, value.text, option, path, path, target);
  }

  template <class Target>
  void read_list(const YamlValue& list, const Option<Target>& option, const std::string& path,
                 Target& target) {
    written_.put(path, list.place, "");
    if (list.items.empty()) set_option(list.place, "", option, path, path, target);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const YamlValue& item = *list.items[i];
      const std::string item_path = fmt::format("{}[{}]", path, i);
      if (item.kind != Kind::Scalar) {
        wrong_kind(item, item_path,
                   fmt::format("a single value in this list of {}", last_key(option.path)));
        written_.mark_bad(path);
        continue;
      }
      set_option(item.place, item.text, option, item_path, path, target);
    }
  }

  // `item_path` is the place in a list, or the option itself.
  template <class Target>
  void set_option(Place place, const std::string& text, const Option<Target>& option,
                  const std::string& item_path, const std::string& path, Target& target) {
    written_.put(item_path, place, text);
    if (const slots::Status status = option.set(target, text); !status) {
      add(place, path, status.error().message);
      written_.mark_bad(item_path);
      written_.mark_bad(path);
    }
  }

  // A list whose items have keys of their own.
  struct ListOf {
    std::string_view key;
    std::string_view item;
    std::string_view with;  // What an item has, in words.
    std::size_t most;
  };

  template <class Target>
  void read_items(const YamlValue& list, const ListOf& of, std::span<const Option<Target>> options,
                  std::vector<Target>& targets) {
    const std::string key(of.key);
    if (list.kind != Kind::List || list.items.empty()) {
      const bool is_empty = list.kind == Kind::List || list.kind == Kind::Null;
      mark_bad(list.place, key);
      add(list.place, key,
          fmt::format("expected a list of {} (\"- name: …\" with {}), found {}", of.key, of.with,
                      is_empty ? "none" : kind_in_words(list.kind)));
      return;
    }
    written_.put(key, list.place, "");
    if (list.items.size() > of.most) {
      add(list.items[of.most]->place, key,
          fmt::format("{} {} are too many; the most is {}", list.items.size(), of.key, of.most));
      return;
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const YamlValue& item = *list.items[i];
      const std::string path = fmt::format("{}[{}]", of.key, i);
      targets.emplace_back();
      if (item.kind != Kind::Map) {
        wrong_kind(item, path,
                   fmt::format("a {} with its keys (name, {} and so on)", of.item,
                               of.with.substr(of.with.rfind(' ') + 1)));
        continue;
      }
      written_.put(path, item.place, "");
      read_map(item, options, path + ".", "", targets.back());
    }
  }

  // So that whoever knows commands and rules can say where one stands that is none.
  void place_texts() {
    place("refused_commands", config_.refused_commands);
    place("allowed_commands", config_.allowed_commands);
    for (std::size_t i = 0; i < config_.users.size(); ++i) {
      UserConfig& user = config_.users[i];
      const std::string path = fmt::format("users[{}]", i);
      user.where = where(path);
      place(path + ".rules", user.rules);
    }
  }

  // A list, or a value alone.
  void place(const std::string& path, std::vector<PlacedText>& texts) const {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string item = fmt::format("{}[{}]", path, i);
      texts[i].where = where(written_.has(item) ? item : path);
    }
  }

  [[nodiscard]] Whereabouts where(const std::string& path) const {
    const Place place = written_.place(path);
    return {place.line, place.column};
  }

  void read_password_files() {
    ListenConfig& listen = config_.listen;
    read_password_file("listen.password_file", listen.password_file, listen.password);
    read_password_file("listen.admin_password_file", listen.admin_password_file,
                       listen.admin_password);
    for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
      NodeConfig& node = config_.nodes[i];
      read_password_file(fmt::format("nodes[{}].password_file", i), node.password_file,
                         node.password);
    }
    for (std::size_t i = 0; i < config_.users.size(); ++i)
      read_user_passwords(fmt::format("users[{}].passwords_file", i), config_.users[i]);
  }

  // A password or "#" and a hash in each line; empty lines are none.
  void read_user_passwords(const std::string& path, UserConfig& user) {
    if (!written_.is_good(path)) return;
    const auto text = read_secret(path, user.passwords_file, kPasswordsBytesMax);
    if (!text) return;
    std::size_t number = 0;
    for (std::string_view rest = *text; !rest.empty();) {
      ++number;
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      const auto hash = line.front() == '#' ? hash_of_hex(line.substr(1)) : hash_of(line);
      if (hash) {
        user.passwords.push_back(hex_of(*hash));
      } else {
        add(written_.place(path), path,
            fmt::format("line {} of {} begins with # and is no hash: behind it belong 64 "
                        "hexadecimal digits in lower case",
                        number, in_quotes(user.passwords_file)));
      }
    }
    if (user.passwords.empty())
      add(written_.place(path), path, in_quotes(user.passwords_file) + " holds no password");
  }

  void read_password_file(const std::string& path, const std::string& file, std::string& password) {
    if (!written_.is_good(path)) return;
    auto text = read_secret(path, file, kPasswordBytesMax);
    if (!text) return;
    if (text->ends_with('\n')) text->pop_back();
    if (text->ends_with('\r')) text->pop_back();
    if (text->empty() || text->find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
      add(written_.place(path), path,
          fmt::format("{} must hold one line: the password", in_quotes((folder_ / file).string())));
      return;
    }
    password = *std::move(text);
  }

  // Nothing: a mistake was noted.
  std::optional<std::string> read_secret(const std::string& path, const std::string& file,
                                         std::size_t bytes_max) {
    const std::string full_path = (folder_ / file).string();
    auto text = read_file(full_path, bytes_max, FileKind::Regular);
    if (text) return *std::move(text);
    add(written_.place(path), path,
        fmt::format("{} can't be read: {}", in_quotes(full_path), text.error().message));
    return std::nullopt;
  }

  std::filesystem::path folder_;
  Config config_;
  Written written_;
  std::vector<Mistake> mistakes_;
};

// In file order, and not endless: a file of another kind would be nothing but mistakes.
Mistakes in_order(const std::string& file, std::vector<Mistake> list) {
  std::ranges::stable_sort(
      list, {}, [](const Mistake& mistake) { return std::tuple(mistake.line, mistake.column); });
  if (list.size() > kMistakesMax) {
    const std::size_t more = list.size() - kMistakesMax;
    list.resize(kMistakesMax);
    list.push_back(
        {list.back().line, list.back().column, fmt::format("… and {} more mistakes below", more)});
  }
  return {file, std::move(list)};
}

}  // namespace

std::string Mistakes::text() const {
  std::string out;
  for (const Mistake& mistake : list) {
    if (!out.empty()) out += '\n';
    out += mistake.line == 0
               ? fmt::format("{}: {}", file, mistake.message)
               : fmt::format("{}:{}:{}: {}", file, mistake.line, mistake.column, mistake.message);
  }
  return out;
}

std::expected<Config, Mistakes> load(const std::string& path) {
  const auto text = read_file(path, kYamlBytesMax, FileKind::Any);
  if (!text)
    return std::unexpected(Mistakes{path, {{0, 0, "can't be read: " + text.error().message}}});
  return parse(path, *text);
}

std::expected<Config, Mistakes> parse(const std::string& file, std::string_view yaml) {
  auto root = read_yaml(yaml);
  if (!root) return std::unexpected(in_order(file, std::move(root).error()));
  Loader loader(file);
  loader.read(**root);
  std::vector<Mistake> mistakes = loader.take_mistakes();
  if (!mistakes.empty()) return std::unexpected(in_order(file, std::move(mistakes)));
  return loader.take_config();
}

}  // namespace conf
