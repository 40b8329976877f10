// Keys in pieces against real redis-servers: every type comes out as it was.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "proxy/mover/pieces.h"
#include "proxy/mover/stream_groups.h"
#include "tests/support/carrier_rig.h"

namespace proxy::mover {
namespace {

using tests::kSource;
using tests::kTarget;
using Fate = PieceRead::Fate;

const std::string kHidden = piece_key(7, "a");

struct Rig : tests::CarrierRig {
  std::size_t pieces = 0;
  PieceRead first;

  // Between two pieces, `between` is called.
  Published copy(
      const std::string& key, bool is_any_size = true,
      const std::function<void()>& between = [] {}) {
    PiecePlace place;
    pieces = 0;
    for (bool is_last = false; !is_last;) {
      PieceRead piece = act<PieceRead>(ReadPiece{key, place, is_any_size});
      REQUIRE(piece.fate == Fate::Ok);
      if (pieces == 0) first = piece;
      is_last = piece.is_last;
      place = piece.next;
      if (!piece.commands.empty()) {
        const PieceWritten written = act<PieceWritten>(WritePiece{piece.commands, pieces++ == 0});
        CHECK(written.text.empty());
        REQUIRE(written.fate == WriteFate::Ok);
      }
      between();
    }
    return act<Published>(Publish{key, place.type});
  }
  GroupsRenewed renew(std::int64_t since_ms, std::uint64_t pending_max = 1'000'000) {
    return act<GroupsRenewed>(RenewGroups{"s", since_ms, pending_max});
  }
  void lua(std::size_t server, const std::string& script) {
    const std::string reply = ask(server, {"EVAL", script, "0"});
    REQUIRE_FALSE(reply.starts_with("-"));
  }
  // The same answer from both sides.
  void same(std::initializer_list<std::string_view> command) {
    const std::string at_source = ask(kSource, command);
    REQUIRE_FALSE(at_source.starts_with("-"));
    CHECK(ask(kTarget, command) == at_source);
  }
  void same_stream() {
    same({"XINFO", "STREAM", "s"});
    same({"XRANGE", "s", "-", "+"});
    same({"XINFO", "GROUPS", "s"});
    for (const char* group : {"g", "h", "new"}) {
      const std::string at_source = ask(kSource, {"XPENDING", "s", group, "-", "+", "100000"});
      const std::string at_target = ask(kTarget, {"XPENDING", "s", group, "-", "+", "100000"});
      CHECK(without_idle(at_target) == without_idle(at_source));
    }
  }
  // Of each pending entry: id, consumer, deliveries; and its idle time in tenths of a second.
  static std::string without_idle(const std::string& reply) {
    std::istringstream words(reply);
    std::string text;
    std::string id;
    std::string consumer;
    std::string idle;
    std::string deliveries;
    while (words >> id >> consumer >> idle >> deliveries) {
      text += id + consumer + deliveries + "\n";
    }
    return text;
  }
};

TEST_CASE("pieces: a string, as long as it is or empty") {
  Rig rig;
  rig.lua(kSource, "redis.call('SET', 'k', string.rep('0123456789', 100000))");
  rig.ask(kTarget, {"RPUSH", "k", "an older copy"});
  rig.ask(kTarget, {"SET", kHidden, "of an earlier try"});
  CHECK(rig.copy("k", false).fate == WriteFate::Ok);
  CHECK(rig.pieces == 4);
  CHECK(rig.first.key_bytes > 1'000'000);
  rig.same({"GET", "k"});
  CHECK(rig.ask(kTarget, {"EXISTS", kHidden}) == "0");
  rig.ask(kSource, {"SET", "k", ""});
  CHECK(rig.copy("k").fate == WriteFate::Ok);
  rig.same({"EXISTS", "k"});
  rig.ask(kSource, {"SET", "k", "12"});
  CHECK(rig.copy("k").fate == WriteFate::Ok);
  CHECK(rig.ask(kTarget, {"INCR", "k"}) == "13");
  rig.ask(kSource, {"PFADD", "p", "a", "b", "c"});
  CHECK(rig.copy("p").fate == WriteFate::Ok);
  rig.same({"PFCOUNT", "p"});
}

TEST_CASE("pieces: lists, sets, hashes and sorted sets, large and small") {
  Rig rig;
  const std::string many = "20000";
  for (const std::string& n : {std::string("3"), many}) {
    CAPTURE(n);
    rig.lua(kSource, "redis.call('DEL', 'l', 'i', 'm', 'h', 'z') for i = 1, " + n +
                         " do redis.call('RPUSH', 'l', 'element ' .. i) "
                         "redis.call('SADD', 'i', i) redis.call('SADD', 'm', 'member ' .. i) "
                         "redis.call('HSET', 'h', 'field ' .. i, string.rep('v', i % 90)) "
                         "redis.call('ZADD', 'z', i / 7, 'm' .. i) end "
                         "redis.call('ZADD', 'z', 'inf', 'top', '-inf', 'bottom', "
                         "'0.1', 'x', '5e-324', 'tiny', '1.7976931348623157e308', 'huge')");
    for (const char* key : {"l", "i", "m", "h", "z"}) {
      CAPTURE(key);
      CHECK(rig.copy(key).text.empty());
      CHECK(rig.pieces == (n == "3" ? 1 : rig.pieces));
      if (n != "3") CHECK(rig.pieces >= 40);
    }
    rig.same({"LRANGE", "l", "0", "-1"});
    rig.same({"ZRANGE", "z", "0", "-1", "WITHSCORES"});
    for (const char* key : {"i", "m"}) rig.same({"SORT", key, "ALPHA"});
    rig.same({"HLEN", "h"});
    for (int i = 1; i <= std::stoi(n); i += 7) {
      rig.same({"HGET", "h", "field " + std::to_string(i)});
    }
  }
}

TEST_CASE("pieces: as many elements as fit into the limit's steps, and a large one alone") {
  Rig rig;
  rig.lua(kSource, "for i = 1, 300 do redis.call('RPUSH', 'l', string.rep('x', 3000)) end");
  rig.source.set_limits({100'000}, 0);
  const PieceRead piece = rig.act<PieceRead>(ReadPiece{"l", {}, false});
  CHECK(piece.bytes > 20'000);
  CHECK(piece.bytes <= 40'000);
  CHECK(rig.act<PieceRead>(ReadPiece{"none", {}, false}).fate == Fate::Gone);
  rig.ask(kSource, {"SET", "small", "1"});
  CHECK(rig.act<PieceRead>(ReadPiece{"small", {}, false}).fate == Fate::Small);
}

TEST_CASE("pieces: a key that turns into another type meanwhile is told as changed") {
  Rig rig;
  rig.lua(kSource, "for i = 1, 2000 do redis.call('RPUSH', 'k', i) end");
  const PieceRead piece = rig.act<PieceRead>(ReadPiece{"k", {}, true});
  rig.ask(kSource, {"SET", "k", "1"});
  CHECK(rig.act<PieceRead>(ReadPiece{"k", piece.next, true}).fate == Fate::Changed);
  CHECK(rig.act<Published>(Publish{"k", "list"}).fate == WriteFate::Incomplete);
}

TEST_CASE("pieces: a hidden copy that was lost in between is not published") {
  Rig rig;
  rig.lua(kSource, "for i = 1, 3000 do redis.call('SADD', 'k', 'member ' .. i) end");
  rig.ask(kTarget, {"SET", "k", "an older copy"});
  int piece = 0;
  const Published published = rig.copy("k", true, [&] {
    if (++piece == 2) rig.ask(kTarget, {"DEL", kHidden});
  });
  CHECK(published.fate == WriteFate::Incomplete);
  CHECK(rig.ask(kTarget, {"GET", "k"}) == "an older copy");
  rig.act<Caught>(CatchFeeds{});
}

TEST_CASE("pieces: the expiry goes along; in the past it leaves nothing, not even an older copy") {
  Rig rig;
  rig.ask(kSource, {"SET", "k", "new", "PXAT", "4102444800123"});
  CHECK(rig.copy("k").fate == WriteFate::Ok);
  CHECK(rig.ask(kTarget, {"PEXPIRETIME", "k"}) == "4102444800123");
  // Expired only by the target's clock: it lives longer on the source.
  rig.ask(kSource, {"SET", "k", "newer", "PX", "60"});
  rig.act<PieceRead>(ReadPiece{"k", {}, true});
  rig.act<PieceWritten>(WritePiece{{{"SET", kHidden, "newer"}}, true});
  rig.servers.pause(kTarget);
  const Published published = [&] {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      rig.servers.go_on(kTarget);
    });
    Published result = rig.act<Published>(Publish{"k", "string"});
    later.join();
    return result;
  }();
  CHECK(published.fate == WriteFate::Incomplete);
}

TEST_CASE("pieces: what the target refuses is told") {
  Rig rig;
  rig.ask(kSource, {"SET", "k", "1"});
  const PieceRead piece = rig.act<PieceRead>(ReadPiece{"k", {}, true});
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory", "1"});
  CHECK(rig.act<PieceWritten>(WritePiece{piece.commands, true}).fate == WriteFate::OutOfMemory);
  rig.ask(kTarget, {"CONFIG", "SET", "maxmemory", "0"});
  CHECK(rig.act<PieceWritten>(WritePiece{piece.commands, true}).fate == WriteFate::Ok);
  rig.ask(kTarget, {"CONFIG", "SET", "min-replicas-to-write", "1"});
  CHECK(rig.act<PieceWritten>(WritePiece{piece.commands, true}).fate == WriteFate::NotNow);
  CHECK(rig.act<Published>(Publish{"k", "string"}).fate == WriteFate::NotNow);
}

// 3,000 entries; g: two consumers with pending entries, one without; h: nothing pending. Some
// entries are deleted, pending ones among them, the first and the last too.
void make_stream(Rig& rig) {
  rig.lua(
      kSource,
      "for i = 1, 3000 do redis.call('XADD', 's', i .. '-1', 'field', 'value ' .. i, 'n', i) end "
      "redis.call('XGROUP', 'CREATE', 's', 'g', '0') "
      "redis.call('XGROUP', 'CREATE', 's', 'h', '17-1') "
      "redis.call('XGROUP', 'CREATECONSUMER', 's', 'g', 'idle one') "
      "redis.call('XREADGROUP', 'GROUP', 'g', 'ana', 'COUNT', 1700, 'STREAMS', 's', '>') "
      "redis.call('XREADGROUP', 'GROUP', 'g', 'eva', 'COUNT', 1300, 'STREAMS', 's', '>') "
      "redis.call('XCLAIM', 's', 'g', 'ana', 0, '2500-1', '2501-1', 'TIME', 1700000000000, "
      "'RETRYCOUNT', 7) "
      "for i = 20, 1400, 2 do redis.call('XACK', 's', 'g', i .. '-1') end "
      "redis.call('XDEL', 's', '1-1', '5-1', '6-1', '7-1', '800-1', '3000-1')");
}

TEST_CASE("pieces: a stream with its groups, consumers, pending entries and last ids") {
  Rig rig;
  make_stream(rig);
  CHECK(rig.copy("s").text.empty());
  CHECK(rig.first.pending == 3000 - 691);
  CHECK(rig.pieces >= 7);
  rig.same_stream();
  for (const char* consumer : {"ana", "eva"}) {
    const std::string pending =
        rig.ask(kSource, {"XPENDING", "s", "g", "-", "+", "9999", consumer});
    CHECK(Rig::without_idle(rig.ask(kTarget, {"XPENDING", "s", "g", "-", "+", "9999", consumer})) ==
          Rig::without_idle(pending));
  }
  const std::string idle = rig.ask(kTarget, {"XPENDING", "s", "g", "2500-1", "2500-1", "1"});
  CHECK(idle.find(" 7 ") != std::string::npos);
  rig.same({"XLEN", "s"});
}

TEST_CASE("pieces: streams without entries, or without groups") {
  Rig rig;
  rig.ask(kSource, {"XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"});
  CHECK(rig.copy("s").text.empty());
  rig.same({"XINFO", "STREAM", "s"});
  rig.same({"XINFO", "GROUPS", "s"});
  rig.ask(kSource, {"XGROUP", "DESTROY", "s", "g"});
  rig.ask(kSource, {"XADD", "s", "5-5", "f", "v"});
  rig.ask(kSource, {"XDEL", "s", "5-5"});
  CHECK(rig.copy("s").text.empty());
  rig.same({"XINFO", "STREAM", "s"});
  rig.same({"XINFO", "GROUPS", "s"});
  rig.ask(kSource, {"XADD", "s", "6-5", "f", "v"});
  CHECK(rig.copy("s").text.empty());
  rig.same({"XINFO", "STREAM", "s"});
}

TEST_CASE("pieces: groups that changed after the entries were copied are made alike") {
  Rig rig;
  make_stream(rig);
  REQUIRE(rig.copy("s").text.empty());
  const auto at = rig.first.read_at_ms;
  SUBCASE("acknowledged, claimed, read on") {
    rig.lua(kSource,
            "for i = 1500, 1600 do redis.call('XACK', 's', 'g', i .. '-1') end "
            "for i = 1601, 1650 do redis.call('XCLAIM', 's', 'g', 'neu', 0, i .. '-1') end "
            "redis.call('XREADGROUP', 'GROUP', 'h', 'ana', 'COUNT', 50, 'STREAMS', 's', '>')");
  }
  SUBCASE("groups and consumers come and go") {
    rig.lua(kSource,
            "redis.call('XGROUP', 'DELCONSUMER', 's', 'g', 'eva') "
            "redis.call('XGROUP', 'DESTROY', 's', 'h') "
            "redis.call('XGROUP', 'CREATE', 's', 'new', '100-1') "
            "redis.call('XREADGROUP', 'GROUP', 'new', 'ana', 'COUNT', 10, 'STREAMS', 's', '>')");
  }
  SUBCASE("ids are set") {
    rig.lua(kSource,
            "redis.call('XGROUP', 'SETID', 's', 'h', '99-1') "
            "redis.call('XSETID', 's', '5000-0', 'ENTRIESADDED', 9999, 'MAXDELETEDID', '4000-1')");
  }
  const GroupsRenewed renewed = rig.renew(at);
  CHECK(renewed.text.empty());
  CHECK(renewed.fate == WriteFate::Ok);
  CHECK(renewed.read_at_ms >= at);
  rig.same_stream();
}

TEST_CASE("pieces: groups that nobody touched are not read again, busy ones not beyond the limit") {
  Rig rig;
  make_stream(rig);
  REQUIRE(rig.copy("s").text.empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // All consumers were seen before: figures are enough.
  const std::string now = rig.ask(kSource, {"TIME"});
  const std::int64_t now_ms = std::stoll(now.substr(0, now.find(' '))) * 1000 + 999;
  CHECK(rig.renew(now_ms, 0).fate == WriteFate::Ok);
  rig.ask(kSource, {"XREADGROUP", "GROUP", "h", "ana", "COUNT", "1", "STREAMS", "s", ">"});
  CHECK(rig.renew(0, 100).fate == WriteFate::Incomplete);
  CHECK(rig.renew(0).fate == WriteFate::Ok);
  rig.same_stream();
  SUBCASE("other entries are not its affair") {
    rig.ask(kSource, {"XADD", "s", "9000-1", "f", "v"});
    CHECK(rig.renew(0).fate == WriteFate::Incomplete);
  }
  SUBCASE("nor is a stream that is gone") {
    rig.ask(kSource, {"DEL", "s"});
    CHECK(rig.renew(0).fate == WriteFate::Incomplete);
  }
}

// A source as newer servers are, whose hashes' fields may expire.
TEST_CASE("pieces: fields that expire do so on the target too") {
  std::vector<Words> asked;
  std::vector<std::string> answers;
  const Ask source = [&](const std::vector<Words>& commands,
                         std::uint64_t) -> std::expected<NodeLink::Replies, NodeLost> {
    static std::vector<std::string> kept;
    static std::vector<std::string_view> replies;
    kept.clear();
    replies.clear();
    for (const Words& command : commands) {
      asked.push_back(command);
      const std::string& name = command[0];
      if (name == "TYPE") kept.emplace_back("+hash\r\n");
      if (name == "MEMORY") kept.emplace_back(":500\r\n");
      if (name == "HLEN") kept.emplace_back(":2\r\n");
      if (name == "HSCAN") {
        kept.emplace_back("*2\r\n$1\r\n0\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n");
      }
      if (name == "HPEXPIRETIME") {
        kept.emplace_back(command[3] == "1" ? "*1\r\n:-2\r\n" : "*2\r\n:-1\r\n:4102444800123\r\n");
      }
    }
    for (const std::string& text : kept) replies.emplace_back(text);
    return NodeLink::Replies(replies);
  };
  const auto piece = read_piece({"k", {}, true}, {.name = "hidden"}, source);
  REQUIRE(piece);
  CHECK(piece->is_last);
  CHECK(piece->commands ==
        std::vector<Words>{{"HSET", "hidden", "a", "1", "b", "2"},
                           {"HPEXPIREAT", "hidden", "4102444800123", "FIELDS", "1", "b"}});
}

}  // namespace
}  // namespace proxy::mover
