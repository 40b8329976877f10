#include "admin/simulate.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include "slots/key_pattern.h"

namespace admin {
namespace {

using slots::Errc;
using slots::fail;
using slots::Result;

constexpr std::uint64_t kKeysMax = 100'000'000;

Result<double> parse_weight(std::string_view text, std::string_view whole) {
  double weight = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, weight);
  if (error == std::errc() && stop == end) return weight;
  return fail(Errc::InvalidArgument,
              fmt::format("\"{}\": \"{}\" is not a weight; write {}=2 or {}=0.5", whole, text,
                          whole.substr(0, whole.find('=')), whole.substr(0, whole.find('='))));
}

Result<std::vector<slots::Node>> parse_nodes(const std::vector<std::string>& texts) {
  std::vector<slots::Node> nodes;
  for (const std::string& text : texts) {
    Result<slots::Node> node = parse_weighted_node(text);
    if (!node) return std::unexpected(std::move(node.error()));
    nodes.push_back(*std::move(node));
  }
  return nodes;
}

Result<slots::NodeChanges> parse_changes(const SimulateOptions& options) {
  for (const std::string& text : options.weights) {
    if (text.find('=') == std::string::npos) {
      return fail(Errc::InvalidArgument,
                  fmt::format("--weight \"{}\" names no weight; write {}=2", text, text));
    }
  }
  Result<std::vector<slots::Node>> added = parse_nodes(options.add);
  if (!added) return std::unexpected(std::move(added.error()));
  Result<std::vector<slots::Node>> reweighted = parse_nodes(options.weights);
  if (!reweighted) return std::unexpected(std::move(reweighted.error()));
  return slots::NodeChanges{*std::move(added), options.remove, *std::move(reweighted)};
}

Result<std::vector<slots::PlacementKind>> parse_placements(const std::vector<std::string>& names) {
  using enum slots::PlacementKind;
  if (names.empty()) return std::vector{Balanced, Ring, Rendezvous, Modulo};
  std::vector<slots::PlacementKind> kinds;
  for (const std::string& name : names) {
    const auto kind = slots::parse_placement_kind(name);
    if (!kind) {
      return fail(
          Errc::InvalidArgument,
          fmt::format("\"{}\" is no placement; write balanced, ring, rendezvous or modulo", name));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

using KeySink = std::function<void(std::string_view)>;

slots::Status feed_file(const std::string& path, const KeySink& sink) {
  std::ifstream file;
  if (path != "-") file.open(path);
  std::istream& lines = path == "-" ? std::cin : file;
  if (!lines) return fail(Errc::Io, fmt::format("can't read the key file {}", path));
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.empty()) sink(line);
  }
  if (lines.bad()) return fail(Errc::Io, fmt::format("reading the key file {} failed", path));
  return {};
}

slots::Status feed_pattern(const SimulateOptions& options, const KeySink& sink) {
  const Result<slots::KeyPattern> pattern = slots::KeyPattern::parse(options.key_pattern);
  if (!pattern) return std::unexpected(pattern.error());
  if (options.keys > kKeysMax) {
    return fail(Errc::InvalidArgument, fmt::format("--keys is at most {}", kKeysMax));
  }
  std::string key;
  for (std::uint64_t number = 1; number <= options.keys; ++number) {
    pattern->write_key(number, key);
    sink(key);
  }
  return {};
}

// For the heading; the pattern is known to be good by then.
std::string key_source_of(const SimulateOptions& options) {
  if (options.key_file == "-") return "from standard input";
  if (!options.key_file.empty()) return "from " + options.key_file;
  const Result<slots::KeyPattern> pattern = slots::KeyPattern::parse(options.key_pattern);
  if (!pattern || options.keys == 0) return options.key_pattern;
  return fmt::format("{} … {}", pattern->key(1), pattern->key(options.keys));
}

int run(const SimulateOptions& options) {
  const Result<SimulateReport> report = simulate(options);
  if (!report) {
    std::cerr << "slotctl simulate: " << report.error().message << '\n';
    return report.error().code == Errc::Io ? 1 : 2;
  }
  std::cout << (options.json ? to_json(*report) : to_table(*report)) << std::flush;
  return 0;
}

}  // namespace

Result<slots::Node> parse_weighted_node(std::string_view text) {
  const std::size_t equals = text.find('=');
  slots::Node node{std::string(text.substr(0, equals)), 1.0};
  if (equals != std::string_view::npos) {
    const Result<double> weight = parse_weight(text.substr(equals + 1), text);
    if (!weight) return std::unexpected(weight.error());
    node.weight = *weight;
  }
  if (slots::Status status = slots::check_node(node); !status) {
    return std::unexpected(std::move(status.error()));
  }
  return node;
}

Result<SimulateReport> simulate(const SimulateOptions& options) {
  Result<std::vector<slots::Node>> before = parse_nodes(options.nodes);
  if (!before) return std::unexpected(std::move(before.error()));
  if (before->empty()) {
    return fail(Errc::InvalidArgument, "name the nodes: --node inv-bcn --node inv-vlc=2");
  }
  const Result<slots::NodeChanges> changes = parse_changes(options);
  if (!changes) return std::unexpected(changes.error());
  Result<std::vector<slots::Node>> after = slots::apply_changes(*before, *changes);
  if (!after) return std::unexpected(std::move(after.error()));
  const Result<std::vector<slots::PlacementKind>> kinds = parse_placements(options.placements);
  if (!kinds) return std::unexpected(kinds.error());

  std::vector<slots::Simulation> simulations;
  for (const slots::PlacementKind kind : *kinds) {
    Result<slots::Simulation> simulation =
        slots::Simulation::create(kind, {*before, *after, options.replicas, options.vnodes});
    if (!simulation) return std::unexpected(std::move(simulation.error()));
    simulations.push_back(*std::move(simulation));
  }
  const KeySink sink = [&](std::string_view key) {
    for (slots::Simulation& simulation : simulations) simulation.add_key(key);
  };
  const slots::Status fed =
      options.key_file.empty() ? feed_pattern(options, sink) : feed_file(options.key_file, sink);
  if (!fed) return std::unexpected(fed.error());

  SimulateReport report{*std::move(before), *std::move(after),      options.vnodes,
                        options.replicas,   key_source_of(options), {}};
  for (std::size_t i = 0; i < simulations.size(); ++i) {
    report.results.push_back({(*kinds)[i], simulations[i].keys(), simulations[i].slots()});
  }
  return report;
}

void register_simulate(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Show what placements would do to keys and slots; needs no running proxy");
  // One value per option, so that `--node a --node b` and what follows stay apart.
  const auto repeatable = [command](const char* name, std::vector<std::string>& values,
                                    const char* value_name, const char* help) {
    command->add_option(name, values, help)->allow_extra_args(false)->type_name(value_name);
  };
  repeatable("--placement", options->placements, "NAME",
             "balanced, ring, rendezvous or modulo; repeatable; all four when none is named");
  repeatable("--node", options->nodes, "NAME[=WEIGHT]", "A node of now; repeatable");
  repeatable("--add", options->add, "NAME[=WEIGHT]", "A node that joins; repeatable");
  repeatable("--remove", options->remove, "NAME", "A node that leaves; repeatable");
  repeatable("--weight", options->weights, "NAME=WEIGHT", "A node's new weight; repeatable");
  command->add_option("--vnodes", options->vnodes, "Ring positions per unit of weight")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--replicas", options->replicas, "Owners per key, the primary included")
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* pattern =
      command->add_option("--key-pattern", options->key_pattern, "Key names, numbered from 1")
          ->type_name("TEXT")
          ->capture_default_str();
  CLI::Option* keys = command->add_option("--keys", options->keys, "How many keys of the pattern")
                          ->type_name("N")
                          ->capture_default_str();
  command->add_option("--key-file", options->key_file, "Key names, one a line; - is standard input")
      ->type_name("FILE")
      ->excludes(pattern)
      ->excludes(keys);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace admin
