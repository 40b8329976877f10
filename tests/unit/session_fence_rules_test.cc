#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include "proxy/session/fence_rules.h"
#include "slots/key_slot.h"

using proxy::Fence;
using proxy::resp::CommandTable;
using proxy::session::keeps_back;

namespace {

// A fence of the slot of "in"; "out" is not in it.
bool is_kept(const std::vector<std::string_view>& args) {
  Fence fence{1, {}, "a", "b"};
  fence.slots.add(slots::slot_of_key("in"));
  return keeps_back(fence, *CommandTable::built_in(), args);
}

}  // namespace

TEST_CASE("a fence keeps back whatever names a key of its slots") {
  CHECK(is_kept({"GET", "in"}));
  CHECK(is_kept({"set", "{in}x", "1"}));
  CHECK_FALSE(is_kept({"GET", "out"}));
  SUBCASE("wherever the key stands") {
    CHECK(is_kept({"MSET", "out", "1", "in", "2"}));
    CHECK_FALSE(is_kept({"MSET", "out", "in", "out2", "in"}));
    CHECK(is_kept({"EVAL", "return 1", "1", "in"}));
    CHECK_FALSE(is_kept({"EVAL", "return 1", "1", "out", "in"}));
    CHECK(is_kept({"EVALSHA_RO", "f", "1", "in"}));
    CHECK(is_kept({"FCALL", "f", "2", "out", "in"}));
    CHECK(is_kept({"SORT", "out", "STORE", "in"}));
    CHECK(is_kept({"COPY", "out", "in"}));
    CHECK(is_kept({"XREAD", "COUNT", "1", "STREAMS", "in", "0"}));
    CHECK(is_kept({"XREADGROUP", "GROUP", "g", "c", "STREAMS", "in", ">"}));
    CHECK(is_kept({"OBJECT", "ENCODING", "in"}));
    CHECK(is_kept({"ZUNIONSTORE", "in", "1", "out"}));
  }
}

TEST_CASE("a fence keeps back what names no key and may write any") {
  for (std::string_view name : {"FLUSHALL", "FLUSHDB"}) CHECK(is_kept({name}));
  CHECK(is_kept({"EVAL", "return 1", "0"}));
  CHECK(is_kept({"EVALSHA", "f", "0"}));
  CHECK(is_kept({"FCALL", "f", "0"}));
  SUBCASE("but not what only reads") {
    for (std::string_view name : {"PING", "DBSIZE", "RANDOMKEY", "INFO", "TIME"})
      CHECK_FALSE(is_kept({name}));
    CHECK_FALSE(is_kept({"EVAL_RO", "return 1", "0"}));
    CHECK_FALSE(is_kept({"FCALL_RO", "f", "0"}));
    CHECK_FALSE(is_kept({"SCAN", "0"}));
    CHECK_FALSE(is_kept({"KEYS", "*"}));
    CHECK_FALSE(is_kept({"CLIENT", "LIST"}));
    CHECK_FALSE(is_kept({"SCRIPT", "LOAD", "return 1"}));
  }
  SUBCASE("nor what only the nodes know, if they say that it reads") {
    auto learned = CommandTable::with_learned(
        *CommandTable::built_in(),
        "*2\r\n*6\r\n$9\r\nmod.write\r\n:-1\r\n*1\r\n+write\r\n:0\r\n:0\r\n:0\r\n"
        "*6\r\n$8\r\nmod.read\r\n:-1\r\n*1\r\n+readonly\r\n:0\r\n:0\r\n:0\r\n");
    REQUIRE(learned.has_value());
    const std::vector<std::string_view> write{"mod.write"};
    const std::vector<std::string_view> read{"mod.read"};
    CHECK(keeps_back(Fence{1, {}, "a", "b"}, **learned, write));
    CHECK_FALSE(keeps_back(Fence{1, {}, "a", "b"}, **learned, read));
  }
}

TEST_CASE("a fence lets wrong requests go on to their error") {
  CHECK_FALSE(is_kept({}));
  CHECK_FALSE(is_kept({"NOSUCH", "in"}));
  CHECK_FALSE(is_kept({"GET"}));
  CHECK_FALSE(is_kept({"OBJECT", "NOSUCH", "in"}));
  CHECK_FALSE(is_kept({"EVAL", "return 1", "many", "in"}));
}
