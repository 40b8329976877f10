#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/control/key_sampler.h"
#include "slots/key_slot.h"
#include "tests/support/fake_node.h"
#include "tests/support/test_loop.h"

using namespace proxy::control;
using conf::Milliseconds;
using tests::FakeNode;
using tests::TestLoop;

namespace {

constexpr Milliseconds kLong{5000};

// A node with these keys, each as large as its name says: "k:100" has 100 bytes.
std::optional<std::string> answer(const std::vector<std::string>& keys, const Command& command) {
  if (command[0] == "SCAN") {
    std::vector<Reply> names{Reply::string("__slotproxy:identity")};
    for (const std::string& key : keys) names.push_back(Reply::string(key));
    return encode_resp2(Reply::array({Reply::string("0"), Reply::array(std::move(names))}));
  }
  const std::string& key = command.back();
  if (command[0] == "MEMORY")
    return encode_resp2(Reply::integer_of(std::stoi(key.substr(key.find(':') + 1))));
  if (command[0] == "TYPE")
    return encode_resp2(Reply::status(key.starts_with("s") ? "stream" : "string"));
  if (command[0] == "XINFO") {
    return encode_resp2(Reply::array({Reply::string("length"), Reply::integer_of(3),
                                      Reply::string("groups"), Reply::integer_of(2)}));
  }
  return std::nullopt;
}

AskedNode asked(const std::string& name, const FakeNode& node) {
  return {.name = name, .address = node.address(), .username = {}, .password = {}};
}

}  // namespace

TEST_CASE("a sample names the largest keys of the slots that move, and streams with groups") {
  TestLoop loop;
  FakeNode node(loop.get());
  const std::vector<std::string> keys{"k:100", "k:300", "s:200", "k:5", "k:6", "k:7", "k:8", "k:9"};
  node.on_command = [&](const Command& command) { return answer(keys, command); };
  slots::SlotSet slots(slots::SlotRange{0, slots::kSlotCount - 1});
  slots.remove(slots::slot_of_key("k:300"));
  std::optional<KeySamples> samples;
  KeySampler sampler(loop.get(), {{asked("a", node), slots}}, "test", kLong, kLong, kLong,
                     [&](KeySamples found) { samples = std::move(found); });
  REQUIRE(loop.run_until([&] { return samples.has_value(); }));
  const KeySample& sample = samples->at("a");
  CHECK(sample.is_whole);
  CHECK(sample.keys == 7);
  CHECK(sample.bytes == 335);
  REQUIRE(sample.largest.size() == KeySample::kNamedMax);
  CHECK(sample.largest[0].name == "s:200");
  CHECK(sample.largest[1].name == "k:100");
  CHECK(sample.largest[2].name == "k:9");
  REQUIRE(sample.streams.size() == 1);
  CHECK(sample.streams[0].groups == 2);
  CHECK(sample.streams_with_groups == 1);
}

TEST_CASE("a node that can't be asked has no sample") {
  TestLoop loop;
  std::optional<KeySamples> samples;
  const AskedNode nowhere{.name = "a",
                          .address = {.host = {}, .port = 0, .path = "/nowhere/redis.sock"},
                          .username = {},
                          .password = {}};
  KeySampler sampler(loop.get(), {{nowhere, slots::SlotSet(slots::SlotRange{0, 9})}}, "test", kLong,
                     kLong, kLong, [&](KeySamples found) { samples = std::move(found); });
  REQUIRE(loop.run_until([&] { return samples.has_value(); }));
  CHECK(samples->empty());
}
