#include <doctest/doctest.h>

#include "admin/table.h"
#include "admin/text.h"

using namespace admin;

TEST_CASE("counts have thousands separators") {
  CHECK(with_thousands(0) == "0");
  CHECK(with_thousands(999) == "999");
  CHECK(with_thousands(1000) == "1,000");
  CHECK(with_thousands(16384) == "16,384");
  CHECK(with_thousands(18446744073709551615ULL) == "18,446,744,073,709,551,615");
}

TEST_CASE("large numbers are cut to three digits and a unit") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(1204.4) == "1,204");
  CHECK(short_number(9999) == "9,999");
  CHECK(short_number(10000) == "10.0 k");
  CHECK(short_number(41234) == "41.2 k");
  CHECK(short_number(403'400) == "403 k");
  CHECK(short_number(999'600) == "1.00 M");
  CHECK(short_number(1'210'000) == "1.21 M");
  CHECK(short_number(5e16) == "50000 T");
}

TEST_CASE("sizes have units of powers of ten") {
  CHECK(byte_size(0) == "0 B");
  CHECK(byte_size(999) == "999 B");
  CHECK(byte_size(1000) == "1.0 KB");
  CHECK(byte_size(999'700) == "1.0 MB");
  CHECK(byte_size(1'100'000'000) == "1.1 GB");
  CHECK(byte_size(61'000'000'000) == "61.0 GB");
}

TEST_CASE("a node's memory is in the unit of its limit") {
  CHECK(memory(1'100'000'000, 4'000'000'000) == "1.1 of 4.0 GB");
  CHECK(memory(1'000'000, 2'000'000'000) == "0.0 of 2.0 GB");
  CHECK(memory(1'500'000, 0) == "1.5 MB");
}

TEST_CASE("shares are percents") {
  CHECK(percent(4096, 16384) == "25.0 %");
  CHECK(percent(1, 16384) == "0.0 %");
  CHECK(percent(1, 0) == "0.0 %");
}

TEST_CASE("durations have the two units that matter") {
  CHECK(duration(0) == "0 s");
  CHECK(duration(59) == "59 s");
  CHECK(duration(60) == "1m 0s");
  CHECK(duration(3599) == "59m 59s");
  CHECK(duration(3600) == "1h 0m");
  CHECK(duration(86399) == "23h 59m");
  CHECK(duration(273'600) == "3d 4h");
}

TEST_CASE("one thing is not many things") {
  CHECK(counted(1, "key") == "1 key");
  CHECK(counted(0, "key") == "0 keys");
  CHECK(counted(1204, "client") == "1,204 clients");
}

TEST_CASE("a key that can't be misread is printed as it is") {
  CHECK(printable("cart:{42}") == "cart:{42}");
  CHECK(printable("señal") == "señal");
}

TEST_CASE("a key that could be misread is quoted and escaped") {
  CHECK(printable("") == "\"\"");
  CHECK(printable("a b") == "\"a b\"");
  CHECK(printable("a\"b\\") == "\"a\\\"b\\\\\"");
  CHECK(printable("a\n\r\t") == "\"a\\n\\r\\t\"");
  CHECK(printable("\x1b[31m") == "\"\\x1b[31m\"");
  CHECK(printable(std::string("\0", 1)) == "\"\\x00\"");
  SUBCASE("bytes that are no UTF-8") { CHECK(printable("caf\xe9") == "\"caf\\xe9\""); }
  SUBCASE("control characters in UTF-8, which terminals obey too") {
    CHECK(printable("a\xc2\x9bz") == "\"a\\xc2\\x9bz\"");
  }
}

TEST_CASE("columns are as wide as their widest cell, in characters") {
  Table table({{"NAME"}, {"N", Align::Right}, {"NOTE"}});
  table.add({"señal", "1"});
  table.add({"x", "1,000", "new"});
  CHECK(table.text(false) ==
        "NAME       N  NOTE\n"
        "señal      1\n"
        "x      1,000  new\n");
}

TEST_CASE("a column of which nothing is seen takes no place") {
  Table table({{"A"}, {""}, {"B"}});
  table.add({"1", "", "2"});
  CHECK(table.text(false) == "A  B\n1  2\n");
}

TEST_CASE("colour changes neither words nor widths") {
  Table table({{""}, {""}});
  table.add({{"ok", Colour::Good}, "a"});
  table.add({{"down", Colour::Bad}, "b"});
  CHECK(table.text(false) == "ok    a\ndown  b\n");
  CHECK(table.text(true) == "\x1b[32mok\x1b[0m    a\n\x1b[31mdown\x1b[0m  b\n");
}

TEST_CASE("a line is clipped to the columns there are, by code points") {
  CHECK(clipped("abcdef", 6) == "abcdef");
  CHECK(clipped("abcdef", 5) == "abcd…");
  CHECK(clipped("█░→é", 3) == "█░…");
  CHECK(clipped("abc", 1) == "…");
}
