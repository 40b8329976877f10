#include <doctest/doctest.h>

#include <string>
#include <variant>

#include "proxy/control/node_verifier.h"
#include "proxy/resp/reserved_key.h"

using proxy::control::Command;
using proxy::control::identity_of;
using proxy::control::NodeVerifier;
using proxy::control::parse_info;
using proxy::control::Reply;
using proxy::control::Verdict;
using proxy::control::VerifyOptions;
using proxy::control::VerifyOutcome;
using proxy::control::why_unsuitable;
using proxy::resp::kIdentityKey;

namespace {

const std::string kKey(kIdentityKey);
const std::string kOurs = "shop/inv-bcn/0123456789abcdef";

VerifyOptions options() {
  VerifyOptions options;
  options.cluster = "shop";
  options.node = "inv-bcn";
  options.new_identity = kOurs;
  options.client_name_prefix = "slotproxy:shop:5f3a:";
  options.incarnation = "7";
  return options;
}

VerifyOptions expecting(const std::string& identity) {
  VerifyOptions with = options();
  with.expected_identity = identity;
  return with;
}

struct Server {
  std::string version = "7.0.15";
  std::string role = "master";
  std::string cluster_enabled = "0";
  std::string loading = "0";

  [[nodiscard]] Reply info() const {
    return Reply::string("# Server\r\nredis_version:" + version +
                         "\r\nrun_id:aaaa\r\nloading:" + loading + "\r\nrole:" + role +
                         "\r\ncluster_enabled:" + cluster_enabled + "\r\n");
  }
};

// Drives a verifier and says what it asks next.
class Conversation {
 public:
  explicit Conversation(VerifyOptions with) : verifier(std::move(with)) {
    command = verifier.first_command();
  }

  Conversation& answer(const Reply& reply) {
    REQUIRE_FALSE(verdict.has_value());
    auto step = verifier.on_reply(reply);
    if (std::holds_alternative<Command>(step)) {
      command = std::get<Command>(step);
    } else {
      verdict = std::get<Verdict>(step);
    }
    return *this;
  }
  Conversation& ok() { return answer(Reply::status("OK")); }
  // CLIENT SETNAME and INFO.
  Conversation& introduce(const Server& server = {}) { return ok().answer(server.info()); }

  [[nodiscard]] bool is_verified() const {
    return verdict && verdict->outcome == VerifyOutcome::Verified;
  }
  [[nodiscard]] bool is_refused_because(const std::string& words) const {
    INFO((verdict ? verdict->reason : "no verdict"));
    return verdict && verdict->outcome == VerifyOutcome::Refused &&
           verdict->reason.find(words) != std::string::npos;
  }
  [[nodiscard]] bool is_alive() const {
    return verdict && verdict->outcome == VerifyOutcome::Alive;
  }

  NodeVerifier verifier;
  Command command;
  std::optional<Verdict> verdict;
};

}  // namespace

TEST_CASE("INFO's lines become facts") {
  const auto facts = parse_info(
      "# Server\r\nredis_version:7.2.4\r\nrun_id:f00d\r\nredis_mode:standalone\r\n\r\n# Clients\r\n"
      "connected_clients:12\r\n# "
      "Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmaxmemory:2000000\r\n"
      "maxmemory_policy:allkeys-lru\r\n# Persistence\r\nloading:0\r\nasync_loading:0\r\n# Stats\r\n"
      "instantaneous_ops_per_sec:4321\r\n# Replication\r\nrole:master\r\n# "
      "Cluster\r\ncluster_enabled:0\r\n"
      "# Keyspace\r\ndb0:keys=1234,expires=7,avg_ttl=0\r\ndb1:keys=9,expires=0,avg_ttl=0\r\n");
  CHECK(facts.version == "7.2.4");
  CHECK(facts.run_id == "f00d");
  CHECK(facts.role == "master");
  CHECK(facts.used_memory == 1048576);
  CHECK(facts.maxmemory == 2000000);
  CHECK(facts.maxmemory_policy == "allkeys-lru");
  CHECK(facts.ops_per_second == 4321);
  CHECK(facts.connected_clients == 12);
  CHECK(facts.keys == 1234 + 9);
  CHECK_FALSE(facts.cluster_enabled);
  CHECK_FALSE(facts.loading);

  SUBCASE("lines that end in a bare newline, and a last line without one, are read too") {
    const auto bare = parse_info("role:slave\ncluster_enabled:1\nloading:1");
    CHECK(bare.role == "slave");
    CHECK(bare.cluster_enabled);
    CHECK(bare.loading);
  }
  SUBCASE("an empty text is no fact at all") { CHECK(parse_info("").run_id.empty()); }
}

TEST_CASE("a server is a node only as a standalone primary of 6.2 or newer") {
  auto facts = parse_info("redis_version:6.2.0\r\nrun_id:aaaa\r\nrole:master\r\n");
  CHECK_FALSE(why_unsuitable(facts).has_value());

  SUBCASE("10.0 is newer than 6.2") {
    facts.version = "10.0.1";
    CHECK_FALSE(why_unsuitable(facts).has_value());
  }
  SUBCASE("6.10 is newer than 6.2") {
    facts.version = "6.10.0";
    CHECK_FALSE(why_unsuitable(facts).has_value());
  }
  SUBCASE("6.0 and 5 are too old") {
    for (const char* version : {"6.0.16", "6.1.240", "5.0.14", "2.8.24"}) {
      facts.version = version;
      CHECK(why_unsuitable(facts).value().find(version) != std::string::npos);
    }
  }
  SUBCASE("a version that can't be read is no redis-server") {
    for (const char* version : {"", "seven", "7", "7.x"}) {
      facts.version = version;
      CHECK(why_unsuitable(facts).has_value());
    }
  }
  SUBCASE("without a run_id it can't be told from others") {
    facts.run_id.clear();
    CHECK(why_unsuitable(facts).has_value());
  }
  SUBCASE("a replica is none") {
    facts.role = "slave";
    CHECK(why_unsuitable(facts).value().find("replica") != std::string::npos);
  }
  SUBCASE("a sentinel is none") {
    facts.role = "sentinel";
    CHECK(why_unsuitable(facts).value().find("sentinel") != std::string::npos);
  }
  SUBCASE("a cluster node is none") {
    facts.cluster_enabled = true;
    CHECK(why_unsuitable(facts).value().find("cluster mode") != std::string::npos);
  }
}

TEST_CASE("an identity names cluster, node and 16 hex digits") {
  CHECK(identity_of("shop", "inv-bcn", 0x1f) == "shop/inv-bcn/000000000000001f");
}

TEST_CASE("credentials are sent first, as they were configured") {
  auto with = options();
  SUBCASE("none: the connection's name comes first") {
    CHECK(Conversation(with).command == Command{"CLIENT", "SETNAME", "slotproxy:shop:5f3a:7"});
  }
  SUBCASE("a password alone") {
    with.password = "s e\ncret";
    CHECK(Conversation(with).command == Command{"AUTH", "s e\ncret"});
  }
  SUBCASE("a user with a password") {
    with.username = "proxy";
    with.password = "secret";
    Conversation talk(with);
    CHECK(talk.command == Command{"AUTH", "proxy", "secret"});
    CHECK(talk.ok().command == Command{"CLIENT", "SETNAME", "slotproxy:shop:5f3a:7"});
  }
}

TEST_CASE("a password that is not accepted refuses the node, with the node's words") {
  auto with = options();
  with.password = "wrong";
  SUBCASE("wrong") {
    Conversation talk(with);
    talk.answer(Reply::error("WRONGPASS invalid username-password pair or user is disabled."));
    CHECK(talk.is_refused_because("node's password was not accepted"));
    CHECK(talk.is_refused_because("WRONGPASS"));
  }
  SUBCASE("none is configured at the node") {
    Conversation talk(with);
    talk.answer(Reply::error(
        "ERR AUTH <password> called without any password configured for the default user."));
    CHECK(talk.is_refused_because("node's password was not accepted"));
  }
  SUBCASE("the node wants one and none is configured here") {
    Conversation talk(options());
    talk.answer(Reply::error("NOAUTH Authentication required."));
    CHECK(talk.is_refused_because("wants a password"));
  }
}

TEST_CASE("a server that is no standalone primary of a known version is refused after INFO") {
  CHECK(Conversation(options()).introduce({.role = "slave"}).is_refused_because("role:slave"));
  CHECK(Conversation(options())
            .introduce({.cluster_enabled = "1"})
            .is_refused_because("cluster_enabled:1"));
  CHECK(Conversation(options()).introduce({.version = "6.0.16"}).is_refused_because("6.0.16"));
  CHECK(Conversation(options())
            .introduce({.role = "slave", .loading = "1"})
            .is_refused_because("role:slave"));
}

TEST_CASE("at the first start a node without an identity is given one") {
  Conversation talk(options());
  CHECK(talk.introduce().command == Command{"GET", kKey});
  CHECK(talk.answer(Reply::nil()).command == Command{"SET", kKey, kOurs, "NX"});
  talk.ok();
  CHECK(talk.is_verified());
  CHECK(talk.verifier.identity() == kOurs);
  CHECK(talk.verifier.warning().empty());
  CHECK(talk.verifier.facts().run_id == "aaaa");
}

TEST_CASE("at the first start an identity that is there already decides") {
  Conversation talk(options());
  talk.introduce();
  SUBCASE("of this cluster and name: it is taken over, as after a lost state directory") {
    talk.answer(Reply::string("shop/inv-bcn/ffff0000ffff0000"));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.identity() == "shop/inv-bcn/ffff0000ffff0000");
  }
  SUBCASE("of another cluster: refused") {
    talk.answer(Reply::string("bank/inv-bcn/ffff0000ffff0000"));
    CHECK(talk.is_refused_because("cluster \"bank\""));
    CHECK(talk.verifier.identity().empty());
  }
  SUBCASE("of another name: refused") {
    talk.answer(Reply::string("shop/inv-vlc/ffff0000ffff0000"));
    CHECK(talk.is_refused_because("node inv-vlc"));
  }
  SUBCASE("something that is no identity: refused") {
    talk.answer(Reply::string("hello"));
    CHECK(talk.is_refused_because("holds something else"));
  }
  SUBCASE("of another type: refused") {
    talk.answer(Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value"));
    CHECK(talk.is_refused_because("holds something else"));
  }
}

TEST_CASE("when another writer was faster with the identity, what is there decides") {
  Conversation talk(options());
  talk.introduce().answer(Reply::nil());
  CHECK(talk.answer(Reply::nil()).command == Command{"GET", kKey});
  SUBCASE("ours") {
    CHECK(talk.answer(Reply::string("shop/inv-bcn/0000000000000001")).is_verified());
  }
  SUBCASE("another's") {
    CHECK(talk.answer(Reply::string("bank/x/0000000000000001")).is_refused_because("bank"));
  }
  SUBCASE("gone again: refused instead of trying for ever") {
    CHECK(talk.answer(Reply::nil()).is_refused_because("does not keep"));
  }
}

TEST_CASE("later the recorded identity is what the node must have") {
  Conversation talk(expecting(kOurs));
  talk.introduce();
  SUBCASE("it has it") {
    talk.answer(Reply::string(kOurs));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.warning().empty());
  }
  SUBCASE("another one of the same cluster and name is another server") {
    talk.answer(Reply::string("shop/inv-bcn/ffffffffffffffff"));
    CHECK(talk.is_refused_because("is another server"));
    CHECK(talk.is_refused_because("shop/inv-bcn/ffffffffffffffff"));
    CHECK(talk.is_refused_because(kOurs));
  }
  SUBCASE("none: the recorded one is written again, with a warning") {
    CHECK(talk.answer(Reply::nil()).command == Command{"SET", kKey, kOurs, "NX"});
    talk.ok();
    CHECK(talk.is_verified());
    CHECK(talk.verifier.identity() == kOurs);
    CHECK(talk.verifier.warning().find("lost its identity") != std::string::npos);
  }
}

TEST_CASE("an identity from a stranger can't break a line of ours") {
  Conversation talk(expecting(kOurs));
  talk.introduce().answer(Reply::string("a\r\nb\x1b[2J" + std::string(5000, 'x')));
  REQUIRE(talk.verdict.has_value());
  CHECK(talk.verdict->reason.find_first_of("\r\n\x1b") == std::string::npos);
  CHECK(talk.verdict->reason.size() < 400);
}

TEST_CASE("a node that takes no writes now is used, with a warning") {
  for (const char* error : {"OOM command not allowed when used memory > 'maxmemory'.",
                            "MISCONF Redis is configured to save RDB snapshots",
                            "NOREPLICAS Not enough good replicas"}) {
    CAPTURE(error);
    Conversation talk(options());
    talk.introduce().answer(Reply::nil()).answer(Reply::error(error));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.identity().empty());
    CHECK_FALSE(talk.verifier.warning().empty());
  }
}

TEST_CASE("LOADING and BUSY are signs of life, at whatever question") {
  auto with = options();
  with.password = "p";
  with.kill_predecessors = true;
  for (const char* error :
       {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script."}) {
    CAPTURE(error);
    CHECK(Conversation(with).answer(Reply::error(error)).is_alive());
    CHECK(Conversation(with).ok().answer(Reply::error(error)).is_alive());
    CHECK(Conversation(with).ok().ok().answer(Reply::error(error)).is_alive());
    Conversation get(with);
    CHECK(get.ok().introduce().answer(Reply::error(error)).is_alive());
    CHECK(get.verifier.facts().run_id == "aaaa");
    CHECK(Conversation(with)
              .ok()
              .introduce()
              .answer(Reply::nil())
              .answer(Reply::error(error))
              .is_alive());
    CHECK(Conversation(with)
              .ok()
              .introduce()
              .answer(Reply::string(kOurs))
              .answer(Reply::error(error))
              .is_alive());
  }
  SUBCASE("INFO answers while the data set is loaded, and says so") {
    Conversation talk(options());
    talk.introduce({.loading = "1"});
    CHECK(talk.is_alive());
    CHECK(talk.verdict->reason == "is loading its data set");
    CHECK(talk.verifier.facts().run_id == "aaaa");
  }
}

TEST_CASE("a server without room for clients is tried again later") {
  Conversation talk(options());
  talk.answer(Reply::error("ERR max number of clients reached"));
  REQUIRE(talk.verdict.has_value());
  CHECK(talk.verdict->outcome == VerifyOutcome::Failed);
}

TEST_CASE(
    "a right that is missing, protected mode and unknown errors refuse the node with the node's "
    "words") {
  CHECK(Conversation(options())
            .ok()
            .answer(Reply::error("NOPERM this user has no permissions to run the 'info' command"))
            .is_refused_because("'info'"));
  CHECK(Conversation(options())
            .answer(Reply::error("DENIED Redis is running in protected mode"))
            .is_refused_because("protected mode"));
  CHECK(Conversation(options())
            .ok()
            .answer(Reply::error("ERR unknown command 'INFO'"))
            .is_refused_because("'INFO'"));
  CHECK(Conversation(options()).ok().answer(Reply::integer_of(5)).is_refused_because("INFO"));
  CHECK(Conversation(options())
            .introduce()
            .answer(Reply::integer_of(5))
            .is_refused_because("holds something else"));
}

TEST_CASE("the same server under two names is refused under the later one") {
  auto with = options();
  std::string claimed;
  SUBCASE("held by another node") {
    with.claim_run_id = [&](const std::string& run_id) -> std::optional<std::string> {
      claimed = run_id;
      return "inv-vlc";
    };
    CHECK(Conversation(with).introduce().is_refused_because("same server as node inv-vlc"));
    CHECK(claimed == "aaaa");
  }
  SUBCASE("free") {
    with.claim_run_id = [&](const std::string&) { return std::optional<std::string>(); };
    CHECK(Conversation(with).introduce().command == Command{"GET", kKey});
  }
  SUBCASE("an unsuitable server claims nothing") {
    with.claim_run_id = [&](const std::string& run_id) {
      claimed = run_id;
      return std::optional<std::string>();
    };
    Conversation talk(with);
    talk.introduce({.role = "slave"});
    CHECK(claimed.empty());
  }
}

TEST_CASE(
    "connections of the previous incarnation, and only those, are ended before the node is used") {
  auto with = options();
  with.kill_predecessors = true;
  Conversation talk(with);
  talk.introduce().answer(Reply::string(kOurs));
  CHECK(talk.command == Command{"CLIENT", "LIST"});
  talk.answer(Reply::string(
      "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:7001 fd=8 name=slotproxy:shop:5f3a:6 age=1\n"
      "id=4 addr=127.0.0.1:6 name=slotproxy:shop:5f3a:7 age=1\n"
      "id=5 addr=127.0.0.1:7 name=slotproxy:shop:0000:6 age=1\n"
      "id=6 addr=127.0.0.1:8 name= age=1\n"
      "id=7 addr=127.0.0.1:9 name=slotproxy:shop:5f3a:71 age=1\n"
      "id=8 addr=127.0.0.1:10 name=app age=1\n"));
  CHECK(talk.command == Command{"CLIENT", "KILL", "ID", "7"});
  CHECK(talk.answer(Reply::integer_of(1)).command == Command{"CLIENT", "KILL", "ID", "3"});
  SUBCASE("one that is gone meanwhile is no trouble") {
    talk.answer(Reply::integer_of(0));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.killed_connections() == 1);
  }
  SUBCASE("nor is an error about it") {
    CHECK(talk.answer(Reply::error("ERR No such client")).is_verified());
  }
  SUBCASE("without the right to do so the node is refused") {
    CHECK(talk.answer(Reply::error("NOPERM no permissions to run 'client|kill'"))
              .is_refused_because("client|kill"));
  }
}

TEST_CASE("nobody is ended when there is no predecessor, or when it was done before") {
  auto with = options();
  SUBCASE("none in the list") {
    with.kill_predecessors = true;
    Conversation talk(with);
    talk.introduce()
        .answer(Reply::string(kOurs))
        .answer(Reply::string("id=6 addr=127.0.0.1:8 name= age=1\n"));
    CHECK(talk.is_verified());
  }
  SUBCASE("done before") {
    CHECK(Conversation(with).introduce().answer(Reply::string(kOurs)).is_verified());
  }
}

TEST_CASE("COMMAND is fetched last when it is wanted, and never stands in the way") {
  auto with = options();
  with.fetch_commands = true;
  Conversation talk(with);
  talk.introduce().answer(Reply::string(kOurs));
  CHECK(talk.command == Command{"COMMAND"});
  SUBCASE("its reply is kept as RESP2 bytes") {
    talk.answer(
        Reply::array({Reply::array({Reply::string("get"), Reply::integer_of(2),
                                    Reply::array({Reply::status("readonly")}), Reply::nil()})}));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.take_commands() ==
          "*1\r\n*4\r\n$3\r\nget\r\n:2\r\n*1\r\n+readonly\r\n$-1\r\n");
  }
  SUBCASE("an error leaves nothing known") {
    talk.answer(Reply::error("NOPERM this user has no permissions to run the 'command' command"));
    CHECK(talk.is_verified());
    CHECK(talk.verifier.take_commands().empty());
  }
}
