#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "proxy/control/node_finding.h"

using namespace proxy::control;

namespace {

NodeFinding after_info(const std::string& info) {
  NodeFinding finding;
  take_info(finding, Reply::string(info));
  return finding;
}

Reply config(const std::string& name, const std::string& value) {
  return Reply::array({Reply::string(name), Reply::string(value)});
}

NeededRight right(const std::string& name, bool on_keys = false) {
  return {.name = name, .command = {}, .on_keys = on_keys, .is_vital = true};
}

}  // namespace

TEST_CASE("INFO tells what keeps a node's data, and how well") {
  CHECK(!after_info("aof_enabled:0\r\nconnected_slaves:0\r\n").is_persistent);
  CHECK(after_info("aof_enabled:1\r\n").is_persistent);
  const NodeFinding finding = after_info(
      "connected_slaves:2\r\nslave0:ip=10.0.0.9,port=6379,state=online,offset=7,lag=12\r\n"
      "slave1:ip=10.0.0.8,port=6379,state=wait_bgsave,offset=0,lag=0\r\n"
      "aof_last_write_status:err\r\nrdb_last_bgsave_status:ok\r\n");
  CHECK(finding.is_persistent);
  CHECK(finding.late_replicas ==
        std::vector<std::string>{"10.0.0.9:6379 is 12 s behind",
                                 "10.0.0.8:6379 is not in step (wait_bgsave)"});
  CHECK(finding.persistence_problems ==
        std::vector<std::string>{"its last write to the AOF failed"});
}

TEST_CASE("databases other than 0 with keys are named") {
  CHECK(after_info("db0:keys=1,expires=0\r\n").other_databases.empty());
  CHECK(after_info("db0:keys=1\r\ndb3:keys=2\r\ndb11:keys=1\r\n").other_databases ==
        std::vector<std::uint64_t>{3, 11});
}

TEST_CASE("a clock is as far ahead as the middle of the question says, give or take") {
  NodeFinding finding;
  take_time(finding, Reply::array({Reply::string("1000"), Reply::string("500000")}), 1'000'300,
            1'000'320);
  CHECK(finding.clock_ms_ahead == 190);
  CHECK(finding.clock_ms_doubt == 10);
}

TEST_CASE("CONFIG tells the limits of normal clients") {
  NodeFinding finding;
  const std::string others = " slave 268435456 67108864 60 pubsub 33554432 8388608 60";
  take_config(finding, config("client-output-buffer-limit", "normal 0 0 0" + others));
  CHECK(finding.reply_limit == 0);
  take_config(finding, config("client-output-buffer-limit", "normal 1000 0 0" + others));
  CHECK(finding.reply_limit == 1000);
  take_config(finding, config("client-output-buffer-limit", "normal 1000 500 60" + others));
  CHECK(finding.reply_limit == 500);
  take_config(finding, config("maxmemory-clients", "0"));
  CHECK(!finding.evicts_clients);
  take_config(finding, config("maxmemory-clients", "5%"));
  CHECK(finding.evicts_clients);
  take_config(finding, Reply::error("NOPERM no"));
  CHECK(finding.evicts_clients);
}

TEST_CASE("a payload's version is what its end says, else what the server's version means") {
  NodeFinding finding;
  finding.facts.version = "7.0.15";
  CHECK(payload_version_of(finding) == 10U);
  finding.facts.version = "6.2.14";
  CHECK(payload_version_of(finding) == 9U);
  finding.facts.version = "9.1";
  CHECK(!payload_version_of(finding));
  take_payload(finding, Reply::nil());
  CHECK(!payload_version_of(finding));
  take_payload(finding, Reply::string(std::string("value") + '\x0c' + '\0' + "checksum"));
  CHECK(payload_version_of(finding) == 12U);
}

TEST_CASE("rights that are denied are told apart from keys that are denied") {
  Rights rights;
  take_dry_run(rights, right("scan"), Reply::status("OK"));
  CHECK(rights == Rights{.are_known = true});
  take_dry_run(rights, right("restore"),
               Reply::string("This user has no permissions to run the 'restore' command"));
  take_dry_run(rights, right("dump", true),
               Reply::string("This user has no permissions to access the 'k' key"));
  CHECK(rights.denied == std::vector<std::string>{"restore"});
  CHECK(rights.denies_keys);
  CHECK(!rights.denies_own_keys);
  take_trial(rights, right("get"),
             Reply::error("NOPERM this user has no permissions to access one of the keys used as "
                          "arguments"));
  CHECK(rights.denies_own_keys);
  take_trial(rights, right("unlink"), Reply::error("ERR unknown command 'UNLINK'"));
  CHECK(rights.missing == std::vector<std::string>{"unlink"});
  CHECK(acl_line("proxy", rights) == "ACL SETUSER proxy +restore ~*");
  rights.denies_keys = false;
  CHECK(acl_line("proxy", rights) == "ACL SETUSER proxy +restore ~__slotproxy:*");
}

TEST_CASE("any other error of a trial means that the right is there") {
  Rights rights;
  take_trial(rights, right("restore", true),
             Reply::error("ERR DUMP payload version or checksum are wrong"));
  take_trial(rights, right("bgsave"), Reply::error("ERR syntax error"));
  CHECK(rights == Rights{.are_known = true});
}

TEST_CASE("only those that give slots need to dump, only those that take them to restore") {
  const auto names = [](const PlanRole& role) {
    std::string all;
    for (const NeededRight& needed : needed_rights(role, true)) all += " " + needed.name;
    return all + " ";
  };
  const std::string source = names({.gives = true});
  const std::string target = names({.takes = true});
  CHECK(source.find(" dump ") != std::string::npos);
  CHECK(source.find(" restore ") == std::string::npos);
  CHECK(target.find(" dump ") == std::string::npos);
  CHECK(target.find(" restore ") != std::string::npos);
  CHECK(target.find("function|restore") == std::string::npos);
  CHECK(names({.takes = true, .joins = true}).find("function|restore") != std::string::npos);
}
