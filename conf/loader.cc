#include "conf/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "conf/check.h"
#include "conf/file.h"
#include "conf/options.h"
#include "conf/words.h"
#include "conf/written.h"
#include "conf/yaml_tree.h"

namespace conf {
namespace {

using Kind = YamlValue::Kind;

constexpr std::size_t kMistakesMax = 100;
constexpr std::size_t kMessageBytesMax = 400;
constexpr std::size_t kPasswordBytesMax = 4096;

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
        read_nodes(*entry.value);
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
    if (std::is_same_v<Target, Config> && prefix.empty()) known.push_back("nodes");
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

  void read_nodes(const YamlValue& list) {
    if (list.kind != Kind::List || list.items.empty()) {
      const bool is_empty = list.kind == Kind::List || list.kind == Kind::Null;
      mark_bad(list.place, "nodes");
      add(list.place, "nodes",
          fmt::format("expected a list of nodes (\"- name: …\" with an address), found {}",
                      is_empty ? "none" : kind_in_words(list.kind)));
      return;
    }
    written_.put("nodes", list.place, "");
    if (list.items.size() > slots::kNodesMax) {
      add(list.items[slots::kNodesMax]->place, "nodes",
          fmt::format("{} nodes are too many; the most is {}", list.items.size(),
                      slots::kNodesMax));
      return;
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const YamlValue& item = *list.items[i];
      const std::string path = fmt::format("nodes[{}]", i);
      config_.nodes.emplace_back();
      if (item.kind != Kind::Map) {
        wrong_kind(item, path, "a node with its keys (name, address and so on)");
        continue;
      }
      written_.put(path, item.place, "");
      read_map(item, node_options(), path + ".", "", config_.nodes.back());
    }
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
  }

  void read_password_file(const std::string& path, const std::string& file, std::string& password) {
    if (!written_.is_good(path)) return;
    const std::string full_path = (folder_ / file).string();
    auto text = read_file(full_path, kPasswordBytesMax, FileKind::Regular);
    const Place place = written_.place(path);
    if (!text) {
      add(place, path,
          fmt::format("{} can't be read: {}", in_quotes(full_path), text.error().message));
      return;
    }
    if (text->ends_with('\n')) text->pop_back();
    if (text->ends_with('\r')) text->pop_back();
    if (text->empty() || text->find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
      add(place, path, fmt::format("{} must hold one line: the password", in_quotes(full_path)));
      return;
    }
    password = *std::move(text);
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
