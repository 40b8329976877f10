#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "proxy/routing_table.h"
#include "proxy/session/script_cache.h"

namespace {

using proxy::session::parse_script_id;
using proxy::session::script_id_of;
using proxy::session::ScriptCache;
using proxy::session::ScriptHost;
using proxy::session::ScriptId;
using proxy::session::WorkerScripts;
using Standing = proxy::session::WorkerScripts::Standing;

constexpr std::uint64_t kPlenty = 64'000'000;
constexpr std::string_view kSource = "return 1";
constexpr std::string_view kSha1 =
    "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";  // What SCRIPT LOAD answers.

ScriptHost node(std::string_view name, std::uint64_t connections) { return {name, connections}; }

TEST_CASE("a script's name is the SHA-1 that Redis gives it, read in either case") {
  CHECK(parse_script_id(kSha1).value() == script_id_of(kSource));
  CHECK(parse_script_id("da39a3ee5e6b4b0d3255bfef95601890afd80709").value() == script_id_of(""));
  CHECK(parse_script_id("E0E1F9FABFC9D4800C877A703B823AC0578FF8DB").value() ==
        script_id_of(kSource));
}

TEST_CASE("what is not 40 hex digits is no script's name") {
  CHECK_FALSE(parse_script_id("").has_value());
  CHECK_FALSE(parse_script_id(kSha1.substr(1)).has_value());
  CHECK_FALSE(parse_script_id(std::string(kSha1) + "0").has_value());
  CHECK_FALSE(parse_script_id("g0e1f9fabfc9d4800c877a703b823ac0578ff8db").has_value());
}

TEST_CASE("a script seen in an EVAL of one worker can be given to nodes by all") {
  ScriptCache cache(2);
  cache.of(0).remember(kSource, kPlenty);
  auto found = cache.of(1).find(script_id_of(kSource));
  REQUIRE(found != nullptr);
  CHECK(*found == kSource);
  CHECK(cache.count() == 1);
}

TEST_CASE("a script seen in an EVAL counts as compiled only when a node has said so") {
  ScriptCache cache(1);
  ScriptId id = script_id_of(kSource);
  CHECK_FALSE(cache.knowledge_of(id).is_remembered);
  cache.of(0).remember(kSource, kPlenty);
  CHECK(cache.knowledge_of(id).is_remembered);
  CHECK_FALSE(cache.knowledge_of(id).is_compiled);
  CHECK(cache.remember(id, kSource, kPlenty, true));
  CHECK(cache.knowledge_of(id).is_compiled);
  CHECK(cache.count() == 1);
}

TEST_CASE("a script is given to a node once per connection to it") {
  ScriptCache cache(1);
  WorkerScripts& scripts = cache.of(0);
  ScriptId id = script_id_of(kSource);
  ScriptHost a = node("a", 1);
  scripts.remember(kSource, kPlenty);
  CHECK(scripts.standing(id, 0, a) == Standing::Missing);
  scripts.note_loaded(id, 0, a);
  CHECK(scripts.standing(id, 0, a) == Standing::Loaded);

  SUBCASE("another node does not have it") {
    CHECK(scripts.standing(id, 1, node("b", 1)) == Standing::Missing);
  }
  SUBCASE("a restarted node has lost it") {
    CHECK(scripts.standing(id, 0, node("a", 2)) == Standing::Missing);
  }
  SUBCASE("a node that took another's place in the map does not have it") {
    CHECK(scripts.standing(id, 0, node("b", 1)) == Standing::Missing);
  }
}

TEST_CASE("a script that nobody has shown is unknown, until somebody shows it to any worker") {
  ScriptCache cache(2);
  ScriptId id = script_id_of(kSource);
  ScriptHost a = node("a", 1);
  CHECK(cache.of(0).standing(id, 0, a) == Standing::Unknown);
  CHECK(cache.of(0).standing(id, 0, a) == Standing::Unknown);
  cache.of(1).remember(kSource, kPlenty);
  CHECK(cache.of(0).standing(id, 0, a) == Standing::Missing);
}

TEST_CASE("after SCRIPT FLUSH no worker knows a script, and a new EVAL is remembered again") {
  ScriptCache cache(2);
  ScriptId id = script_id_of(kSource);
  ScriptHost a = node("a", 1);
  cache.of(0).remember(kSource, kPlenty);
  cache.of(0).note_loaded(id, 0, a);
  cache.of(1).note_loaded(id, 0, a);
  std::uint64_t flushes = cache.flushes();
  cache.forget_all();
  CHECK(cache.flushes() != flushes);
  CHECK(cache.of(0).standing(id, 0, a) == Standing::Unknown);
  CHECK(cache.of(1).standing(id, 0, a) == Standing::Unknown);
  CHECK(cache.of(0).find(id) == nullptr);
  CHECK(cache.bytes() == 0);
  cache.of(0).remember(kSource, kPlenty);
  CHECK(cache.of(0).standing(id, 0, a) == Standing::Missing);
}

TEST_CASE("sources beyond the limit push out the one that was not used for longest") {
  ScriptCache cache(1);
  std::string first(1000, 'a');
  std::string second(1000, 'b');
  std::string third(1000, 'c');
  constexpr std::uint64_t kTwo = 2500;
  cache.of(0).remember(first, kTwo);
  cache.of(0).remember(second, kTwo);
  REQUIRE(cache.find(script_id_of(first)) != nullptr);  // A use.
  cache.of(0).remember(third, kTwo);
  CHECK(cache.find(script_id_of(first)) != nullptr);
  CHECK(cache.find(script_id_of(second)) == nullptr);
  CHECK(cache.find(script_id_of(third)) != nullptr);
  CHECK(cache.bytes() <= kTwo);
}

TEST_CASE("a script that was pushed out is remembered again when it comes by again") {
  ScriptCache cache(1);
  std::string first(1000, 'a');
  std::string second(1000, 'b');
  constexpr std::uint64_t kOne = 1500;
  cache.of(0).remember(first, kOne);
  cache.of(0).remember(second, kOne);
  REQUIRE(cache.find(script_id_of(first)) == nullptr);
  cache.of(0).remember(first, kOne);
  CHECK(cache.find(script_id_of(first)) != nullptr);
}

TEST_CASE("a source larger than the limit is not remembered and pushes nothing out") {
  ScriptCache cache(1);
  cache.of(0).remember(kSource, 1000);
  std::string large(2000, 'x');
  CHECK_FALSE(cache.remember(script_id_of(large), large, 1000, true));
  CHECK(cache.find(script_id_of(large)) == nullptr);
  CHECK(cache.find(script_id_of(kSource)) != nullptr);
}

TEST_CASE("many different scripts stay within the limit") {
  ScriptCache cache(1);
  constexpr std::uint64_t kLimit = 100'000;
  for (int i = 0; i < 2000; ++i) cache.of(0).remember("return " + std::to_string(i), kLimit);
  CHECK(cache.bytes() <= kLimit);
  CHECK(cache.count() > 100);
  CHECK(cache.find(script_id_of("return 1999")) != nullptr);
  CHECK(cache.find(script_id_of("return 0")) == nullptr);
}

TEST_CASE("a script that is used all the time is not pushed out by ones used once") {
  ScriptCache cache(1);
  WorkerScripts& scripts = cache.of(0);
  ScriptId id = script_id_of(kSource);
  ScriptHost a = node("a", 1);
  constexpr std::uint64_t kLimit = 100'000;
  scripts.remember(kSource, kLimit);
  scripts.note_loaded(id, 0, a);
  for (int i = 0; i < 2000; ++i) {
    for (int use = 0; use < 20; ++use) REQUIRE(scripts.standing(id, 0, a) == Standing::Loaded);
    scripts.remember("return " + std::to_string(i) + " + 1", kLimit);
  }
  CHECK(cache.find(id) != nullptr);
}

TEST_CASE("workers may remember, look up and flush at the same time") {
  ScriptCache cache(4);
  std::vector<std::thread> workers;
  for (unsigned w = 0; w < 4; ++w) {
    workers.emplace_back([&cache, w] {
      ScriptHost a = node("a", 1);
      for (int i = 0; i < 3000; ++i) {
        std::string source = "return " + std::to_string(i % 40);
        ScriptId id = script_id_of(source);
        cache.of(w).remember(source, 5000);
        if (cache.of(w).standing(id, 0, a) == Standing::Missing) cache.of(w).note_loaded(id, 0, a);
        if (auto found = cache.of(w).find(id); found != nullptr && *found != source) std::abort();
        if (i % 500 == 499) cache.forget_all();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  CHECK(cache.bytes() <= 5000);
}

}  // namespace
