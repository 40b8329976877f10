#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "conf/loader.h"

namespace {

// What is said about a text; "" when it is fine.
std::string mistakes_in(const std::string& yaml, const std::string& file = "shop.yaml") {
  const auto config = conf::parse(file, yaml);
  return config ? "" : config.error().text();
}

bool contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

constexpr const char* kTop =
    "cluster: shop\n"
    "listen:\n"
    "  forward: 127.0.0.1:6400\n";  // Three lines.

// A configuration that is fine but for what `nodes` says (from line 5, after "nodes:").
std::string with_nodes(const std::string& nodes) { return std::string(kTop) + "nodes:\n" + nodes; }

// A configuration that is fine but for what stands in `more` (from line 4).
std::string with(const std::string& more) {
  return std::string(kTop) + more + "nodes:\n  - {name: a, address: 127.0.0.1:7001}\n";
}

// A configuration that is fine but for what is below `listen` (from line 4).
std::string with_listen(const std::string& more) { return with(more); }

struct TempDir {
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "slotproxy-conf-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("the smallest configuration has defaults for everything else") {
  const auto config = conf::parse("shop.yaml", with(""));
  REQUIRE(config.has_value());
  conf::Config expected;
  expected.cluster = "shop";
  expected.listen.forward = {{.host = "127.0.0.1", .port = 6400, .path = {}}};
  expected.nodes.emplace_back();
  expected.nodes[0].name = "a";
  expected.nodes[0].address = {.host = "127.0.0.1", .port = 7001, .path = {}};
  CHECK(*config == expected);
  CHECK(config->listen.admin.text() == "/tmp/slotproxy/admin.sock");
  CHECK(config->state_dir == "/var/lib/slotproxy");
  CHECK_FALSE(config->workers.has_value());
}

TEST_CASE("every kind of value is read") {
  const auto config = conf::parse("shop.yaml", R"(
cluster: shop
listen:
  forward: [127.0.0.1:6400, "[::1]:6400", /run/slotproxy.sock]
  forward_cluster: true
  password: "s e c: r e t"
  admin: 127.0.0.1:6499
  admin_password: 1234
workers: 3
state_dir: /srv/state
placement: ring
allow_config: true
ping_nodes: true
databases: 3
nodes:
  - name: inv-bcn
    address: /run/redis.sock
    endpoint: 127.0.0.1:6401
    announce: shop-1.example.net:6401
    weight: 2.5
    slots: [0-8191, 9000]
    username: proxy
    password: null-ish
  - name: inv-vlc
    address: redis.example.net:6379
    endpoint: 127.0.0.1:6402
    slots: 8192-8999, 9001-16383
limits: {bulk: 1.5MB, script_cache: 0, clients: 7}
timeouts: {connect: 250ms, request: 0, drain: 1.5s, stalled_client: 2m}
log: {level: debug, file: /var/log/slotproxy.log}
)");
  REQUIRE_MESSAGE(config.has_value(), config.error().text());
  REQUIRE(config->listen.forward.size() == 3);
  CHECK(config->listen.forward[1].host == "::1");
  CHECK(config->listen.forward[1].text() == "[::1]:6400");
  CHECK(config->listen.forward[2].is_unix());
  CHECK(config->listen.forward_cluster);
  CHECK(config->listen.password == "s e c: r e t");
  CHECK(config->listen.admin_password == "1234");
  CHECK(config->workers == 3);
  CHECK(config->placement == slots::PlacementKind::Ring);
  CHECK(config->allow_config);
  CHECK(config->ping_nodes);
  CHECK(config->databases == 3);
  REQUIRE(config->nodes.size() == 2);
  CHECK(config->nodes[0].weight == 2.5);
  CHECK(slots::to_string(config->nodes[0].slots.value()) == "0-8191,9000");
  CHECK(slots::to_string(config->nodes[1].slots.value()) == "8192-8999,9001-16383");
  CHECK(config->nodes[0].announced()->text() == "shop-1.example.net:6401");
  CHECK(config->nodes[1].announced()->text() == "127.0.0.1:6402");
  CHECK(config->limits.bulk == 1'500'000);
  CHECK(config->limits.script_cache == 0);
  CHECK(config->timeouts.connect.count() == 250);
  CHECK(config->timeouts.drain.count() == 1500);
  CHECK(config->timeouts.stalled_client.count() == 120'000);
  CHECK(config->log.level == conf::LogLevel::Debug);
}

TEST_CASE("several mistakes are reported together, in file order") {
  CHECK(mistakes_in(R"(cluster: shop
listen:
  forward: 127.0.0.1:6400
nodes:
  - name: inv-bcn
    address: 127.0.0.1:7001
    slots: 0-8191
  - name: inv-vlc
    address: 127.0.0.1:7002
    # A comment does not shift the lines.
    slots: "8000-8191"
  - name: inv-gir
    address: 127.0.0.1:7003
    wieght: 2
    slots: 8192-16383
)") == "shop.yaml:11:12: nodes[1].slots: \"8000-8191\" overlaps nodes[0] (\"inv-bcn\": 0-8191)\n"
       "shop.yaml:14:5: nodes[2].wieght: unknown key; did you mean \"weight\"?");
}

TEST_CASE("an unknown key is a mistake, with what was meant") {
  SUBCASE("at the top") {
    CHECK(mistakes_in(with("wrokers: 2\n")) ==
          "shop.yaml:4:1: wrokers: unknown key; did you mean \"workers\"?");
  }
  SUBCASE("in a group") {
    CHECK(mistakes_in(with("limits:\n  client: 2\n")) ==
          "shop.yaml:5:3: limits.client: unknown key; did you mean \"clients\"?");
  }
  SUBCASE("one that belongs elsewhere") {
    CHECK(mistakes_in(with("forward: 127.0.0.1:1\n")) ==
          "shop.yaml:4:1: forward: unknown key here; \"forward\" belongs under \"listen\"");
    CHECK(mistakes_in(with("weight: 1\n")) ==
          "shop.yaml:4:1: weight: unknown key here; \"weight\" belongs under an item of \"nodes\"");
  }
  SUBCASE("one like nothing known") {
    CHECK(mistakes_in(with("log: {colour: red}\n")) ==
          "shop.yaml:4:7: log.colour: unknown key; known here: level, file");
  }
  SUBCASE("a misspelt key is not reported as missing too") {
    CHECK(mistakes_in(with_nodes("  - nmae: a\n    address: 127.0.0.1:7001\n")) ==
          "shop.yaml:5:5: nodes[0].nmae: unknown key; did you mean \"name\"?");
    CHECK(
        mistakes_in("clustre: shop\nlisten: {forward: h:1}\nnodes: [{name: a, address: h:2}]\n") ==
        "shop.yaml:1:1: clustre: unknown key; did you mean \"cluster\"?");
  }
}

TEST_CASE("a key that stands twice is a mistake at the second") {
  CHECK(mistakes_in(with("workers: 2\nworkers: 3\n")) ==
        "shop.yaml:5:1: workers: stands here twice (first in line 4); keep one");
}

TEST_CASE("required keys that are missing are named") {
  CHECK(mistakes_in("workers: 2\n") ==
        "shop.yaml:1:1: cluster: is missing; it needs a name: letters, digits and . _ -\n"
        "shop.yaml:1:1: listen.forward: is missing; it needs host:port or a Unix socket path, or a "
        "list of them\n"
        "shop.yaml:1:1: nodes: is missing; it needs a list of at least one node");
  CHECK(mistakes_in(with_nodes("  - weight: 2\n")) ==
        "shop.yaml:5:5: nodes[0].name: is missing; it needs a name: letters, digits and . _ -\n"
        "shop.yaml:5:5: nodes[0].address: is missing; it needs host:port or a Unix socket path");
  contains(mistakes_in("cluster: a\nlisten: {forward: []}\nnodes: [{name: a, address: h:1}]\n"),
           "shop.yaml:2:19: listen.forward: the address is empty");
  CHECK(
      mistakes_in(with_nodes("")) ==
      "shop.yaml:4:1: nodes: expected a list of nodes (\"- name: …\" with an address), found none");
}

TEST_CASE("a value of the wrong kind is a mistake") {
  CHECK(mistakes_in(with("workers: [1, 2]\n")) ==
        "shop.yaml:4:10: workers: expected auto (one per core) or a number, found a list");
  CHECK(mistakes_in(with("limits: 7\n"))
            .starts_with("shop.yaml:4:9: limits: expected a group of keys (clients, "));
  CHECK(mistakes_in(with("workers:\n")) ==
        "shop.yaml:4:1: workers: has no value; it takes auto (one per core) or a number");
  contains(mistakes_in(with_nodes("  inv-bcn: {address: h:1}\n")),
           "shop.yaml:5:3: nodes: expected a list of nodes");
  contains(mistakes_in(with_nodes("  - inv-bcn\n")),
           "shop.yaml:5:5: nodes[0]: expected a node with its keys");
  contains(mistakes_in(with_nodes("  - {name: a, address: h:1, slots: [[0-16383]]}\n")),
           "shop.yaml:5:37: nodes[0].slots[0]: expected a single value");
  contains(mistakes_in(with("? [a]\n: b\n")),
           "shop.yaml:4:3: a key must be a word; this is a list");
  CHECK(
      mistakes_in("just text\n").starts_with("shop.yaml:1:1: a configuration is a group of keys"));
  SUBCASE("a group whose keys are all commented out is fine") {
    CHECK(mistakes_in(with("limits:\n")) == "");
  }
}

TEST_CASE("an empty file says what is needed") {
  const std::string expected =
      "shop.yaml:1:1: the file is empty; a configuration needs at least cluster, listen.forward "
      "and nodes";
  CHECK(mistakes_in("") == expected);
  CHECK(mistakes_in("# nothing\n\n") == expected);
  contains(mistakes_in("---\n"), "the file is empty");
}

TEST_CASE("text that is not YAML is reported where it breaks") {
  SUBCASE("tabs, all of them") {
    CHECK(mistakes_in("cluster: a\nlisten:\n\tforward: h:1\n  \tadmin: /a\n\t# comment\n") ==
          "shop.yaml:3:1: a tab in the indentation; YAML indents with spaces only\n"
          "shop.yaml:4:3: a tab in the indentation; YAML indents with spaces only");
  }
  SUBCASE("no blank after a colon") {
    CHECK(mistakes_in("cluster: a\nworkers:4\nstate_dir: /x\n") ==
          "shop.yaml:2:8: not YAML: a blank is missing after the colon");
  }
  SUBCASE("an IPv6 address without quotes") {
    CHECK(mistakes_in("listen:\n  forward: [::1]:6400\n") ==
          "shop.yaml:2:17: not YAML: an IPv6 address in brackets must be quoted, as in "
          "\"[::1]:7001\"");
    contains(mistakes_in(with_nodes("  - {name: a, address: [::1]}\n")),
             "(IPv6 in quotes: \"[::1]:7001\")");
  }
  SUBCASE("a bracket left open") {
    CHECK(mistakes_in("cluster: a\nnodes: [a, {b: c}\n") ==
          "shop.yaml:2:8: not YAML: the bracket that opens here is not closed, or holds something "
          "that needs quotes");
  }
  SUBCASE("a quote left open") {
    CHECK(mistakes_in("cluster: \"shop\n") ==
          "shop.yaml:1:10: not YAML: the quote that opens here is not closed");
    CHECK(mistakes_in("cluster: 'it''s\n") ==
          "shop.yaml:1:10: not YAML: the quote that opens here is not closed");
    contains(mistakes_in("cluster: \"shop"), "the file ends inside a quoted text");
  }
  SUBCASE("a character that needs quotes") {
    CHECK(mistakes_in("listen:\n  password: @home\n") ==
          "shop.yaml:2:13: not YAML: a value can't begin with this character; quote the value");
  }
  SUBCASE("wrong indentation") {
    contains(mistakes_in("cluster: a\n  workers: 2\n"),
             "shop.yaml:2:10: not YAML: a \":\" where no key can stand");
    contains(mistakes_in("- a\ncluster: a\n"),
             "shop.yaml:2:1: this line belongs to nothing above it");
  }
  SUBCASE("two documents") {
    contains(mistakes_in(with("") + "---\ncluster: b\n"),
             "shop.yaml:6:1: a second YAML document begins here");
  }
  SUBCASE("bytes that are no text") {
    CHECK(mistakes_in(std::string("cluster: a\nx: \x04\n")) ==
          "shop.yaml:2:4: byte 0x04 is a control character; the file must be plain UTF-8 text");
    contains(mistakes_in("cluster: \xff\n"), "shop.yaml:1:10: byte 0xff is not UTF-8");
    contains(mistakes_in(std::string("\xff\xfe\x61\x00", 4)), "UTF-16");
  }
  SUBCASE("tags and aliases that mean nothing") {
    contains(mistakes_in("cluster: !env NAME\n"), "the tag \"!env\" means nothing here");
    contains(mistakes_in("cluster: *name\n"), "this alias refers to nothing above it");
    contains(mistakes_in("nodes: &n [*n]\n"), "this alias stands inside what it refers to");
  }
}

TEST_CASE("columns count characters, not bytes") {
  CHECK(mistakes_in(with("log: {\"é\": 1, levle: info}\n")) ==
        "shop.yaml:4:7: log.é: unknown key; known here: level, file\n"
        "shop.yaml:4:15: log.levle: unknown key; did you mean \"level\"?");
}

TEST_CASE("nesting and size are bounded before they can hurt") {
  contains(mistakes_in(std::string(100'000, '[')), "nested more than 64 levels deep");
  std::string dashes;
  for (int i = 0; i < 10'000; ++i) dashes += "- ";
  contains(mistakes_in(dashes), "nested more than 64 levels deep");
  contains(mistakes_in(std::string(1'000'001, ' ')), "1000001 bytes is too large");
  std::string wrong = with("");
  for (int i = 0; i < 500; ++i) wrong += "unknown-" + std::to_string(i) + ": 1\n";
  contains(mistakes_in(wrong), "… and 400 more mistakes below");
}

TEST_CASE("every slot has one owner, or no node lists any") {
  const auto two = [](const std::string& first, const std::string& second) {
    return with_nodes("  - {name: a, address: 'h:1', slots: " + first +
                      "}\n  - {name: b, address: 'h:2', slots: " + second + "}\n");
  };
  SUBCASE("a gap names the slots") {
    CHECK(mistakes_in(two("0-100", "102-16000")) ==
          "shop.yaml:5:3: nodes: nobody owns slots 101,16001-16383; together the nodes' slots must "
          "cover 0-16383, or no "
          "node may list any");
    contains(mistakes_in(two("0-16382", "[]")), "nobody owns slot 16383;");
  }
  SUBCASE("an overlap names the owner and what both claim") {
    CHECK(mistakes_in(two("0-9000", "8000-16383")) ==
          "shop.yaml:6:38: nodes[1].slots: \"8000-16383\" overlaps nodes[0] (\"a\": 0-9000) in "
          "8000-9000");
  }
  SUBCASE("the item of a list is pointed at") {
    CHECK(mistakes_in(two("0-9000", "[9001-16383, 17]")) ==
          "shop.yaml:6:51: nodes[1].slots: \"17\" overlaps nodes[0] (\"a\": 0-9000)");
    CHECK(mistakes_in(two("[0-9000, 8]", "9001-16383")) ==
          "shop.yaml:5:47: nodes[0].slots: \"8\" repeats slots of this list; name each slot once");
  }
  SUBCASE("what is no slot is no gap as well") {
    const std::string text = mistakes_in(two("0-9000", "9001-16384"));
    contains(text, "shop.yaml:6:38: nodes[1].slots: ");
    contains(text, "16384");
    CHECK(text.find('\n') == std::string::npos);
    CHECK(mistakes_in(two("0-9000", "9001-x")).starts_with("shop.yaml:6:38: nodes[1].slots: "));
    CHECK(mistakes_in(two("0-9000", "16383-9001")).starts_with("shop.yaml:6:38: nodes[1].slots: "));
  }
  SUBCASE("a node without slots beside others owns none") {
    const auto config = conf::parse(
        "shop.yaml",
        with_nodes(
            "  - {name: a, address: 'h:1', slots: 0-16383}\n  - {name: b, address: 'h:2'}\n"));
    REQUIRE(config.has_value());
    CHECK_FALSE(config->nodes[1].slots.has_value());
  }
  SUBCASE("a node of weight 0 owns none") {
    CHECK(mistakes_in(with_nodes("  - {name: a, address: 'h:1', weight: 0, slots: 0-16383}\n")) ==
          "shop.yaml:5:49: nodes[0].slots: a node of weight 0 owns no slots; give it a weight "
          "above 0, or no slots");
    CHECK(mistakes_in(with_nodes("  - {name: a, address: 'h:1', weight: 0, slots: []}\n"
                                 "  - {name: b, address: 'h:2', slots: 0-16383}\n")) == "");
    CHECK(mistakes_in(with_nodes("  - {name: a, address: 'h:1', weight: 0}\n")) ==
          "shop.yaml:5:39: nodes[0].weight: every node has weight 0, so that none can own slots; "
          "give one a weight "
          "above 0");
  }
}

TEST_CASE("names and addresses are not used twice") {
  contains(
      mistakes_in(with_nodes("  - {name: a, address: 'h:1'}\n  - {name: a, address: 'h:2'}\n")),
      "shop.yaml:6:12: nodes[1].name: \"a\" is the name of nodes[0] already");
  contains(
      mistakes_in(with_nodes("  - {name: a, address: 'h:1'}\n  - {name: b, address: 'h:1'}\n")),
      "shop.yaml:6:24: nodes[1].address: \"h:1\" is the address of nodes[0] (\"a\") already");
  contains(mistakes_in(with_nodes("  - {name: a, address: '127.0.0.1:6400'}\n")),
           "nodes[0].address: \"127.0.0.1:6400\" is this proxy's own listen.forward");
  contains(mistakes_in(with_nodes("  - {name: a b, address: 'h:1'}\n")),
           "shop.yaml:5:12: nodes[0].name: \"a b\" is not a name");
  SUBCASE("a port of another machine is not the proxy's own") {
    CHECK(mistakes_in("cluster: a\nlisten: {forward: '0.0.0.0:6379'}\nnodes: [{name: a, address: "
                      "'10.0.0.1:6379'}]\n") == "");
    contains(mistakes_in("cluster: a\nlisten: {forward: '0.0.0.0:6379'}\nnodes: [{name: a, "
                         "address: 'localhost:6379'}]\n"),
             "is this proxy's own listen.forward");
  }
}

TEST_CASE("listeners do not collide") {
  contains(
      mistakes_in(
          "cluster: a\nlisten: {forward: ['h:1', 'h:1']}\nnodes: [{name: a, address: 'h:2'}]\n"),
      "shop.yaml:2:27: listen.forward[1]: \"h:1\" is taken by listen.forward[0] (h:1)");
  contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: '127.0.0.1:6400'}\n")),
           "nodes[0].endpoint: \"127.0.0.1:6400\" is taken by listen.forward (127.0.0.1:6400)");
  contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: 'e:1'}\n"
                                  "  - {name: b, address: 'h:2', endpoint: 'e:1'}\n")),
           "shop.yaml:6:41: nodes[1].endpoint: \"e:1\" is taken by nodes[0].endpoint (e:1)");
  contains(mistakes_in(with_nodes(
               "  - {name: a, address: 'h:1', endpoint: '0.0.0.0:6400', announce: 'x:1'}\n")),
           "nodes[0].endpoint: \"0.0.0.0:6400\" is taken by listen.forward");
  contains(mistakes_in(with_listen("  admin_users: [ana]\n")), "should be NAME:PASSWORD");
  contains(mistakes_in(with_listen("  admin_users: [ana:x, ana:y]\n")),
           "listen.admin_users: \"ana\" is there twice");
  contains(mistakes_in(with_listen("  admin_password: x\n  admin_users: [ana:y, eva:x]\n")),
           "the password of \"eva\" is that of listen.admin_password too");
  contains(mistakes_in("approval: two_person\n" +
                       with_listen("  admin: 127.0.0.1:6499\n  admin_password: x\n")),
           "approval: two_person needs two passwords at a TCP admin port");
  CHECK(mistakes_in("approval: two_person\n" +
                    with_listen("  admin: 127.0.0.1:6499\n  admin_users: [ana:x, eva:y]\n"))
            .empty());
  contains(mistakes_in("approval: three_person\n" + with_listen("")), "one_person");
  contains(mistakes_in(with_listen("  admin: 127.0.0.1:6400\n  admin_password: p\n")),
           "listen.admin: \"127.0.0.1:6400\" is taken by listen.forward");
}

TEST_CASE("cluster clients can be told where to go") {
  SUBCASE("endpoint stands at all nodes or at none") {
    CHECK(
        mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: 'e:1'}\n"
                               "  - {name: b, address: 'h:2'}\n  - {name: c, address: 'h:3'}\n")) ==
        "shop.yaml:6:5: nodes[1].endpoint: is missing, but nodes[0] (\"a\") has one; endpoint "
        "stands at all nodes or at "
        "none; missing also at nodes[2] (\"c\")");
  }
  SUBCASE("no wildcard is announced") {
    contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: '0.0.0.0:6401'}\n")),
             "shop.yaml:5:41: nodes[0].endpoint: \"0.0.0.0:6401\" is no address that cluster "
             "clients can connect to; add "
             "announce");
    contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: '[::]:6401'}\n")),
             "add announce");
    CHECK(mistakes_in(with_nodes(
              "  - {name: a, address: 'h:1', endpoint: '0.0.0.0:6401', announce: 'x:1'}\n")) == "");
    contains(mistakes_in(with_nodes(
                 "  - {name: a, address: 'h:1', endpoint: 'e:1', announce: '0.0.0.0:1'}\n")),
             "nodes[0].announce: \"0.0.0.0:1\" is no address");
  }
  SUBCASE("nor a Unix socket") {
    contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: /run/a.sock}\n")),
             "nodes[0].endpoint: \"/run/a.sock\" is a Unix socket; cluster clients can only be "
             "sent to host:port");
  }
  SUBCASE("nor the same address for two nodes") {
    contains(
        mistakes_in(
            with_nodes("  - {name: a, address: 'h:1', endpoint: 'e:1', announce: 'x:1'}\n"
                       "  - {name: b, address: 'h:2', endpoint: 'e:2', announce: 'x:1'}\n")),
        "shop.yaml:6:58: nodes[1].announce: \"x:1\" is what nodes[0] (\"a\") announces already");
    contains(
        mistakes_in(with_nodes("  - {name: a, address: 'h:1', endpoint: 'e:1', announce: 'e:2'}\n"
                               "  - {name: b, address: 'h:2', endpoint: 'e:2'}\n")),
        "nodes[0].announce: \"e:2\" is what nodes[1] (\"b\") announces already");
  }
  SUBCASE("announce needs an endpoint, and so does a forward port that seeds cluster clients") {
    contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', announce: 'x:1'}\n")),
             "there is no endpoint to announce");
    contains(mistakes_in(with_listen("  forward_cluster: true\n")),
             "shop.yaml:4:20: listen.forward_cluster: cluster clients need an endpoint");
  }
}

TEST_CASE("addresses say what is wrong with them") {
  const auto address = [](const std::string& text) {
    const auto parsed = conf::parse_address(text);
    return parsed ? parsed->text() : parsed.error().message;
  };
  CHECK(address("127.0.0.1:6400") == "127.0.0.1:6400");
  CHECK(address("[::1]:6400") == "[::1]:6400");
  CHECK(address("::1:6400") == "[::1]:6400");
  CHECK(address("redis_1.example.net:1") == "redis_1.example.net:1");
  CHECK(address("/run/a.sock") == "/run/a.sock");
  CHECK(address("127.0.0.1").starts_with("\"127.0.0.1\" has no port; write host:port"));
  CHECK(address("[::1]").starts_with("\"[::1]\" has no port"));
  CHECK(address("h:0") == "\"h:0\": port \"0\" is not a number from 1 to 65535");
  CHECK(address("h:65536") == "\"h:65536\": port \"65536\" is not a number from 1 to 65535");
  CHECK(address("h:64k") == "\"h:64k\": port \"64k\" is not a number from 1 to 65535");
  CHECK(address("h:") == "\"h:\": port \"\" is not a number from 1 to 65535");
  CHECK(address("127.0.0.256:1") == "\"127.0.0.256:1\": \"127.0.0.256\" is not an IPv4 address");
  CHECK(address("::zz:1") == "\"::zz:1\": \"::zz\" is not an IPv6 address");
  CHECK(address(":6400") ==
        "\":6400\": the host is missing; for all interfaces write 0.0.0.0 or [::]");
  CHECK(address("*:6400") ==
        "\"*:6400\": \"*\" is not a host; for all interfaces write 0.0.0.0 or [::]");
  CHECK(address("${HOST}:1").find("are not expanded") != std::string::npos);
  CHECK(address("run/a.sock").find("absolute path") != std::string::npos);
  CHECK(address("/run/").find("names a folder") != std::string::npos);
  CHECK(address(std::string("/run/a\0b", 8)).find("holds a zero byte") != std::string::npos);
  CHECK(address("/" + std::string(107, 'a')).find("has at most 107") != std::string::npos);
}

TEST_CASE("numbers, sizes, durations and words are checked") {
  CHECK(mistakes_in(with("limits: {bulk: 20XB}\n")) ==
        "shop.yaml:4:16: limits.bulk: \"20XB\" is not a size: unknown unit \"XB\"; units are B, "
        "KB, MB, GB (powers of 10) "
        "and KiB, MiB, GiB (powers of 2)");
  contains(mistakes_in(with("limits: {bulk: 12}\n")), "\"12\" is too small; the least is 1KB");
  contains(mistakes_in(with("limits: {clients: 0}\n")),
           "limits.clients: \"0\" is not a whole number from 1 to");
  contains(mistakes_in(with("timeouts: {connect: 5}\n")), "\"5\" has no unit; write 5s or 5ms");
  contains(mistakes_in(with("timeouts: {connect: 0}\n")), "\"0\" must be more than 0");
  contains(mistakes_in(with("rebalance: {bandwidth: 20MB}\n")), "\"20MB\" is not a rate");
  contains(mistakes_in(with("rebalance: {bandwidth: 0MB/s}\n")), "\"0MB/s\" moves nothing");
  contains(mistakes_in(with("rebalance: {node_share: 10}\n")),
           "\"10\" is not a share: write whole percents from 1% to 100%, such as 10%");
  contains(mistakes_in(with("rebalance: {node_share: 0%}\n")), "\"0%\" is not a share");
  contains(mistakes_in(with("rebalance: {node_share: 101%}\n")), "\"101%\" is not a share");
  contains(mistakes_in(with("log: {file: \"/a\\0b\"}\n")), "holds a zero byte");
  contains(
      mistakes_in(with("workers: 0\n")),
      "shop.yaml:4:10: workers: \"0\" is neither auto (one per core) nor a number from 1 to 256");
  contains(mistakes_in(with("placement: rign\n")),
           "\"rign\" is not one of balanced, ring, rendezvous, modulo; did you mean \"ring\"?");
  contains(mistakes_in(with("log: {level: warning}\n")), "did you mean \"warn\"?");
  contains(mistakes_in(with("state_dir: state\n")), "state_dir: \"state\" is not an absolute path");
  contains(mistakes_in(with_listen("  forward_cluster: yes\n")),
           "\"yes\" is neither true nor false");
  for (const std::string weight : {"-1", "nan", "inf", "2x", "1e9", "0x10"}) {
    contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', weight: " + weight + "}\n")),
             "shop.yaml:5:39: nodes[0].weight: \"" + weight + "\" is not a weight");
  }
}

TEST_CASE("passwords are given once, and where they are needed") {
  contains(mistakes_in(with_listen("  password: a\n  password_file: /nowhere\n")),
           "shop.yaml:5:18: listen.password_file: \"listen.password\" is given as well (line 4); "
           "give one of the two");
  contains(mistakes_in(with_listen("  password: \"\"\n")),
           "shop.yaml:4:13: listen.password: is empty");
  contains(mistakes_in(with_listen("  admin: 127.0.0.1:6499\n")),
           "shop.yaml:4:10: listen.admin: \"127.0.0.1:6499\" can be reached by anyone on the "
           "network; it needs");
  contains(mistakes_in(with_nodes("  - {name: a, address: 'h:1', username: u}\n")),
           "shop.yaml:5:41: nodes[0].username: a user needs a password too");
}

TEST_CASE("password files are read from the configuration's folder") {
  const TempDir dir;
  dir.write("good", "s3cret\n");
  const std::string file = (dir.path / "shop.yaml").string();
  SUBCASE("one line, without its end") {
    const auto config = conf::parse(file, with_listen("  password_file: good\n"));
    REQUIRE_MESSAGE(config.has_value(), config.error().text());
    CHECK(config->listen.password == "s3cret");
    CHECK(config->listen.password_file == "good");
  }
  SUBCASE("an absolute path stays") {
    const auto config = conf::parse(
        "shop.yaml", with_listen("  password_file: " + (dir.path / "good").string() + "\n"));
    REQUIRE(config.has_value());
    CHECK(config->listen.password == "s3cret");
  }
  SUBCASE("what can't be read is a mistake") {
    dir.write("two", "a\nb\n");
    dir.write("empty", "\n");
    REQUIRE(::mkfifo((dir.path / "pipe").c_str(), 0600) == 0);
    contains(mistakes_in(with_listen("  password_file: none\n"), file),
             "none\" can't be read: No such file or directory");
    contains(mistakes_in(with_listen("  password_file: two\n"), file),
             "two\" must hold one line: the password");
    contains(mistakes_in(with_listen("  password_file: empty\n"), file),
             "empty\" must hold one line: the password");
    contains(mistakes_in(with_listen("  password_file: pipe\n"), file),
             "pipe\" can't be read: it is not a regular file");
    contains(mistakes_in(with_listen("  password_file: .\n"), file),
             "can't be read: it is a folder");
  }
}

TEST_CASE("a file that can't be read is said so, without a place") {
  const auto config = conf::load("/nowhere/shop.yaml");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().text() == "/nowhere/shop.yaml: can't be read: No such file or directory");
}

TEST_CASE("aliases stand for what they refer to") {
  const auto config =
      conf::parse("shop.yaml", with_nodes("  - {name: a, address: 'h:1', password: &p secret}\n"
                                          "  - {name: b, address: 'h:2', password: *p}\n"));
  REQUIRE_MESSAGE(config.has_value(), config.error().text());
  CHECK(config->nodes[1].password == "secret");
}

TEST_CASE("any bytes become a configuration or mistakes, never anything worse") {
  const std::string seed_text = with("limits: {bulk: 1MB}\nlog:\n  level: &x 'info'\n") + "# end\n";
  std::uint32_t seed = 12345;
  const auto next = [&seed] { return seed = seed * 1664525U + 1013904223U, seed >> 8U; };
  constexpr std::string_view kBytes = "[]{}:,-?&*!|>'\"%@`#\n \t\\~<=a0\xc3\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed_text;
    for (std::uint32_t edits = next() % 6 + 1; edits > 0; --edits) {
      const std::size_t at = next() % text.size();
      switch (next() % 3) {
        case 0:
          text[at] = kBytes[next() % kBytes.size()];
          break;
        case 1:
          text.insert(at, 1, kBytes[next() % kBytes.size()]);
          break;
        default:
          text.erase(at, next() % 20);
          break;
      }
      if (text.empty()) text = " ";
    }
    CAPTURE(text);
    const auto config = conf::parse("shop.yaml", text);
    if (!config) {
      REQUIRE_FALSE(config.error().list.empty());
      for (const conf::Mistake& mistake : config.error().list) REQUIRE(mistake.line > 0);
    }
  }
}
