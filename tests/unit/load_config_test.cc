#include "proxy/load_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace {

// What is wrong with a configuration that ends so; "": nothing.
std::string mistakes_of(const std::string& end) {
  tests::TempFolder folder;
  const std::string path = folder.file("shop.yaml");
  std::ofstream(path) << "cluster: shop\nlisten: {forward: 127.0.0.1:1}\nstate_dir: /s\n"
                         "nodes:\n  - {name: a, address: 127.0.0.1:2}\n"
                      << end;
  const auto config = proxy::load_config(path);
  return config ? "" : config.error().text().substr(path.size());
}

}  // namespace

TEST_CASE("commands are those that there are") {
  CHECK(mistakes_of("refused_commands: [keys, config|set, json.get]\n").empty());
  CHECK(mistakes_of("refused_commands: [keys, flushal]\n") ==
        ":6:26: refused_commands: \"flushal\" is no command; did you mean flushall?");
  CHECK(mistakes_of("refused_commands: config|nosuch\n").find("is no command") !=
        std::string::npos);
  CHECK(mistakes_of("allowed_commands: debug\n").empty());
  CHECK(mistakes_of("allowed_commands: [save, replicaof]\n")
            .starts_with(":6:26: allowed_commands: \"replicaof\" can't be allowed; those that"));
}

TEST_CASE("mistakes of all kinds come in the order of the file") {
  const std::string text = mistakes_of(
      "users:\n  - {name: app, nopass: true, rules: +nosuch}\nrefused_commands: [nosuch]\n"
      "allowed_commands: [nosuch]\n");
  CHECK(text.find(":7:") < text.find(":8:"));
  CHECK(text.find(":8:") < text.find(":9:"));
}
