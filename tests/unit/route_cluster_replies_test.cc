#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "proxy/resp/reply_cursor.h"
#include "proxy/route/cluster_replies.h"

namespace {

using proxy::resp::ReplyCursor;
using proxy::route::ClusterNodeFacts;
using proxy::route::ClusterReplies;
using slots::NodeIndex;
using slots::SlotId;

const std::string kBcn = slots::node_id_of("shop", "bcn");
const std::string kVlc = slots::node_id_of("shop", "vlc");
const std::string kGir = slots::node_id_of("shop", "gir");

// bcn owns all but 100 to 199, which are vlc's; gir owns nothing.
slots::SlotMap shop_map(slots::Epoch epoch = 7) {
  slots::SlotMap::Owners owners{};
  for (SlotId slot = 100; slot < 200; ++slot) owners[slot] = 1;
  auto map =
      slots::SlotMap::create({{.name = "bcn"}, {.name = "vlc"}, {.name = "gir"}}, owners, epoch);
  REQUIRE(map);
  return *map;
}

ClusterNodeFacts facts_of(const std::string& name, const std::string& host, std::uint16_t port,
                          bool is_healthy = true) {
  ClusterNodeFacts facts;
  facts.id = slots::node_id_of("shop", name);
  facts.name = name;
  facts.announced.host = host;
  facts.announced.port = port;
  facts.healthy = is_healthy;
  return facts;
}

ClusterReplies shop_replies(slots::Epoch epoch = 7) {
  return {"shop",
          shop_map(epoch),
          {facts_of("bcn", "10.0.0.1", 6401), facts_of("vlc", "shop-2.example.net", 60000, false),
           facts_of("gir", "::1", 6403)}};
}

std::string text_of(std::string_view reply) {
  ReplyCursor cursor(reply);
  auto text = cursor.read_bulk();
  REQUIRE(text);
  CHECK(cursor.at_end());
  return std::string(*text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "host:port id" of each range's node, by "first-last", as one of the answers tells it.
using Ownership = std::map<std::string, std::string>;

std::string range_text(std::int64_t first, std::int64_t last) {
  return std::to_string(first) + "-" + std::to_string(last);
}

Ownership from_slots(std::string_view reply) {
  Ownership ownership;
  ReplyCursor cursor(reply);
  for (auto left = cursor.read_header()->count; left > 0; --left) {
    cursor.read_header();
    auto first = *cursor.read_integer();
    auto last = *cursor.read_integer();
    cursor.read_header();
    std::string host(*cursor.read_bulk());
    auto port = *cursor.read_integer();
    std::string id(*cursor.read_bulk());
    cursor.skip();
    ownership[range_text(first, last)] = host + ":" + std::to_string(port) + " " + id;
  }
  CHECK(cursor.at_end());
  return ownership;
}

Ownership from_shards(std::string_view reply) {
  Ownership ownership;
  ReplyCursor cursor(reply);
  for (auto shards = cursor.read_header()->count; shards > 0; --shards) {
    cursor.read_header();
    cursor.read_bulk();
    std::vector<std::string> ranges;
    for (auto left = cursor.read_header()->count; left > 0; left -= 2) {
      auto first = *cursor.read_integer();
      ranges.push_back(range_text(first, *cursor.read_integer()));
    }
    cursor.read_bulk();
    cursor.read_header();
    auto fields = *cursor.read_header();
    std::map<std::string, std::string> node;
    for (auto left = fields.type == '%' ? fields.count : fields.count / 2; left > 0; --left) {
      std::string name(*cursor.read_bulk());
      std::string_view value = cursor.read_raw();
      ReplyCursor text(value);
      node[name] = value.starts_with(':') ? std::to_string(*text.read_integer())
                                          : std::string(*text.read_bulk());
    }
    CHECK(node["ip"] == node["endpoint"]);
    for (const std::string& range : ranges) {
      ownership[range] = node["endpoint"] + ":" + node["port"] + " " + node["id"];
    }
  }
  CHECK(cursor.at_end());
  return ownership;
}

Ownership from_nodes(std::string_view reply) {
  Ownership ownership;
  for (const std::string& line : lines_of(text_of(reply))) {
    auto words = words_of(line);
    REQUIRE(words.size() >= 8);
    for (std::size_t i = 8; i < words.size(); ++i) {
      ownership[words[i]] = words[1].substr(0, words[1].find('@')) + " " + words[0];
    }
  }
  return ownership;
}

}  // namespace

TEST_CASE("CLUSTER SLOTS lists every range with host, port, id and metadata") {
  ClusterReplies replies = shop_replies();
  auto node = [](const std::string& host_port, const std::string& id, const std::string& metadata) {
    return "*4\r\n" + host_port + "$40\r\n" + id + "\r\n" + metadata;
  };
  auto expected = [&](const std::string& metadata) {
    std::string bcn = node("$8\r\n10.0.0.1\r\n:6401\r\n", kBcn, metadata);
    std::string vlc = node("$18\r\nshop-2.example.net\r\n:60000\r\n", kVlc, metadata);
    return "*3\r\n*3\r\n:0\r\n:99\r\n" + bcn + "*3\r\n:100\r\n:199\r\n" + vlc +
           "*3\r\n:200\r\n:16383\r\n" + bcn;
  };
  CHECK(replies.slots(false) == expected("*0\r\n"));
  CHECK(replies.slots(true) == expected("%0\r\n"));
}

TEST_CASE("CLUSTER SHARDS has each node, those without slots too, field by field") {
  ClusterReplies replies = shop_replies();
  auto shard = [](const std::string& slot_list, const std::string& id, const std::string& port,
                  const std::string& host, const std::string& health, bool resp3) {
    return (resp3 ? "%2\r\n" : "*4\r\n") + ("$5\r\nslots\r\n" + slot_list) +
           "$5\r\nnodes\r\n*1\r\n" + (resp3 ? "%7\r\n" : "*14\r\n") + "$2\r\nid\r\n$40\r\n" + id +
           "\r\n$4\r\nport\r\n" + port + "$2\r\nip\r\n" + host + "$8\r\nendpoint\r\n" + host +
           "$4\r\nrole\r\n$6\r\nmaster\r\n$18\r\nreplication-offset\r\n:0\r\n$6\r\nhealth\r\n" +
           health;
  };
  for (bool resp3 : {false, true}) {
    CAPTURE(resp3);
    CHECK(replies.shards(resp3) ==
          "*3\r\n" +
              shard("*4\r\n:0\r\n:99\r\n:200\r\n:16383\r\n", kBcn, ":6401\r\n",
                    "$8\r\n10.0.0.1\r\n", "$6\r\nonline\r\n", resp3) +
              shard("*2\r\n:100\r\n:199\r\n", kVlc, ":60000\r\n", "$18\r\nshop-2.example.net\r\n",
                    "$4\r\nfail\r\n", resp3) +
              shard("*0\r\n", kGir, ":6403\r\n", "$3\r\n::1\r\n", "$6\r\nonline\r\n", resp3));
  }
}

TEST_CASE("CLUSTER NODES has a line for each node, and one of them is myself") {
  ClusterReplies replies = shop_replies();
  std::string bcn = kBcn + " 10.0.0.1:6401@16401 ";
  std::string vlc = kVlc + " shop-2.example.net:60000@60000 ";
  std::string gir = kGir + " ::1:6403@16403 ";
  std::string bcn_rest = "master - 0 0 7 connected 0-99 200-16383\n";
  std::string vlc_rest = "master - 0 0 7 connected 100-199\n";
  std::string gir_rest = "master - 0 0 7 connected\n";
  SUBCASE("at each endpoint its own") {
    CHECK(text_of(replies.nodes(0, false)) ==
          bcn + "myself," + bcn_rest + vlc + vlc_rest + gir + gir_rest);
    CHECK(text_of(replies.nodes(1, false)) ==
          bcn + bcn_rest + vlc + "myself," + vlc_rest + gir + gir_rest);
    CHECK(text_of(replies.nodes(2, false)) ==
          bcn + bcn_rest + vlc + vlc_rest + gir + "myself," + gir_rest);
  }
  SUBCASE("the first where the address asked is no node's") {
    CHECK(replies.nodes(slots::kNoNode, false) == replies.nodes(0, false));
  }
  SUBCASE("as text in RESP3, as a string in RESP2") {
    std::string text = text_of(replies.nodes(1, false));
    CHECK(replies.nodes(1, false) == "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
    CHECK(replies.nodes(1, true) ==
          "=" + std::to_string(text.size() + 4) + "\r\ntxt:" + text + "\r\n");
  }
}

TEST_CASE("CLUSTER INFO says ok, whatever the nodes do, and counts what the map has") {
  std::string text = text_of(shop_replies(9).info(false));
  CHECK(text ==
        "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n"
        "cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:3\r\n"
        "cluster_size:2\r\ncluster_current_epoch:9\r\ncluster_my_epoch:9\r\n"
        "cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n"
        "total_cluster_links_buffer_limit_exceeded:0\r\n");
  CHECK(shop_replies(9).info(true) ==
        "=" + std::to_string(text.size() + 4) + "\r\ntxt:" + text + "\r\n");
}

TEST_CASE("SLOTS, SHARDS, NODES and MOVED tell the same, in the same spelling") {
  ClusterReplies replies = shop_replies();
  Ownership slots_say = from_slots(replies.slots(false));
  REQUIRE(slots_say.size() == 3);
  CHECK(slots_say["100-199"] == replies.moved_suffix(1) + " " + kVlc);
  CHECK(slots_say["0-99"] == replies.moved_suffix(0) + " " + kBcn);
  CHECK(from_slots(replies.slots(true)) == slots_say);
  CHECK(from_shards(replies.shards(false)) == slots_say);
  CHECK(from_shards(replies.shards(true)) == slots_say);
  for (NodeIndex myself = 0; myself < 3; ++myself) {
    CHECK(from_nodes(replies.nodes(myself, false)) == slots_say);
    CHECK(from_nodes(replies.nodes(myself, true)) == slots_say);
  }
}

TEST_CASE("an IPv6 host stands without brackets, to be cut at the last colon") {
  CHECK(shop_replies().moved_suffix(2) == "::1:6403");
}

TEST_CASE("a node's and its shard's id are 40 hex digits, its own and lasting") {
  ClusterReplies replies = shop_replies();
  CHECK(text_of(replies.my_id(1)) == kVlc);
  std::string shard = text_of(replies.my_shard_id(1));
  CHECK(shard.size() == 40);
  CHECK(shard.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(shard != kVlc);
  CHECK(shard != text_of(replies.my_shard_id(0)));
  CHECK(replies.my_shard_id(1) == shop_replies(8).my_shard_id(1));
}

TEST_CASE("nodes are known by their ids") {
  ClusterReplies replies = shop_replies();
  CHECK(replies.find_id(kGir) == NodeIndex{2});
  CHECK_FALSE(replies.find_id("x"));
  CHECK_FALSE(replies.find_id(kGir.substr(0, 39)));
}

TEST_CASE("a map of single slots is told slot by slot") {
  slots::SlotMap::Owners owners{};
  for (std::size_t slot = 0; slot < slots::kSlotCount; ++slot) owners[slot] = slot % 2;
  auto map = slots::SlotMap::create({{.name = "bcn"}, {.name = "vlc"}}, owners);
  REQUIRE(map);
  ClusterReplies replies("shop", *map, {facts_of("bcn", "h", 1), facts_of("vlc", "h", 2)});
  Ownership slots_say = from_slots(replies.slots(false));
  CHECK(slots_say.size() == slots::kSlotCount);
  CHECK(from_shards(replies.shards(true)) == slots_say);
  Ownership nodes_say = from_nodes(replies.nodes(0, false));
  CHECK(nodes_say.size() == slots::kSlotCount);
  CHECK(nodes_say["16383"] == "h:2 " + kVlc);
}
