#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "admin/api.h"
#include "admin/commands.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/temp_folder.h"

using namespace admin;
using tests::bulk;
using tests::FakeDaemon;
using tests::Outcome;
using tests::slotctl;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kHealthy = R"({"health":"ok","nodes":3,"nodes_up":3,"slots_served":16384})";

}  // namespace

TEST_CASE("an answer is printed for people, or as the daemon's JSON") {
  FakeDaemon daemon(bulk(kHealthy));
  SUBCASE("for people") {
    const Outcome outcome = slotctl({"--admin", daemon.path(), "health"});
    CHECK(outcome.code == 0);
    CHECK(outcome.out == "ok   3 of 3 nodes up   16,384 of 16,384 slots served\n");
    CHECK(outcome.err.empty());
  }
  SUBCASE("JSON, asked for before the command") {
    CHECK(slotctl({"--json", "--admin", daemon.path(), "health"}).out ==
          std::string(kHealthy) + "\n");
  }
  SUBCASE("JSON, asked for behind it") {
    CHECK(slotctl({"health", "--admin", daemon.path(), "--json"}).out ==
          std::string(kHealthy) + "\n");
  }
}

TEST_CASE("the admin address comes from --admin, else from the environment") {
  FakeDaemon daemon(bulk(kHealthy));
  SUBCASE("environment") { CHECK(slotctl({"health"}, {.admin_address = daemon.path()}).code == 0); }
  SUBCASE("--admin is stronger") {
    CHECK(slotctl({"health", "--admin", daemon.path()}, {.admin_address = "/nowhere"}).code == 0);
  }
}

TEST_CASE("over TCP the password goes ahead, from the environment or a file") {
  const tests::TempFolder folder;
  std::ofstream(folder.file("pw")) << "from file\nsecond line\n";
  FakeDaemon daemon("+OK\r\n" + bulk(kHealthy), /*is_tcp=*/true);
  SUBCASE("environment") {
    CHECK(slotctl({"health"}, {.admin_address = daemon.path(), .admin_password = "s3cret"}).code ==
          0);
    CHECK(daemon.request() == "*2\r\n$4\r\nAUTH\r\n$6\r\ns3cret\r\n");
  }
  SUBCASE("the first line of a file, which is stronger") {
    CHECK(slotctl({"health", "--admin-password-file", folder.file("pw")},
                  {.admin_address = daemon.path(), .admin_password = "s3cret"})
              .code == 0);
    CHECK(daemon.request() == "*2\r\n$4\r\nAUTH\r\n$9\r\nfrom file\r\n");
  }
}

TEST_CASE("a wrong password is a refusal") {
  FakeDaemon daemon("-WRONGPASS this is not the admin password\r\n", /*is_tcp=*/true);
  const Outcome outcome =
      slotctl({"health"}, {.admin_address = daemon.path(), .admin_password = "x"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err == "refused: WRONGPASS this is not the admin password\n");
}

TEST_CASE("each command sends its verb") {
  struct Sent {
    std::vector<std::string> arguments;
    std::string request;
  };
  const Sent sent[] = {
      {{"status"}, "*1\r\n$6\r\nSTATUS\r\n"},
      {{"nodes"}, "*1\r\n$5\r\nNODES\r\n"},
      {{"slots"}, "*1\r\n$5\r\nSLOTS\r\n"},
      {{"strays"}, "*1\r\n$6\r\nSTRAYS\r\n"},
      {{"strays", "--list"}, "*2\r\n$6\r\nSTRAYS\r\n$4\r\nLIST\r\n"},
      {{"reload"}, "*1\r\n$6\r\nRELOAD\r\n"},
      {{"config", "show"}, "*1\r\n$6\r\nCONFIG\r\n"},
      {{"explain", "a b"}, "*2\r\n$7\r\nEXPLAIN\r\n$3\r\na b\r\n"},
      {{"explain", "--command", "GET", "a"},
       "*4\r\n$7\r\nEXPLAIN\r\n$9\r\n--command\r\n$3\r\nGET\r\n$1\r\na\r\n"},
      {{"explain", "--", "--json"}, "*2\r\n$7\r\nEXPLAIN\r\n$6\r\n--json\r\n"},
      {{"explain", "--command", "ZADD", "k", "-1", "m"},
       "*6\r\n$7\r\nEXPLAIN\r\n$9\r\n--command\r\n$4\r\nZADD\r\n$1\r\nk\r\n$2\r\n-1\r\n$"
       "1\r\nm\r\n"},
  };
  for (const Sent& one : sent) {
    CAPTURE(one.request);
    FakeDaemon daemon(bulk("{}"));
    const Outcome outcome = slotctl(one.arguments, {.admin_address = daemon.path()});
    CHECK(outcome.code == 0);
    CHECK(daemon.request() == one.request);
  }
}

TEST_CASE("health exits with 1 unless all is well") {
  FakeDaemon daemon(bulk(R"({"health":"degraded","nodes":3,"nodes_up":2})"));
  const Outcome outcome = slotctl({"health"}, {.admin_address = daemon.path()});
  CHECK(outcome.code == 1);
  CHECK(has(outcome.out, "degraded"));
}

TEST_CASE("an error answer is printed as a refusal and exits with 1") {
  FakeDaemon daemon("-ERR a reload is under way; try again\r\n");
  const Outcome outcome = slotctl({"reload"}, {.admin_address = daemon.path()});
  CHECK(outcome.code == 1);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "refused: a reload is under way; try again\n");
}

TEST_CASE("no daemon is told with what to do, and exits with 4") {
  const tests::TempFolder folder;
  const Outcome outcome = slotctl({"status", "--admin", folder.file("none.sock")});
  CHECK(outcome.code == 4);
  CHECK(outcome.err == "can't reach slotproxy at " + folder.file("none.sock") +
                           ": no such file or directory. Is it running? Start it with slotproxy "
                           "--config FILE, or name its admin address with --admin\n");
}

TEST_CASE("a daemon that does not answer in time exits with 4") {
  FakeDaemon daemon("");
  const Outcome outcome =
      slotctl({"status", "--timeout", "0.05"}, {.admin_address = daemon.path()});
  CHECK(outcome.code == 4);
  CHECK(has(outcome.err, "did not answer in time"));
  CHECK(has(outcome.err, "--timeout"));
}

TEST_CASE("half an answer is no answer") {
  FakeDaemon daemon("$100\r\n{\"health\"");
  CHECK(slotctl({"health", "--timeout", "0.05"}, {.admin_address = daemon.path()}).code == 4);
}

TEST_CASE("an answer of something else than slotproxy is refused, not guessed at") {
  for (const char* answer : {"HTTP/1.1 400 Bad Request\r\n\r\n", ":1\r\n", "$3\r\nfoo\r\n",
                             "$13\r\n{\"nodes\":\"x\"}\r\n"}) {
    CAPTURE(answer);
    FakeDaemon daemon(answer);
    const Outcome outcome = slotctl({"health"}, {.admin_address = daemon.path()});
    CHECK(outcome.code == 1);
    CHECK(outcome.out.empty());
    CHECK_FALSE(outcome.err.empty());
  }
}

TEST_CASE("mistakes on the command line exit with 2 and say where help is") {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"statu"},
                                                    {"status", "x"},
                                                    {"explain"},
                                                    {"config"},
                                                    {"config", "check"},
                                                    {"status", "--timeout", "-1"},
                                                    {"status", "--bogus"},
                                                    {"--admin"}}) {
    const Outcome outcome = slotctl(arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 2);
    CHECK(has(outcome.err, "slotctl --help"));
    CHECK(outcome.out.empty());
  }
  CHECK(has(slotctl({"statu"}).err, "statu is no command"));
}

TEST_CASE("an admin address that is none exits with 2 and names where it came from") {
  CHECK(has(slotctl({"status", "--admin", "nonsense"}).err, "--admin: "));
  const Outcome outcome = slotctl({"status"}, {.admin_address = "host:99999"});
  CHECK(outcome.code == 2);
  CHECK(has(outcome.err, "$SLOTPROXY_ADMIN: "));
}

TEST_CASE("a password file that can't be read exits with 2") {
  const Outcome outcome = slotctl({"status", "--admin-password-file", "/nowhere/pw"});
  CHECK(outcome.code == 2);
  CHECK(has(outcome.err, "/nowhere/pw"));
}

TEST_CASE("help documents the exit codes, version says the version") {
  const Outcome help = slotctl({"--help"});
  CHECK(help.code == 0);
  CHECK(has(help.out, "Exit codes:"));
  CHECK(has(help.out, "explain"));
  CHECK(slotctl({"status", "--help"}).code == 0);
  CHECK(slotctl({"--version"}).out == "slotctl " SLOTPROXY_VERSION "\n");
}

TEST_CASE("config check needs no daemon; a good file exits with 0, mistakes with 2") {
  const tests::TempFolder folder;
  const std::string good = SLOTPROXY_SOURCE_DIR "/conf/slotproxy.yaml";
  CHECK(slotctl({"config", "check", good}).code == 0);
  CHECK(has(slotctl({"config", "check", good, "--json"}).out, "\"ok\":true,\"mistakes\":[]"));
  const std::string bad = folder.file("bad.yaml");
  std::ofstream(bad) << "clustre: shop\n";
  const Outcome outcome = slotctl({"config", "check", bad});
  CHECK(outcome.code == 2);
  CHECK(has(outcome.err, bad + ":1:1: "));
  CHECK(has(outcome.err, "correct the file"));
  const Outcome json = slotctl({"--json", "config", "check", bad});
  CHECK(json.code == 2);
  CHECK(has(json.out, R"("ok":false,"mistakes":[{"line":1,"column":1,)"));
}

TEST_CASE("config reference lists options") {
  CHECK(has(slotctl({"config", "reference"}).out, "limits.clients"));
}

TEST_CASE("config export asks for options, nodes and slots, and writes a file") {
  const std::vector<std::string> answers{
      bulk(R"({"options":[{"option":"cluster","values":["shop"]}]})"),
      bulk(R"({"epoch":7,"nodes":[{"name":"a","address":"127.0.0.1:7001","slots":16384}]})"),
      bulk(R"({"epoch":7,"owners":[{"node":"a","ranges":["0-16383"]}]})")};
  FakeDaemon daemon(answers);
  const Outcome outcome = slotctl({"config", "export"}, {.admin_address = daemon.path()});
  CHECK(outcome.code == 0);
  CHECK(outcome.out ==
        "cluster: shop\nnodes:\n  - name: a\n    address: 127.0.0.1:7001\n    slots: 0-16383\n");
  CHECK(daemon.requests().size() == 3);
}
