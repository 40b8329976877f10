#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "admin/simulate.h"

namespace {

using namespace admin;
using slots::Errc;

SimulateOptions reference_options() {
  SimulateOptions options;
  options.nodes = {"inv-bcn", "inv-vlc", "inv-gir", "inv-lle"};
  options.key_pattern = "P-2026-%06d";
  return options;
}

nlohmann::json json_of(const SimulateOptions& options) {
  const auto report = simulate(options);
  REQUIRE(report.has_value());
  return nlohmann::json::parse(to_json(*report));
}

slots::Error refusal_of(const SimulateOptions& options) {
  const auto report = simulate(options);
  REQUIRE_FALSE(report.has_value());
  return report.error();
}

// What the command line leads to; options as a shell would pass them.
struct Run {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Takes over a standard stream while it lives.
class Capture {
 public:
  explicit Capture(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~Capture() { stream_.rdbuf(before_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

Run run_of(std::vector<std::string> arguments) {
  CLI::App app;
  Run run;
  register_simulate(app, run.exit_code);
  std::ranges::reverse(arguments);
  arguments.emplace_back("simulate");
  const Capture out(std::cout);
  const Capture err(std::cerr);
  app.parse(std::move(arguments));
  run.out = out.text();
  run.err = err.text();
  return run;
}

TEST_CASE("a node is a name, with a weight after = when it is not 1") {
  CHECK(parse_weighted_node("a").value() == slots::Node{"a", 1});
  CHECK(parse_weighted_node("a=2.5").value() == slots::Node{"a", 2.5});
  CHECK(parse_weighted_node("a=0").value() == slots::Node{"a", 0});
  for (const char* text :
       {"", "=2", "a=", "a=x", "a=2x", "a=-1", "a=nan", "a=inf", "a=1=2", "a b"}) {
    CAPTURE(text);
    const auto node = parse_weighted_node(text);
    REQUIRE_FALSE(node.has_value());
    CHECK(node.error().code == Errc::InvalidArgument);
  }
}

TEST_CASE("JSON has the agreed shape, with the figures after the change") {
  SimulateOptions options = reference_options();
  options.placements = {"ring", "modulo"};
  options.remove = {"inv-vlc"};
  const nlohmann::json json = json_of(options);
  REQUIRE(json["placements"].size() == 2);
  const nlohmann::json& ring = json["placements"][0];
  CHECK(ring["placement"] == "ring");
  CHECK(ring["keys"]["per_node"] ==
        nlohmann::json{{"inv-bcn", 32671}, {"inv-gir", 37988}, {"inv-lle", 29341}});
  CHECK(ring["keys"]["moved_percent"] == 24.835);
  CHECK(ring["keys"]["least_percent"] == 24.835);
  CHECK(ring["keys"]["before"]["per_node"]["inv-vlc"] == 24835);
  CHECK(ring["keys"]["before"]["deviation_percent"].get<double>() ==
        doctest::Approx(6.32).epsilon(0.001));
  CHECK(ring["slots"]["total"] == 16384);
  CHECK(ring["slots"].contains("deviation_percent"));
  CHECK(json["placements"][1]["placement"] == "modulo");
}

TEST_CASE("replica sets are in the JSON when replicas are asked for") {
  SimulateOptions options;
  options.nodes = {"n1", "n2", "n3", "n4", "n5"};
  options.add = {"n6"};
  options.placements = {"rendezvous"};
  options.key_pattern = "P-2026-%06d";
  options.replicas = 3;
  CHECK(json_of(options)["placements"][0]["keys"]["replica_sets_changed_percent"] == 50.044);
  options.replicas = 1;
  CHECK_FALSE(json_of(options)["placements"][0]["keys"].contains("replica_sets_changed_percent"));
}

TEST_CASE("all placements stand side by side when none is named") {
  SimulateOptions options = reference_options();
  options.keys = 100;
  const std::string table = to_table(simulate(options).value());
  for (const char* text : {"balanced", "ring", "rendezvous", "modulo", "inv-lle", "deviation",
                           "100 keys placed directly (P-2026-000001 … P-2026-000100)"}) {
    CAPTURE(text);
    CHECK(table.find(text) != std::string::npos);
  }
  CHECK(table.find("moves") == std::string::npos);
}

TEST_CASE("the table shows a change with what moves and the least that could") {
  SimulateOptions options = reference_options();
  options.placements = {"ring"};
  options.weights = {"inv-gir=2"};
  options.add = {"inv-tar=0.5"};
  const std::string table = to_table(simulate(options).value());
  for (const char* text : {"1 → 2", "- → 0.5", "27,571 → ", "moves", "least that could move"}) {
    CAPTURE(text);
    CHECK(table.find(text) != std::string::npos);
  }
}

TEST_CASE("a wrong option is refused with what would be right") {
  SimulateOptions options = reference_options();
  SUBCASE("placement") {
    options.placements = {"rign"};
    CHECK(refusal_of(options).message ==
          "\"rign\" is no placement; write balanced, ring, rendezvous or modulo");
  }
  SUBCASE("no node") {
    options.nodes.clear();
    CHECK(refusal_of(options).message.starts_with("name the nodes"));
  }
  SUBCASE("weight") {
    options.weights = {"inv-bcn"};
    CHECK(refusal_of(options).message == "--weight \"inv-bcn\" names no weight; write inv-bcn=2");
  }
  SUBCASE("a pattern that printf would act on") {
    options.key_pattern = "%s%n";
    CHECK(refusal_of(options).code == Errc::InvalidArgument);
  }
  SUBCASE("too many keys") {
    options.keys = 100'000'001;
    CHECK(refusal_of(options).message == "--keys is at most 100000000");
  }
  SUBCASE("a key file that is not there") {
    options.key_file = "/nonexistent/keys";
    CHECK(refusal_of(options).code == Errc::Io);
  }
}

TEST_CASE("the command line takes repeated options and tells its exit code") {
  const Run good = run_of({"--placement", "ring", "--placement", "modulo", "--node", "a", "--node",
                           "b=2", "--keys", "10", "--add", "c", "--json"});
  CHECK(good.exit_code == 0);
  CHECK(good.err == "");
  CHECK(nlohmann::json::parse(good.out)["placements"].size() == 2);

  const Run bad_weight = run_of({"--node", "a=x"});
  CHECK(bad_weight.exit_code == 2);
  CHECK(bad_weight.out == "");
  CHECK(bad_weight.err == "slotctl simulate: \"a=x\": \"x\" is not a weight; write a=2 or a=0.5\n");

  CHECK(run_of({"--node", "a", "--key-pattern", "{tag}"}).exit_code == 2);
  CHECK(run_of({"--node", "a", "--key-file", "/nonexistent/keys"}).exit_code == 1);
  CHECK_THROWS_AS(run_of({"--node", "a", "--keys", "5", "--key-file", "x"}), CLI::ParseError);
}

}  // namespace
