#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "conf/loader.h"
#include "conf/password_hash.h"
#include "conf/writer.h"
#include "tests/support/temp_folder.h"

namespace {

constexpr const char* kHead =
    "cluster: shop\nlisten: {forward: 127.0.0.1:1}\nstate_dir: /s\n"
    "nodes:\n  - {name: a, address: 127.0.0.1:2}\n";

const std::string kHash = conf::hex_of(conf::hash_of("sesame"));

std::string mistakes_of(const std::string& more) {
  const auto config = conf::parse("shop.yaml", kHead + more);
  return config ? "" : config.error().text();
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a password's hash is its SHA-256, as sha256sum says it") {
  CHECK(conf::hex_of(conf::hash_of("")) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(conf::hash_of_hex(kHash) == conf::hash_of("sesame"));
  CHECK_FALSE(conf::hash_of_hex(kHash.substr(1)).has_value());
  CHECK_FALSE(conf::hash_of_hex("G" + kHash.substr(1)).has_value());
  CHECK_FALSE(conf::hash_of_hex("A" + kHash.substr(1)).has_value());
}

TEST_CASE("users are read with where their rules stand") {
  const auto config = conf::parse("shop.yaml", kHead +
                                                   std::string("users:\n"
                                                               "  - name: app\n"
                                                               "    passwords: [\"#") +
                                                   kHash + "\", " + kHash +
                                                   "]\n"
                                                   "    rules:\n"
                                                   "      - +get\n"
                                                   "      - '~a &b'\n"
                                                   "  - {name: eva, nopass: true, enabled: false, "
                                                   "connections: 7, rules: +@read}\n"
                                                   "refused_commands: [KEYS, config|set]\n");
  REQUIRE_MESSAGE(config.has_value(), (config ? "" : config.error().text()));
  REQUIRE(config->users.size() == 2);
  const conf::UserConfig& app = config->users[0];
  CHECK(app.name == "app");
  CHECK(app.enabled);
  CHECK(app.passwords == std::vector<std::string>{kHash, kHash});
  REQUIRE(app.rules.size() == 2);
  CHECK(app.rules[1].text == "~a &b");
  CHECK(app.rules[1].where.line == 11);
  CHECK(app.rules[1].where.column == 9);
  const conf::UserConfig& eva = config->users[1];
  CHECK(eva.nopass);
  CHECK_FALSE(eva.enabled);
  CHECK(eva.connections == 7);
  CHECK(eva.rules[0].where.line == 12);
  CHECK(config->refused_commands[0].text == "keys");
  CHECK(config->refused_commands[1].text == "config|set");
  CHECK(config->refused_commands[1].where.line == 13);
  SUBCASE("and written back the same, without hashes if so wished") {
    const std::string text = conf::to_yaml(*config, conf::Secrets::Include);
    const auto again = conf::parse("shop.yaml", text);
    REQUIRE_MESSAGE(again.has_value(), text);
    CHECK(*again == *config);
    CHECK_FALSE(has(conf::to_yaml(*config, conf::Secrets::LeaveOut), kHash));
  }
}

TEST_CASE("mistakes among users are named") {
  CHECK(has(mistakes_of("users:\n  - {nopass: true}\n"), "users[0].name: is missing"));
  CHECK(has(mistakes_of("users: []\n"), "users: expected a list of users"));
  CHECK(has(mistakes_of("users:\n  - {name: a, nopass: true}\n  - {name: a, nopass: true}\n"),
            "users[1].name: \"a\" is the name of users[0] already"));
  CHECK(has(mistakes_of("users:\n  - {name: 'a b'}\n"), "is not a user's name"));
  CHECK(has(mistakes_of("users:\n  - {name: a, passwords: secret}\n"),
            "users[0].passwords: should be the SHA-256 of a password"));
  CHECK_FALSE(has(mistakes_of("users:\n  - {name: a, passwords: secret}\n"), "secret"));
  CHECK(has(mistakes_of("users:\n  - {name: a, rule: +get}\n"), "did you mean \"rules\"?"));
  CHECK(has(mistakes_of("users:\n  - {name: a, passwords: " + kHash + ", passwords_file: f}\n"),
            "is given as well"));
  CHECK(has(mistakes_of("users:\n  - {name: a, passwords_file: nosuch}\n"), "can't be read"));
  CHECK(has(mistakes_of("refused_commands: ['a b']\n"), "should be a command"));
  const auto both = conf::parse(
      "shop.yaml",
      "cluster: shop\nlisten: {forward: 127.0.0.1:1, password: x}\nstate_dir: /s\n"
      "nodes:\n  - {name: a, address: 127.0.0.1:2}\nusers:\n  - {name: default, nopass: true}\n");
  REQUIRE_FALSE(both.has_value());
  CHECK(has(both.error().text(), "\"listen.password\" is given as well"));
}

TEST_CASE("a file holds passwords and hashes, a line each") {
  tests::TempFolder folder;
  const std::string path = folder.file("shop.yaml");
  const auto load = [&](const std::string& passwords) {
    std::ofstream(folder.file("app.passwords")) << passwords;
    std::ofstream(path) << kHead << "users:\n  - {name: app, passwords_file: app.passwords}\n";
    return conf::load(path);
  };
  const auto config = load("first\n\n#" + kHash + "\r\nlast");
  REQUIRE_MESSAGE(config.has_value(), (config ? "" : config.error().text()));
  CHECK(config->users[0].passwords ==
        std::vector<std::string>{conf::hex_of(conf::hash_of("first")), kHash,
                                 conf::hex_of(conf::hash_of("last"))});
  // It is written as that file.
  CHECK_FALSE(has(conf::to_yaml(*config, conf::Secrets::Include), kHash));
  CHECK(has(load("\n").error().text(), "holds no password"));
  CHECK(has(load("good\n#bad\n").error().text(), "line 2 of \"app.passwords\" begins with #"));
}
