#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proxy/pubsub/registry.h"

namespace {

using proxy::pubsub::Kind;
using proxy::pubsub::Registry;

// Of two workers.
struct Subscribed : Registry {
  Subscribed() : Registry(2) {}
  bool add(unsigned worker, Kind kind, const std::string& name) {
    return Registry::add(worker, kind, name, 1);
  }
  std::vector<std::string> sorted_names(Kind kind, const std::string& pattern = "*") {
    std::vector<std::string> found = names(kind, pattern);
    std::ranges::sort(found);
    return found;
  }
};

TEST_CASE("the last subscriber of a topic is told apart from the others") {
  Subscribed r;
  CHECK_FALSE(r.has_any());
  CHECK_FALSE(r.add(0, Kind::Channel, "ch"));
  CHECK_FALSE(r.add(1, Kind::Channel, "ch"));
  CHECK(r.is_wanted(Kind::Channel, "ch"));
  CHECK_FALSE(r.is_wanted(Kind::Sharded, "ch"));
  CHECK_FALSE(r.remove(0, Kind::Channel, "ch", false));
  CHECK_FALSE(r.has_any(0));
  CHECK(r.has_any(1));
  CHECK(r.remove(1, Kind::Channel, "ch", false));
  CHECK_FALSE(r.is_wanted(Kind::Channel, "ch"));
  CHECK_FALSE(r.has_any());
}

TEST_CASE("receivers are the channel's subscribers and those of each pattern that fits") {
  Subscribed r;
  r.add(0, Kind::Channel, "news");
  r.add(1, Kind::Channel, "news");
  r.add(0, Kind::Pattern, "n*");
  r.add(0, Kind::Pattern, "*s");
  r.add(1, Kind::Pattern, "*s");
  r.add(0, Kind::Sharded, "news");
  CHECK(r.receivers("news") == 5);
  CHECK(r.receivers("nothing") == 1);
  CHECK(r.receivers("x") == 0);
  CHECK(r.subscribers(Kind::Channel, "news") == 2);
  CHECK(r.subscribers(Kind::Sharded, "news") == 1);
  CHECK(r.subscribers(Kind::Sharded, "x") == 0);
  CHECK(r.counts().channels == 1);
  CHECK(r.counts().patterns == 2);
  CHECK(r.counts().sharded == 1);
}

TEST_CASE("names are those with subscribers that match") {
  Subscribed r;
  for (const char* name : {"a1", "a2", "b1"}) r.add(0, Kind::Channel, name);
  r.add(0, Kind::Sharded, "a3");
  CHECK(r.sorted_names(Kind::Channel) == std::vector<std::string>{"a1", "a2", "b1"});
  CHECK(r.sorted_names(Kind::Channel, "a*") == std::vector<std::string>{"a1", "a2"});
  CHECK(r.sorted_names(Kind::Sharded) == std::vector<std::string>{"a3"});
}

TEST_CASE("a subscription is in force once the nodes of the worker's own table have it") {
  Subscribed r;
  r.add(0, Kind::Channel, "ch");
  r.set_in_force(Kind::Channel, "ch", true);
  CHECK_FALSE(r.Registry::add(0, Kind::Channel, "ch", 3));
  r.set_whole(3);
  CHECK(r.Registry::add(0, Kind::Channel, "ch", 3));
  CHECK_FALSE(r.Registry::add(0, Kind::Channel, "ch", 4));
  CHECK_FALSE(r.Registry::add(0, Kind::Channel, "other", 3));
  r.set_whole(0);
  CHECK_FALSE(r.Registry::add(0, Kind::Channel, "ch", 3));
}

TEST_CASE("who leaves counts no more, and still takes what was published before") {
  Subscribed r;
  r.add(0, Kind::Channel, "news");
  r.add(1, Kind::Channel, "news");
  r.add(0, Kind::Pattern, "n*");
  r.set_leaving(Kind::Channel, "news");
  CHECK(r.receivers("news") == 2);
  CHECK(r.subscribers(Kind::Channel, "news") == 1);
  r.set_leaving(Kind::Channel, "news");
  r.set_leaving(Kind::Pattern, "n*");
  CHECK(r.receivers("news") == 0);
  CHECK(r.names(Kind::Channel, "*").empty());
  CHECK(r.counts().channels == 0);
  CHECK(r.counts().patterns == 0);
  // The Hub goes on listening, and hands the worker what it hears.
  CHECK(r.is_wanted(Kind::Channel, "news"));
  CHECK(r.has_any(0));
  CHECK_FALSE(r.remove(0, Kind::Channel, "news", true));
  CHECK(r.receivers("news") == 0);
  r.add(0, Kind::Channel, "news");
  CHECK(r.receivers("news") == 1);
  CHECK_FALSE(r.remove(1, Kind::Channel, "news", true));
  CHECK(r.remove(0, Kind::Channel, "news", false));
}

TEST_CASE("what is subscribed anew is not in force because it was once") {
  Subscribed r;
  r.set_whole(1);
  r.add(0, Kind::Channel, "ch");
  r.set_in_force(Kind::Channel, "ch", true);
  CHECK(r.remove(0, Kind::Channel, "ch", false));
  CHECK_FALSE(r.add(0, Kind::Channel, "ch"));
  r.set_in_force(Kind::Channel, "nobody's", true);
  CHECK_FALSE(r.add(0, Kind::Channel, "nobody's"));
}

TEST_CASE("nodes are heard or not only while somebody listens") {
  Subscribed r;
  CHECK(r.hears("a"));
  r.add(0, Kind::Pattern, "*");
  CHECK_FALSE(r.hears("a"));
  r.set_heard_nodes({"a", "b"});
  CHECK(r.hears("b"));
  CHECK_FALSE(r.hears("c"));
}

}  // namespace
