#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "conf/loader.h"
#include "conf/options.h"

namespace {

const std::string kSample = std::string(SLOTPROXY_SOURCE_DIR) + "/conf/slotproxy.yaml";

std::string sample_text() {
  std::ifstream file(kSample);
  REQUIRE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The keys that stand in the text, set or commented out, each with the group it is in:
// "limits.bulk", "nodes.slots".
std::set<std::string> keys_in(const std::string& text) {
  std::set<std::string> keys;
  std::string group;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" -#");
    if (start == std::string::npos) continue;
    const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", start);
    if (end == std::string::npos || line[end] != ':') continue;
    const std::string key = line.substr(start, end - start);
    const bool is_at_top = line.front() != ' ' && line.front() != '#';
    if (is_at_top) group = key;
    keys.insert(is_at_top ? key : group + "." + key);
  }
  return keys;
}

}  // namespace

TEST_CASE("the sample is a configuration") {
  const auto config = conf::load(kSample);
  REQUIRE_MESSAGE(config.has_value(), config.error().text());
  CHECK(config->cluster == "shop");
  CHECK(config->nodes.size() == 3);
  CHECK(config->has_endpoints());
}

TEST_CASE("the sample shows every option") {
  const std::set<std::string> keys = keys_in(sample_text());
  for (const auto& option : conf::config_options()) {
    CAPTURE(option.path);
    CHECK(keys.contains(std::string(option.path)));
  }
  for (const auto& option : conf::node_options()) {
    CAPTURE(option.path);
    CHECK(keys.contains("nodes." + std::string(option.path)));
  }
  // All commented out: their group is whatever stands above.
  for (const auto& option : conf::user_options()) {
    CAPTURE(option.path);
    CHECK(std::ranges::any_of(keys, [&](const std::string& key) {
      return key.ends_with("." + std::string(option.path));
    }));
  }
}

TEST_CASE("what the sample says of an option is its default") {
  const auto config = conf::load(kSample);
  REQUIRE(config.has_value());
  const conf::Config defaults;
  const std::string text = sample_text();
  for (const auto& option : conf::config_options()) {
    if (option.is_required) continue;
    CAPTURE(option.path);
    CHECK(option.get(*config) == option.get(defaults));
    // Spelt out as the table prints it, not left to the default itself.
    for (const std::string& value : option.get(defaults)) {
      const std::string key(option.path.substr(option.path.rfind('.') + 1));
      const bool is_spelt_out = text.find(key + ": " + value) != std::string::npos;
      CHECK(is_spelt_out);
    }
  }
}

TEST_CASE("options have paths of their own, and a default that they accept") {
  std::set<std::string_view> paths;
  for (const auto& option : conf::config_options()) {
    CAPTURE(option.path);
    CHECK(paths.insert(option.path).second);
    CHECK_FALSE(option.help.empty());
    CHECK(option.help.back() == '.');
    conf::Config config;
    for (const std::string& value : option.get(config))
      CHECK(option.set(config, value).has_value());
    CHECK(config == conf::Config{});
  }
}

TEST_CASE("the reference has a row for every option") {
  const std::string reference = conf::option_reference();
  CHECK(reference.starts_with("| key | value | default | meaning |\n|---|---|---|---|\n"));
  for (const char* row :
       {"| `cluster` | a name: letters, digits and . _ - | required |",
        "| `limits.bulk` | a size such as 64MB or 512KiB | `512MiB` | One argument of a request. |",
        "| `timeouts.node_silent` | a duration such as 500ms or 3s | `3s` |",
        "| `workers` | auto (one per core) or a number | `auto` |", "| `nodes[].weight` |",
        "| `listen.admin` | host:port or a Unix socket path | `/tmp/slotproxy/admin.sock` |"}) {
    CAPTURE(row);
    const bool found = reference.find(row) != std::string::npos;
    CHECK(found);
  }
}
