#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proxy/resp/error_text.h"

using proxy::resp::unknown_command;
using proxy::resp::unknown_subcommand;
using proxy::resp::wrong_arity;
using Words = std::vector<std::string_view>;

// The texts here are what a redis-server 7.0.15 was seen to answer.

TEST_CASE("a wrong number of arguments is told with the command's name") {
  CHECK(wrong_arity("get") == "ERR wrong number of arguments for 'get' command");
  CHECK(wrong_arity("client|setname") ==
        "ERR wrong number of arguments for 'client|setname' command");
}

TEST_CASE("an unknown command is told with what followed it") {
  CHECK(unknown_command(Words{"foo"}) == "ERR unknown command 'foo', with args beginning with: ");
  CHECK(unknown_command(Words{"Foo", "a", "", "b"}) ==
        "ERR unknown command 'Foo', with args beginning with: 'a' '' 'b' ");
}

TEST_CASE("an unknown command's name and arguments are cut where Redis cuts them") {
  std::string f(300, 'f');
  std::string x(300, 'x');
  SUBCASE("128 bytes of each when one is longer") {
    CHECK(unknown_command(Words{f, x}) == "ERR unknown command '" + f.substr(0, 128) +
                                              "', with args beginning with: '" + x.substr(0, 128) +
                                              "' ");
  }
  SUBCASE("an argument gets what its forerunners left of 128, their quotes counted") {
    CHECK(unknown_command(Words{"foo", x.substr(0, 120), "yyyyyyyyyyyyyyyyyyyy", "z"}) ==
          "ERR unknown command 'foo', with args beginning with: '" + x.substr(0, 120) +
              "' 'yyyyy' ");
  }
  SUBCASE("the next is left out when nothing is left") {
    CHECK(unknown_command(Words{"foo", x.substr(0, 126), "y"}) ==
          "ERR unknown command 'foo', with args beginning with: '" + x.substr(0, 126) + "' ");
  }
}

TEST_CASE("an unknown subcommand points to the container's help") {
  CHECK(unknown_subcommand("client", "foo") == "ERR unknown subcommand 'foo'. Try CLIENT HELP.");
  CHECK(unknown_subcommand("client", "") == "ERR unknown subcommand ''. Try CLIENT HELP.");
  CHECK(unknown_subcommand("config", std::string(300, 'x')) ==
        "ERR unknown subcommand '" + std::string(128, 'x') + "'. Try CONFIG HELP.");
}

TEST_CASE("an error is one line, whatever a client sends") {
  CHECK(unknown_command(Words{"f\r\no", "a\r\nb"}) ==
        "ERR unknown command 'f  o', with args beginning with: 'a  b' ");
  CHECK(unknown_subcommand("client", "fo\no") == "ERR unknown subcommand 'fo o'. Try CLIENT HELP.");
}

TEST_CASE("a zero ends what is shown, as in Redis") {
  using std::string_view_literals::operator""sv;
  CHECK(unknown_command(Words{"get\0x"sv, "a\0b"sv, "c"}) ==
        "ERR unknown command 'get', with args beginning with: 'a' 'c' ");
  CHECK(unknown_subcommand("client", "a\0b"sv) == "ERR unknown subcommand 'a'. Try CLIENT HELP.");
}
