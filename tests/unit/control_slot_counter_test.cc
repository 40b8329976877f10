#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/control/slot_counter.h"
#include "slots/key_slot.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

using conf::Milliseconds;
using proxy::control::Command;
using proxy::control::NodeClient;
using proxy::control::NodeTally;
using proxy::control::Reply;
using proxy::control::SlotCounter;
using slots::SlotCensus;
using tests::FakeNode;
using tests::TestLoop;

namespace {

constexpr Milliseconds kLong{5000};

std::string key(int i) { return "k:" + std::to_string(i); }

// A node with keys k:0 .. k:<count - 1>, of 100 bytes each.
struct Node {
  explicit Node(int count, bool tells_sizes = true) : node(loop.get()), client(loop.get()) {
    node.on_command = [this, count, tells_sizes](const Command& c) -> std::optional<std::string> {
      if (c[0] == "INFO") {
        std::string info = "# Keyspace\r\ndb0:keys=" + std::to_string(count + 1) + ",expires=0\r\n";
        if (keys_of_db3 > 0) info += "db3:keys=" + std::to_string(keys_of_db3) + ",expires=0\r\n";
        return encode_resp2(Reply::string(info));
      }
      if (c[0] == "SELECT") {
        database = c[1];
        return encode_resp2(Reply::status("OK"));
      }
      if (c[0] == "SCAN" && database == "3") {
        std::vector<Reply> keys;
        for (int i = 0; i < keys_of_db3; ++i) keys.push_back(Reply::string(key(i)));
        return encode_resp2(Reply::array({Reply::string("0"), Reply::array(std::move(keys))}));
      }
      if (c[0] == "MEMORY") {
        measured.insert(c[2]);
        return tells_sizes ? encode_resp2(Reply::integer_of(100)) : "-NOPERM no MEMORY\r\n";
      }
      if (c[0] != "SCAN") return std::nullopt;
      const int from = std::stoi(c[1]);
      std::vector<Reply> keys{Reply::string("__slotproxy:identity")};
      for (int i = from; i < std::min(count, from + 1000); ++i)
        keys.push_back(Reply::string(key(i)));
      const int next = from + 1000 < count ? from + 1000 : 0;
      return encode_resp2(
          Reply::array({Reply::string(std::to_string(next)), Reply::array(std::move(keys))}));
    };
    bool connected = false;
    client.connect(node.address(), kLong,
                   [&](const slots::Status& status) { connected = status.has_value(); });
    REQUIRE(loop.run_until([&] { return connected; }));
  }

  SlotCensus count(const slots::SlotSet& owned, Milliseconds patience = kLong) {
    std::optional<slots::Result<NodeTally>> result;
    SlotCounter counter(loop.get(), client, owned, kLong, patience,
                        [&](slots::Result<NodeTally> tally) { result = std::move(tally); });
    // However slow the machine and its sanitizers.
    REQUIRE(loop.run_until([&] { return result.has_value(); }, std::chrono::minutes(2)));
    REQUIRE(result->has_value());
    SlotCensus census;
    (*result)->tally->add_to(census, (*result)->is_whole, (*result)->all_keys, 70);
    return census;
  }

  TestLoop loop;
  std::set<std::string> measured;
  std::string database = "0";
  int keys_of_db3 = 0;
  FakeNode node;
  NodeClient client;
};

double sum(const slots::SlotLoads& loads) {
  double all = 0;
  for (const double load : loads) all += load;
  return all;
}

const slots::SlotSet kAll(slots::SlotRange{0, slots::kSlotCount - 1});

}  // namespace

TEST_CASE("every key of a node is counted for its slot, and measured when there are few") {
  Node node(2500);
  const SlotCensus census = node.count(kAll);
  CHECK(census.is_exact);
  CHECK(sum(census.keys) == 2500);
  CHECK(sum(census.bytes) == 250'000);
  double of_slot = 0;
  for (int i = 0; i < 2500; ++i) of_slot += slots::slot_of_key(key(i)) == slots::slot_of_key("k:7");
  CHECK(census.keys[slots::slot_of_key("k:7")] == of_slot);
  CHECK(node.measured.size() == 2500);
}

TEST_CASE("keys of all databases count") {
  Node node(100);
  node.keys_of_db3 = 20;
  const SlotCensus census = node.count(kAll);
  CHECK(census.is_exact);
  CHECK(sum(census.keys) == 120);
}

TEST_CASE("keys of slots that the node does not own are no business of its count") {
  Node node(100);
  const slots::SlotId slot = slots::slot_of_key("k:7");
  const SlotCensus census = node.count(slots::SlotSet(slots::SlotRange{slot, slot}));
  CHECK(sum(census.keys) >= 1);
  CHECK(sum(census.keys) < 10);
  CHECK(census.counted.size() == 1);
}

TEST_CASE("of many keys some are measured, always the same") {
  Node node(40'000);
  const SlotCensus census = node.count(kAll, Milliseconds(60'000));
  CHECK(census.is_exact);
  CHECK(node.measured.size() > 15'000);
  CHECK(node.measured.size() < 25'000);
  const std::set<std::string> first = std::exchange(node.measured, {});
  (void)node.count(kAll, Milliseconds(60'000));
  CHECK(node.measured == first);
}

TEST_CASE("what can't be counted in time is estimated from what was seen") {
  Node node(5000);
  const SlotCensus census = node.count(kAll, Milliseconds(0));
  CHECK_FALSE(census.is_exact);
  CHECK(sum(census.keys) == doctest::Approx(5001).epsilon(0.01));
}

TEST_CASE("a node that does not tell sizes is taken at its average") {
  Node node(100, /*tells_sizes=*/false);
  const SlotCensus census = node.count(kAll);
  CHECK(sum(census.keys) == 100);
  CHECK(sum(census.bytes) == 7000);
}
