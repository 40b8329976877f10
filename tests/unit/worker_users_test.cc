// What a client may do, as whom: on every way that its requests take.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "conf/loader.h"
#include "tests/support/worker_rig.h"

namespace {

using tests::TestLoop;
using tests::WorkerRig;

const std::vector<WorkerRig::Part> kOne = {{"n1", "0-16383"}};
const std::string kOk = "+OK\r\n";
const std::string kNoAuth = "-NOAUTH Authentication required.\r\n";
const std::string kWrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const std::string kNoKey =
    "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const std::string kAtExec =
    "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
    "call. This command is no longer allowed for the following reason: ";

std::string no_command(const std::string& name) {
  return "-NOPERM this user has no permissions to run the '" + name + "' command\r\n";
}

conf::UserConfig user_of(std::string name, const std::string& password, std::string rules) {
  conf::UserConfig user;
  user.name = std::move(name);
  if (password.empty()) {
    user.nopass = true;
  } else {
    user.passwords = {conf::hex_of(conf::hash_of(password))};
  }
  user.rules.push_back({std::move(rules), {}});
  return user;
}

// Of the rig's next snapshot.
void set_users(WorkerRig& rig, std::vector<conf::UserConfig> users) {
  conf::Config config;
  config.users = std::move(users);
  rig.users =
      proxy::acl::Users::make(config, proxy::resp::CommandTable::built_in(), rig.users.get());
}

}  // namespace

TEST_CASE("a user's requests are judged wherever they go") {
  TestLoop loop;
  WorkerRig rig(loop);
  set_users(rig, {user_of("app", "pw", "+@all -mget -acl|setuser ~app:* &app:*")});
  rig.install(kOne);
  auto client = rig.client();
  CHECK(client->ask({"AUTH", "app", "wrong"}) == kWrongPass);
  CHECK(client->ask({"AUTH", "app", "pw"}) == kOk);
  CHECK(client->ask({"ACL", "WHOAMI"}) == "$3\r\napp\r\n");
  SUBCASE("on the shortest way") {
    CHECK(client->ask({"SET", "app:1", "v"}) == kOk);
    CHECK(client->ask({"SET", "other", "v"}) == kNoKey);
    CHECK(client->ask({"GET", "app:1"}) == "$1\r\nv\r\n");
    CHECK(client->ask({"GET", "other"}) == kNoKey);
  }
  SUBCASE("with several keys, and where a handler answers") {
    CHECK(client->ask({"MGET", "app:1"}) == no_command("mget"));
    CHECK(client->ask({"DEL", "app:1", "other"}) == kNoKey);
    CHECK(client->ask({"EVAL", "return 1", "1", "other"}) == kNoKey);
    CHECK(client->ask({"BLPOP", "other", "1"}) == kNoKey);
    CHECK(client->ask({"WATCH", "other"}) == kNoKey);
    CHECK(client->ask({"ACL", "SETUSER", "x"}) == no_command("acl|setuser"));
    CHECK(client->ask({"SUBSCRIBE", "app:1", "other"}).starts_with("-NOPERM"));
  }
  SUBCASE("between MULTI and EXEC") {
    CHECK(client->ask({"MULTI"}) == kOk);
    CHECK(client->ask({"GET", "other"}) == kNoKey);
    CHECK(client->ask({"EXEC"}).starts_with("-EXECABORT"));
  }
  SUBCASE("and RESET ends it") {
    CHECK(client->ask({"RESET"}) == "+RESET\r\n");
    CHECK(client->ask({"ACL", "WHOAMI"}) == "$7\r\ndefault\r\n");
    CHECK(client->ask({"SET", "other", "v"}) == kOk);
  }
}

TEST_CASE("what is queued is judged again when the users have changed") {
  TestLoop loop;
  WorkerRig rig(loop);
  set_users(rig, {user_of("app", "pw", "+@all ~a ~b")});
  rig.install(kOne);
  auto client = rig.client();
  CHECK(client->ask({"AUTH", "app", "pw"}) == kOk);
  CHECK(client->ask({"MULTI"}) == kOk);
  CHECK(client->ask({"CLIENT", "ID"}) == "+QUEUED\r\n");
  CHECK(client->ask({"SET", "{b}", "1"}).starts_with("-NOPERM"));
  CHECK(client->ask({"DISCARD"}) == kOk);
  CHECK(client->ask({"MULTI"}) == kOk);
  CHECK(client->ask({"ACL", "WHOAMI"}) == "+QUEUED\r\n");
  CHECK(client->ask({"CLIENT", "GETNAME"}) == "+QUEUED\r\n");
  CHECK(client->ask({"GET", "b"}) == "+QUEUED\r\n");
  set_users(rig, {user_of("app", "pw", "+@all -client ~a")});
  rig.install(kOne);
  CHECK(client->ask({"EXEC"}) == "*3\r\n$3\r\napp\r\n" + kAtExec +
                                     "no permission to execute the command or subcommand\r\n" +
                                     kAtExec + "no permission to touch the specified keys\r\n");
  CHECK(client->ask({"GET", "b"}) == kNoKey);
}

TEST_CASE("a login in a transaction decides what may be done behind it") {
  TestLoop loop;
  WorkerRig rig(loop);
  set_users(rig, {user_of("app", "pw", "+get ~a")});
  rig.install(kOne);
  auto client = rig.client();
  CHECK(client->ask({"MULTI"}) == kOk);
  for (const auto& command : {std::initializer_list<std::string_view>{"AUTH", "app", "wrong"},
                              {"CLIENT", "GETNAME"},
                              {"AUTH", "app", "pw"},
                              {"CLIENT", "GETNAME"},
                              {"SET", "a", "1"}})
    CHECK(client->ask(command) == "+QUEUED\r\n");
  const std::string denied = kAtExec + "no permission to execute the command or subcommand\r\n";
  CHECK(client->ask({"EXEC"}) == "*5\r\n" + kWrongPass + "$-1\r\n" + kOk + denied + denied);
  CHECK(client->ask({"SET", "a", "1"}) == no_command("set"));
}

TEST_CASE("a reload changes rights without a new login, and closes whose login is void") {
  TestLoop loop;
  WorkerRig rig(loop);
  set_users(rig, {user_of("app", "pw", "+@all ~* &*"), user_of("eva", "pw", "+@all ~* &*"),
                  user_of("ana", "pw", "+@all ~* &*")});
  rig.install(kOne);
  auto login = [&](const char* name) {
    auto client = rig.client();
    CHECK(client->ask({"AUTH", name, "pw"}) == kOk);
    return client;
  };
  auto app = login("app");
  auto eva = login("eva");
  auto ana = login("ana");
  auto anybody = rig.client();
  CHECK(anybody->ask({"GET", "x"}) == "$-1\r\n");
  conf::UserConfig renewed = user_of("app", "new", "+get ~*");
  renewed.passwords.push_back(conf::hex_of(conf::hash_of("pw")));
  set_users(rig, {renewed, user_of("eva", "other", "+@all ~* &*")});
  rig.install(kOne);
  CHECK(app->ask({"GET", "x"}) == "$-1\r\n");
  CHECK(app->ask({"SET", "x", "1"}) == no_command("set"));
  CHECK(rig.run_until([&] { return eva->is_closed() && ana->is_closed(); }));
  CHECK(anybody->ask({"GET", "x"}) == "$-1\r\n");
  CHECK(rig.client()->ask({"AUTH", "app", "new"}) == kOk);
  SUBCASE("a user that is switched off") {
    renewed.enabled = false;
    set_users(rig, {renewed});
    rig.install(kOne);
    CHECK(rig.run_until([&] { return app->is_closed(); }));
    CHECK(rig.client()->ask({"AUTH", "app", "new"}) == kWrongPass);
  }
  SUBCASE("a default user with a password lets those stay that are in") {
    set_users(rig, {renewed, user_of("default", "pw", "+get ~*")});
    rig.install(kOne);
    CHECK(anybody->ask({"GET", "x"}) == "$-1\r\n");
    CHECK(anybody->ask({"SET", "x", "1"}) == no_command("set"));
    auto late = rig.client();
    CHECK(late->ask({"GET", "x"}) == kNoAuth);
    CHECK(late->ask({"AUTH", "pw"}) == kOk);
    CHECK(late->ask({"GET", "x"}) == "$-1\r\n");
  }
}

TEST_CASE("subscribers whose channels are not theirs any more are closed") {
  TestLoop loop;
  WorkerRig rig(loop);
  rig.node("n1").on_command = [](const tests::Command& command) -> std::optional<std::string> {
    if (!command.front().ends_with("subscribe")) return std::nullopt;
    std::string bytes = "*3\r\n";
    proxy::resp::append_bulk(bytes, command.front());
    proxy::resp::append_bulk(bytes, command[1]);
    return bytes + ":1\r\n";
  };
  set_users(rig, {user_of("app", "pw", "+@all &a &b")});
  rig.install(kOne);
  auto a = rig.client();
  auto b = rig.client();
  for (auto* client : {a.get(), b.get()}) CHECK(client->ask({"AUTH", "app", "pw"}) == kOk);
  CHECK(a->ask({"SUBSCRIBE", "a"}).starts_with("*3\r\n$9\r\nsubscribe"));
  CHECK(b->ask({"SUBSCRIBE", "b"}).starts_with("*3\r\n$9\r\nsubscribe"));
  set_users(rig, {user_of("app", "pw", "+@all &a")});
  rig.install(kOne);
  CHECK(rig.run_until([&] { return b->is_closed(); }));
  CHECK(a->ask({"PING"}).starts_with("*2\r\n$4\r\npong"));
}

TEST_CASE("no more connections than a user may have") {
  TestLoop loop;
  WorkerRig rig(loop, 2);
  conf::UserConfig app = user_of("app", "pw", "+@all ~*");
  app.connections = 2;
  set_users(rig, {app});
  rig.install(kOne);
  auto first = rig.client();
  auto second = rig.client();
  auto third = rig.client();
  for (auto* client : {first.get(), second.get()}) {
    CHECK(client->ask({"AUTH", "app", "pw"}) == kOk);
    CHECK(client->ask({"AUTH", "app", "pw"}) == kOk);  // Again: it is in.
  }
  const std::string refused = third->ask({"AUTH", "app", "pw"});
  CHECK(refused.starts_with("-ERR max number of connections of user 'app' reached"));
  CHECK(third->ask({"ACL", "WHOAMI"}) == "$7\r\ndefault\r\n");
  SUBCASE("one that leaves makes room") { first->close(); }
  SUBCASE("so does one that becomes another") { CHECK(first->ask({"RESET"}) == "+RESET\r\n"); }
  SUBCASE("and the count goes on when the users change") {
    set_users(rig, {app});
    rig.install(kOne);
    CHECK(third->ask({"AUTH", "app", "pw"}) == refused);
    second->close();
  }
  CHECK(rig.run_until([&] { return third->ask({"AUTH", "app", "pw"}) == kOk; }));
}

TEST_CASE("whoever guesses waits, and whoever knows the password gets in") {
  TestLoop loop;
  WorkerRig rig(loop);
  set_users(rig, {user_of("app", "pw", "+@all ~*")});
  rig.install(kOne);
  // Those beyond the first wait, so that enough of them are remembered.
  std::vector<std::unique_ptr<tests::RigClient>> guessers;
  for (std::uint64_t i = 0; i < proxy::acl::LoginGuard::kFailuresMax + 5; ++i) {
    guessers.push_back(rig.client());
    guessers.back()->send(tests::request_of({"AUTH", "app", "wrong"}));
  }
  for (const auto& guesser : guessers) CHECK(guesser->read() == kWrongPass);
  // In the order in which they were sent, though the login waits.
  auto other = rig.client();
  other->send(tests::request_of({"PING"}) + tests::request_of({"AUTH", "app", "pw"}) +
              tests::request_of({"ACL", "WHOAMI"}));
  CHECK(other->read() == "+PONG\r\n");
  CHECK_FALSE(other->has_reply());
  CHECK(rig.client()->ask({"PING"}) == "+PONG\r\n");
  CHECK(other->read() == kOk);
  CHECK(other->read() == "$3\r\napp\r\n");
}
