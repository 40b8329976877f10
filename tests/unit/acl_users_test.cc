#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "conf/loader.h"
#include "proxy/acl/users.h"

namespace {

using proxy::acl::Users;
using proxy::resp::CommandTable;

constexpr const char* kHead =
    "cluster: shop\nlisten: {forward: 127.0.0.1:1}\nstate_dir: /s\n"
    "nodes:\n  - {name: a, address: 127.0.0.1:2}\nusers:\n";

conf::Config config_of(const std::string& users) {
  auto config = conf::parse("shop.yaml", kHead + users);
  REQUIRE_MESSAGE(config.has_value(), (config ? "" : config.error().text()));
  return *config;
}

std::string mistakes_of(const std::string& users) {
  auto mistakes = proxy::acl::check_users(config_of(users));
  if (mistakes.empty()) return "";
  return conf::Mistakes{"shop.yaml", std::move(mistakes)}.text();
}

}  // namespace

TEST_CASE("without users there is one, who may do everything") {
  auto users = Users::make({}, CommandTable::built_in(), nullptr);
  CHECK(users->all().size() == 1);
  CHECK(users->default_user().is_unrestricted());
  CHECK(users->default_user().is_enabled());
  CHECK(users->default_user().needs_no_password());
  conf::Config config;
  config.listen.password = "sesame";
  users = Users::make(config, CommandTable::built_in(), nullptr);
  CHECK_FALSE(users->default_user().needs_no_password());
  CHECK(users->default_user().accepts(conf::hash_of("sesame")));
  CHECK(users->default_user().is_unrestricted());
}

TEST_CASE("users are as the configuration says") {
  const auto config = config_of(
      "  - {name: app, nopass: true, rules: '+@read ~app:*', connections: 3}\n"
      "  - {name: old, enabled: false, rules: [+get, '~a ~b']}\n"
      "  - name: default\n    passwords: \"#" +
      conf::hex_of(conf::hash_of("x")) + "\"\n    rules: +ping\n");
  CHECK(proxy::acl::check_users(config).empty());
  const auto users = Users::make(config, CommandTable::built_in(), nullptr);
  CHECK(users->all().size() == 3);
  CHECK(users->find("app")->text() == "user app on nopass ~app:* resetchannels -@all +@read");
  CHECK(users->find("app")->connections_max() == 3);
  CHECK(users->find("old")->text() == "user old off ~a ~b resetchannels -@all +get");
  CHECK(users->default_user().accepts(conf::hash_of("x")));
  CHECK_FALSE(users->default_user().is_unrestricted());
  CHECK(users->find("nobody") == nullptr);
}

TEST_CASE("counts of connections go on with the next users of the same name") {
  const auto config = config_of("  - {name: app, nopass: true}\n");
  const auto before = Users::make(config, CommandTable::built_in(), nullptr);
  const auto after = Users::make(config, CommandTable::built_in(), before.get());
  CHECK(before->find("app")->connections() == after->find("app")->connections());
  CHECK(before->default_user().connections() == after->default_user().connections());
  CHECK(before->default_user().connections() != before->find("app")->connections());
}

TEST_CASE("a rule that is wrong is named with its place") {
  CHECK(
      mistakes_of("  - name: app\n    nopass: true\n    rules:\n      - +get\n"
                  "      - +set +gte ~x\n") ==
      "shop.yaml:11:9: users[0].rules: \"+gte\": Unknown command or category name in ACL; did you "
      "mean +get?");
  CHECK(mistakes_of("  - {name: app, nopass: true, rules: +@raed}\n")
            .ends_with("Unknown command or category name in ACL; did you mean +@read?"));
  CHECK(mistakes_of("  - {name: app, nopass: true, rules: '>secret'}\n").find("secret") ==
        std::string::npos);
  CHECK(mistakes_of("  - {name: app, nopass: true, rules: '(+get ~a'}\n")
            .find("Unmatched parenthesis") != std::string::npos);
}

TEST_CASE("a user whom nobody could log in as is a mistake") {
  CHECK(mistakes_of("  - {name: app, rules: +@read}\n").find("nobody could log in as \"app\"") !=
        std::string::npos);
  CHECK(mistakes_of("  - {name: app, enabled: false, rules: +@read}\n").empty());
  CHECK(mistakes_of("  - {name: app, rules: nopass +@read}\n").empty());
}
