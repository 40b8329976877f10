#include <doctest/doctest.h>

#include <string_view>

#include "proxy/session/script_reads.h"

TEST_CASE("a script reads unless every call of it names a command that does not") {
  auto reads = [](std::string_view source) {
    return proxy::session::may_read(*proxy::resp::CommandTable::built_in(), source);
  };
  CHECK(!reads("return 1"));
  CHECK(!reads("redis.call('set', KEYS[1], ARGV[1])"));
  CHECK(!reads("return redis . pcall ( \"PING\" )"));
  CHECK(!reads("for _, key in pairs(KEYS) do redis.call('del', key) end"));

  CHECK(reads("return redis.call('get', KEYS[1])"));
  CHECK(reads("redis.call('set', KEYS[1], 1) return redis.call('GET', KEYS[1])"));
  CHECK(reads("redis.call('nosuch', KEYS[1])"));
  // Names that are put together, and functions that go by other names.
  CHECK(reads("redis.call('ge' .. 't', KEYS[1])"));
  CHECK(reads("redis.call('\\103et', KEYS[1])"));
  CHECK(reads("redis.call(ARGV[1], KEYS[1])"));
  CHECK(reads("redis.call 'get'"));
  CHECK(reads("redis['call']('get', KEYS[1])"));
  CHECK(reads("local call = redis.call return call('get', KEYS[1])"));
  CHECK(reads("local r = redis return r.call('get', KEYS[1])"));
  CHECK(reads("return _G['re' .. 'dis'].call('get', KEYS[1])"));
  CHECK(reads("return loadstring(ARGV[1])()"));
}
