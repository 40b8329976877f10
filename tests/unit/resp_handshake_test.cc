#include <doctest/doctest.h>

#include "proxy/resp/handshake.h"

using namespace proxy::resp;

TEST_CASE("AUTH is sent with a password alone, with a name and a password, or not at all") {
  std::string out = "x";
  append_login(out, "", "");
  append_login(out, "name", "");
  CHECK(out == "x");
  append_login(out, "", "pw");
  CHECK(out == "x*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
  out.clear();
  append_login(out, "me", "pw");
  CHECK(out == "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n");
}

TEST_CASE("HELLO's reply says the connection's id in both protocol versions") {
  CHECK(client_id_in("*4\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:17\r\n") == 17);
  CHECK(client_id_in("%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:18446744073709551615\r\n") ==
        18446744073709551615U);
  CHECK(client_id_in("-ERR unknown command 'HELLO'\r\n") == 0);
}

TEST_CASE("an error's text is what stands between its sign and its end") {
  CHECK(error_text("-ERR no\r\n") == "ERR no");
  CHECK(error_text("-\r\n").empty());
}
