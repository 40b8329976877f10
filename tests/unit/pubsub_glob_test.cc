#include <doctest/doctest.h>

#include <string>

#include "proxy/pubsub/glob.h"

namespace {

using proxy::pubsub::matches;

TEST_CASE("a pattern without signs is the name itself") {
  CHECK(matches("news", "news"));
  CHECK_FALSE(matches("news", "new"));
  CHECK_FALSE(matches("news", "newsx"));
  CHECK_FALSE(matches("news", "News"));
}

TEST_CASE("a star stands for anything, a question mark for one character") {
  CHECK(matches("*", "a"));
  CHECK(matches("n*s", "news"));
  CHECK(matches("n*s", "ns"));
  CHECK(matches("n**s*", "newsletter"));
  CHECK(matches("*a*b*c*", "xaxbxcx"));
  CHECK_FALSE(matches("*a*b*c*", "xaxcxbx"));
  CHECK(matches("n?ws", "news"));
  CHECK_FALSE(matches("n?ws", "nws"));
  CHECK_FALSE(matches("news?", "news"));
}

TEST_CASE("a set is one character of those, or of none") {
  CHECK(matches("n[aeu]ws", "news"));
  CHECK_FALSE(matches("n[aeu]ws", "nows"));
  CHECK(matches("[a-c][c-a]", "bb"));
  CHECK_FALSE(matches("[a-c]", "d"));
  CHECK(matches("[^a-c]", "d"));
  CHECK_FALSE(matches("[^a-c]", "a"));
  CHECK(matches("[a\\]]x", "]x"));
  CHECK(matches("[a-", "-"));
  CHECK(matches("[ab", "b"));
  CHECK_FALSE(matches("[]", "a"));
  CHECK(matches("[^]", "a"));
  CHECK(matches("[\x80-\xff]", "\xc3"));
}

TEST_CASE("a backslash takes the meaning from what follows") {
  CHECK(matches("a\\*", "a*"));
  CHECK_FALSE(matches("a\\*", "ab"));
  CHECK(matches("a\\", "a\\"));
  CHECK(matches("\\[x]", "[x]"));
}

TEST_CASE("nothing but an empty pattern is an empty name, as with Redis") {
  CHECK(matches("", ""));
  CHECK_FALSE(matches("*", ""));
  CHECK_FALSE(matches("", "a"));
}

TEST_CASE("many stars take no time beyond both lengths multiplied") {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "b", std::string(20'000, 'a')));
}

}  // namespace
