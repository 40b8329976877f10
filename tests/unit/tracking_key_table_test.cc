#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proxy/tracking/key_table.h"

using proxy::tracking::KeyTable;

namespace {

std::vector<KeyTable::Reader> take(KeyTable& table, std::string_view key) {
  std::vector<KeyTable::Reader> readers;
  table.visit(key, [&](KeyTable::Reader reader) {
    readers.push_back(reader);
    return false;
  });
  return readers;
}

}  // namespace

TEST_CASE("a key is told to each of its readers once") {
  KeyTable table;
  table.add("a", 7);
  table.add("a", 3);
  table.add("a", 7);
  table.add("b", 3);
  CHECK(table.keys() == 2);
  CHECK(table.readers() == 3);
  CHECK(take(table, "a") == std::vector<KeyTable::Reader>{3, 7});
  CHECK(take(table, "a").empty());
  CHECK(take(table, "nobody's").empty());
  CHECK(table.keys() == 1);
  CHECK(table.readers() == 1);
}

TEST_CASE("a reader may stay in the table of keys") {
  KeyTable table;
  table.add("a", 1);
  table.add("a", 2);
  table.visit("a", [](KeyTable::Reader reader) { return reader == 2; });
  CHECK(table.readers() == 1);
  CHECK(take(table, "a") == std::vector<KeyTable::Reader>{2});
  CHECK(table.empty());
  CHECK(table.weight() == 0);
}

TEST_CASE("the oldest key leaves the table first, however often it was read since") {
  KeyTable table;
  table.add("a", 1);
  table.add("b", 1);
  table.add("c", 1);
  table.add("a", 2);
  const std::vector<KeyTable::Reader> gone = take(table, "b");
  CHECK(gone.size() == 1);
  const KeyTable::Oldest first = table.pop_oldest();
  CHECK(first.key == "a");
  CHECK(first.readers == std::vector<KeyTable::Reader>{1, 2});
  CHECK(table.pop_oldest().key == "c");
  CHECK(table.empty());
  CHECK(table.readers() == 0);
  CHECK(table.weight() == 0);
  table.add("d", 1);
  CHECK(table.pop_oldest().key == "d");
}

TEST_CASE("long keys and keys with many readers weigh more in the table") {
  KeyTable table;
  table.add("short", 1);
  CHECK(table.weight() == 1);
  table.add(std::string(10 * KeyTable::kBytesPerUnit, 'x'), 1);
  CHECK(table.weight() == 12);
  for (KeyTable::Reader reader = 0; reader < 10 * KeyTable::kReadersPerUnit; ++reader)
    table.add("short", reader);
  CHECK(table.weight() == 22);
  table.clear();
  CHECK(table.weight() == 0);
  CHECK(table.readers() == 0);
  CHECK(table.empty());
}
